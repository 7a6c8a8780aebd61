"""JSON Schema: what of it can be decided, and a clear refusal of what cannot.

A property is a boolean, an enum (``enum``, ``const``, ``anyOf`` or ``oneOf`` of them, with ``null`` for none of the above) or an
array of an enum's values. The keys ``choice_descriptions``, ``ordered``, ``depends_on`` and ``set_constraints`` of this library's
own form may stand beside; other keywords say nothing about what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._core import Schema
from ..errors import SchemaError

# Keys of this library's own form that may stand in a property.
OWN_KEYS = ("ordered", "depends_on", "set_constraints")
# Deeper references than this lead in a circle.
_MAX_REFERENCES = 64


def is_json_schema(data: Mapping[str, Any]) -> bool:
    """Whether a mapping is JSON Schema and not this library's form.

    In this library's form every value is a field, an object; so a string under one of these keys decides.

    Example:
        >>> is_json_schema({"type": "object", "properties": {}}), is_json_schema({"type": {"type": "boolean"}})
        (True, False)
    """
    return any(isinstance(data.get(key), str) for key in ("$schema", "type", "$ref"))


def read_json_schema(data: Mapping[str, Any]) -> tuple[Schema, Callable[[Mapping[str, Any]], dict[str, Any]]]:
    """A schema from JSON Schema, and what turns decided values into those that the JSON Schema lists.

    Raises:
        SchemaError: ``schema.input.*``, or what is wrong with the schema.

    Example:
        >>> schema, values = read_json_schema({"type": "object", "properties": {"stars": {"enum": [1, 2, 3], "ordered": True}}})
        >>> schema.fields[0].choices, values({"stars": "2"})
        (('1', '2', '3'), {'stars': 2})
    """
    reader = _Reader(data)
    top = reader.resolved(data, "")
    properties = top.get("properties")
    if top.get("type", "object") != "object" or not isinstance(properties, Mapping) or not properties:
        message = "a JSON Schema of a decision is an object with properties, one per question"
        raise SchemaError("schema.input.object", message)
    fields = {name: reader.field(spec, str(name)) for name, spec in properties.items()}
    schema = Schema({name: field.spec for name, field in fields.items()})

    def values(found: Mapping[str, Any]) -> dict[str, Any]:
        return {name: fields[name].value(value) for name, value in found.items()}

    return schema, values


@dataclass(frozen=True)
class _Field:
    """A field in this library's form, and the JSON value that each choice stands for."""

    spec: dict[str, Any]
    originals: Mapping[str, Any]

    def value(self, found: Any) -> Any:
        if isinstance(found, tuple):
            return [self.originals[choice] for choice in found]
        return self.originals[found] if isinstance(found, str) else found


@dataclass(frozen=True)
class _Reader:
    root: Mapping[str, Any]

    def field(self, given: Any, path: str) -> _Field:
        """One property."""
        spec = self.resolved(given, path)
        own = {key: spec[key] for key in OWN_KEYS if key in spec}
        if isinstance(spec.get("description"), str):
            own["description"] = spec["description"]
        if spec.get("type") == "array":
            return self._array(spec, own, path)
        answers = list(self._answers(spec, path))
        nullable = any(value is None for value, _ in answers)
        answers = [(value, gloss) for value, gloss in answers if value is not None]
        if any(isinstance(value, bool) for value, _ in answers):
            return self._boolean([value for value, _ in answers], nullable, own, path)
        choices, glosses, originals = _choices(answers, path)
        own |= {"type": "enum", "choices": choices} | _glosses(glosses, spec)
        if nullable:
            own["allow_none_of_above"] = True
        return _Field(own, originals)

    def resolved(self, given: Any, path: str) -> dict[str, Any]:
        """A schema without references; what stands beside a reference wins over what it refers to."""
        beside: dict[str, Any] = {}
        for _ in range(_MAX_REFERENCES):
            if not isinstance(given, Mapping):
                raise SchemaError("schema.input.schema", f"a schema is an object, not a {type(given).__name__}", path)
            beside = {**given, **beside}
            reference = beside.pop("$ref", None)
            parts = beside.get("allOf")
            if reference is None and isinstance(parts, list) and len(parts) == 1:
                # Some tools wrap a reference so that keys may stand beside it.
                del beside["allOf"]
                given = parts[0]
            elif reference is None:
                return beside
            else:
                given = self._referred(reference, path)
        raise SchemaError("schema.input.ref", "these references lead in a circle; a field must come to an end", path)

    def _referred(self, reference: Any, path: str) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            message = f"{reference!r} is not in this schema; only references that start with '#/' are followed: copy it into $defs"
            raise SchemaError("schema.input.ref", message, path)
        found: Any = self.root
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise SchemaError("schema.input.ref", f"{reference!r} refers to nothing; add it, or correct it", path)
            found = found[key]
        return found

    def _answers(
        self, spec: Mapping[str, Any], path: str, *, one_of_several: bool = False
    ) -> Iterator[tuple[Any, str]]:
        """Every allowed value with its gloss, in order."""
        if "const" in spec:
            # What describes the only value describes the field.
            yield spec["const"], (_text(spec, "description") or _text(spec, "title")) if one_of_several else ""
        elif "enum" in spec:
            if not isinstance(spec["enum"], (list, tuple)):
                raise SchemaError("schema.input.choices", "enum is a list of values", path)
            yield from ((value, "") for value in spec["enum"])
        elif spec.get("type") == "boolean":
            yield from ((True, ""), (False, ""))
        elif spec.get("type") == "null":
            yield None, ""
        elif alternatives := spec.get("anyOf") or spec.get("oneOf"):
            for alternative in alternatives:
                inner = self.resolved(alternative, path)
                if inner.get("type") == "array":
                    raise _refused_union(path)
                yield from self._answers(inner, path, one_of_several=True)
        else:
            raise _undecidable(spec, path)

    def _boolean(self, values: list[Any], nullable: bool, own: dict[str, Any], path: str) -> _Field:
        if any(not isinstance(value, bool) for value in values):
            raise _refused_union(path)
        if set(values) != {True, False}:
            message = "a question with one of true and false as its only answer is none; make it a boolean"
            raise SchemaError("schema.input.choices", message, path)
        if nullable:
            message = (
                "a boolean has no third answer; make it an enum such as 'yes', 'no' with null for none of the above, "
                "or use abstain_below_margin"
            )
            raise SchemaError("schema.input.null", message, path)
        return _Field({"type": "boolean", **own}, {})

    def _array(self, spec: Mapping[str, Any], own: dict[str, Any], path: str) -> _Field:
        where = f"{path}.items"
        if "items" not in spec:
            message = "an array without items could hold anything; list the options as an enum in items"
            raise SchemaError("schema.input.items", message, path)
        items = self.resolved(spec["items"], where)
        answers = list(self._answers(items, where))
        if any(value is None or isinstance(value, bool) for value, _ in answers):
            message = "an array's options are strings or whole numbers; null and booleans select nothing"
            raise SchemaError("schema.input.items", message, where)
        choices, glosses, originals = _choices(answers, where)
        own |= {"type": "multi", "choices": choices} | _glosses(glosses, {**items, **spec})
        counts = _counts(spec, choices, path)
        if counts:
            own["set_constraints"] = [*own.get("set_constraints", ()), *counts]
        return _Field(own, originals)


