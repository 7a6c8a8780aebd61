"""From a schema mapping to a list of fields; broken schemas raise ValueError."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .jsontext import refuse_surrogates

KEYS = {
    "type",
    "description",
    "choices",
    "choice_descriptions",
    "ordered",
    "depends_on",
    "set_constraints",
    "allow_none_of_above",
}
NONE = "none of the above"
TYPES = {"boolean": "boolean", "enum": "enum", "choice": "enum", "selection": "enum", "multi": "multi"}
LIMITS = {"enum": (1, 255), "multi": (2, 64)}


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    choices: list[str]
    description: str = ""
    glosses: dict[str, str] = field(default_factory=dict)
    depends_on: str | None = None
    ordered: bool = False


def fields_of(schema: dict[str, Any]) -> list[Field]:
    """The fields in input order."""
    if not schema:
        raise ValueError("a schema needs at least one field")
    fields = [_field(name, spec) for name, spec in schema.items()]
    _check_dependencies({f.name: f for f in fields})
    return fields


def alone(f: Field) -> Field:
    """A field as it is asked by itself: under a neutral name, so that what a caller calls it changes nothing."""
    return replace(f, name="answer", depends_on=None)


def rotated(f: Field, step: int, of: int, scales: bool) -> Field:
    """Its choices moved by ⌊step·n/of⌋ places."""
    if (f.type == "boolean" or f.ordered) and not scales:
        return f
    by = step * len(f.choices) // of
    return replace(f, choices=f.choices[by:] + f.choices[:by])


def canonical(f: Field) -> Field:
    """Its choices in code-point order."""
    return replace(f, choices=sorted(f.choices))


def one_line(description: str) -> str:
    """What the prompt shows of a description: the text before the first LF, without white space at its ends."""
    return description.split("\n", 1)[0].strip()


def _field(name: str, spec: dict[str, Any]) -> Field:
    if not name or any(c in name for c in "./#"):
        raise ValueError(f"{name!r}: a field name is non-empty and holds no '.', '/' or '#'")
    refuse_surrogates(name, "field name")
    if unknown := set(spec) - KEYS:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}")
    kind = TYPES.get(spec.get("type", "enum"))
    if kind is None:
        raise ValueError(f"{name}.type: one of {sorted(TYPES)}")
    glosses = dict(spec.get("choice_descriptions", {}))
    choices = _choices(name, kind, spec)
    if spec.get("allow_none_of_above"):
        if kind != "enum" or spec.get("ordered") or NONE in choices:
            raise ValueError(f"{name}.allow_none_of_above: an enum without order, and without that choice")
        choices.append(NONE)
    if unknown := set(glosses) - set(choices):
        raise ValueError(f"{name}.choice_descriptions: not choices: {sorted(unknown)}")
    for text in [*choices, *glosses.values(), spec.get("description", "")]:
        refuse_surrogates(text, name)
    if "ordered" in spec and kind != "enum":
        raise ValueError(f"{name}.ordered: enum only")
    if "set_constraints" in spec and kind != "multi":
        raise ValueError(f"{name}.set_constraints: multi only")
    description = one_line(spec.get("description", ""))
    return Field(name, kind, choices, description, glosses, spec.get("depends_on"), spec.get("ordered", False))


def _choices(name: str, kind: str, spec: dict[str, Any]) -> list[str]:
    if kind == "boolean":
        if spec.get("choices", ["true", "false"]) != ["true", "false"]:
            raise ValueError(f"{name}.choices: a boolean has exactly 'true', 'false'")
        return ["true", "false"]
    choices = list(spec.get("choices", []))
    least, most = LIMITS[kind]
    if not least <= len(choices) <= most:
        raise ValueError(f"{name}.choices: {least} to {most}, not {len(choices)}")
    if len(set(choices)) != len(choices):
        raise ValueError(f"{name}.choices: not distinct")
    return choices


def _check_dependencies(fields: dict[str, Field]) -> None:
    for f in fields.values():
        seen = [f.name]
        while (parent := fields[seen[-1]].depends_on) is not None:
            if parent not in fields or "multi" in (fields[parent].type, fields[seen[-1]].type):
                raise ValueError(f"{seen[-1]}.depends_on: another enum or boolean field")
            if parent in seen:
                raise ValueError(f"{f.name}.depends_on: a cycle")
            seen.append(parent)