def _text(spec: Mapping[str, Any], key: str) -> str:
    value = spec.get(key)
    return value if isinstance(value, str) else ""


def _choices(answers: list[tuple[Any, str]], path: str) -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """Choices as texts, their glosses, and the value of each."""
    if not answers:
        raise SchemaError("schema.input.choices", "there is nothing to choose from; list the answers", path)
    originals: dict[str, Any] = {}
    glosses = {}
    for value, gloss in answers:
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            message = f"{value!r} cannot be a choice; choices are strings or whole numbers"
            raise SchemaError("schema.input.choices", message, path)
        choice = str(value)
        if choice in originals:
            message = f"two answers are shown as {choice!r}; give each its own text"
            raise SchemaError("schema.input.choices", message, path)
        originals[choice] = value
        if gloss:
            glosses[choice] = gloss
    return list(originals), glosses, originals


def _glosses(found: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The key for glosses: those given in this library's form, then those of the answers themselves."""
    given = spec.get("choice_descriptions", {})
    if not isinstance(given, Mapping):
        return {"choice_descriptions": given}  # The schema says what is wrong with it.
    glosses = {**found, **{str(choice): text for choice, text in given.items()}}
    return {"choice_descriptions": glosses} if glosses else {}


def _counts(spec: Mapping[str, Any], choices: list[str], path: str) -> list[dict[str, Any]]:
    """How many items an array has, as constraints on its options."""
    least, most = spec.get("minItems", 0), spec.get("maxItems", len(choices))
    for key, value in (("minItems", least), ("maxItems", most)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise SchemaError("schema.input.items", f"{key} is a whole number, 0 or more", f"{path}.{key}")
    if least == most:
        return [{"type": "exact_k", "options": choices, "k": least}]
    counts: list[dict[str, Any]] = []
    if least > 0:
        counts.append({"type": "at_least_k", "options": choices, "k": least})
    if most < len(choices):
        counts.append({"type": "at_most_k", "options": choices, "k": most})
    return counts


def _refused_union(path: str) -> SchemaError:
    message = "answers of several kinds cannot be told apart in one field; make it one enum, or a field for each kind"
    return SchemaError("schema.input.union", message, path)


def _undecidable(spec: Mapping[str, Any], path: str) -> SchemaError:
    """Why a property has no list of answers."""
    kind = spec.get("type")
    if kind == "string":
        message = "free text cannot be decided; list the answers, as with Literal or an Enum ('enum' in JSON Schema)"
        return SchemaError("schema.input.text", message, path)
    if kind in ("integer", "number"):
        message = "a number cannot be decided; list its levels as an enum with 'ordered': true, such as 1 to 5 or 'low' to 'high'"
        return SchemaError("schema.input.number", message, path)
    if kind == "object" or "properties" in spec:
        message = "a field cannot hold fields; give each question a field of its own on the top level"
        return SchemaError("schema.input.nested", message, path)
    if kind == "array":
        return SchemaError("schema.input.items", "lists within lists cannot be decided; give one list of options", path)
    message = "this says not which answers there are; use an enum, a boolean or an array of an enum's values"
    return SchemaError("schema.input.unknown", message, path)
