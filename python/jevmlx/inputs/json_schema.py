"""JSON Schema: what of it can be decided, and a clear refusal of what cannot.

A property is a boolean, an enum (``enum``, ``const``, ``anyOf`` or ``oneOf`` of them, with ``null`` for none of the above) or an
array of an enum's values. This library's own keys (``OWN_KEYS``) may stand beside, or in an object ``x-jevmlx``, where a
misspelt one is an error; keywords that are no part of either are not read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import unquote

from .._core import Schema
from ..checks import is_whole
from ..errors import SchemaError

# Keys of this library's own form that may stand in a property.
OWN_KEYS = ("choice_descriptions", "ordered", "depends_on", "set_constraints")
EXTENSION = "x-jevmlx"
# Of a whole number that is a choice; it is shown to the model in digits.
_MOST_BITS = 1024
# Keywords that say which answers are allowed in a way that is not read here.
_UNREAD = ("not", "if", "then", "else", "contains", "prefixItems", "nullable", "dependentSchemas")

# A value that may be answered, and its gloss.
Answer = tuple[Any, str]


def is_json_schema(data: Any) -> bool:
    """Whether something is JSON Schema and not this library's form.

    In this library's form every value is a field: an object with a text ``type`` or a list of ``choices``. So it is JSON Schema if
    ``$schema``, ``$ref`` or ``type`` is a text, or if ``properties`` holds objects only. Nothing valid is both.

    Example:
        >>> is_json_schema({"properties": {"type": {"type": "boolean"}}}), is_json_schema({"properties": {"type": "boolean"}})
        (True, False)
    """
    if not isinstance(data, Mapping):
        return False
    if any(isinstance(data.get(key), str) for key in ("$schema", "$ref", "type")):
        return True
    properties = data.get("properties")
    return (
        isinstance(properties, Mapping)
        and bool(properties)
        and all(isinstance(spec, Mapping) for spec in properties.values())
    )


def read_json_schema(data: Mapping[str, Any]) -> tuple[Schema, Callable[[Mapping[str, Any]], dict[str, Any]]]:
    """A schema from JSON Schema, and what turns decided values into those that the JSON Schema lists.

    Args:
        data: JSON Schema; members of an Enum may stand for their values.

    Raises:
        SchemaError: ``schema.input.*``, or what is wrong with the schema.

    Example:
        >>> schema, values = read_json_schema({"type": "object", "properties": {"stars": {"enum": [1, 2, 3], "ordered": True}}})
        >>> schema.fields[0].choices, values({"stars": "2"})
        (('1', '2', '3'), {'stars': 2})
    """
    top = _Reader(data, "").resolved(data)
    properties = top.get("properties")
    if top.get("type", "object") != "object" or not isinstance(properties, Mapping) or not properties:
        message = "a JSON Schema of a decision is an object with properties, one per question"
        raise SchemaError("schema.input.object", message)
    fields = {name: _field(_Reader(data, str(name)), spec) for name, spec in properties.items()}
    schema = Schema({name: read.spec for name, read in fields.items()})

    def values(found: Mapping[str, Any]) -> dict[str, Any]:
        return {name: fields[name].original(value) if name in fields else value for name, value in found.items()}

    return schema, values


@dataclass(frozen=True)
class _Field:
    """A field in this library's form, and what the JSON Schema lists for each choice."""

    spec: dict[str, Any]
    originals: Mapping[Any, Any]

    def original(self, found: Any) -> Any:
        if isinstance(found, (tuple, list)):
            return [self.originals.get(choice, choice) for choice in found]
        return self.originals.get(found, found)


@dataclass(frozen=True)
class _Reader:
    """Reads one property, following each reference once: a second time means a circle, or answers that stand twice."""

    root: Mapping[str, Any]
    path: str
    followed: set[str] = field(default_factory=set)

    def resolved(self, given: Any) -> dict[str, Any]:
        """A schema without references; what stands beside a reference wins over what it refers to."""
        beside: dict[str, Any] = {}
        while True:
            if not isinstance(given, Mapping):
                message = f"a schema is an object, not a {type(given).__name__}"
                raise SchemaError("schema.input.schema", message, self.path)
            beside = {**given, **beside}
            parts = beside.get("allOf")
            if "$ref" in beside:
                given = self._referred(beside.pop("$ref"))
            elif isinstance(parts, list) and len(parts) == 1:
                # Some tools wrap a reference so that keys may stand beside it.
                del beside["allOf"]
                given = parts[0]
            else:
                return beside

    def _referred(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            message = f"{reference!r} is not in this schema; only references that start with '#/' are followed: copy it into $defs"
            raise SchemaError("schema.input.ref", message, self.path)
        if reference in self.followed:
            message = (
                f"{reference!r} is referred to in a circle, or twice; a field is finite and lists each answer once"
            )
            raise SchemaError("schema.input.ref", message, self.path)
        self.followed.add(reference)
        found: Any = self.root
        for part in unquote(reference[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                message = f"{reference!r} refers to nothing; add it, or correct it"
                raise SchemaError("schema.input.ref", message, self.path)
            found = found[key]
        return found

    def answers(self, spec: Mapping[str, Any]) -> list[Answer]:
        """Every value that may be answered, in order."""
        found: list[Answer] = []
        pending: deque[Any] = deque([spec])
        alone = True
        while pending:
            one = self.resolved(pending.popleft())
            self.check_keywords(one)
            kind = one.get("type")
            if "const" in one:
                # What describes the only value describes the field.
                found.append((one["const"], "" if alone else _gloss(one)))
            elif "enum" in one:
                found += [(value, "") for value in self._list(one, "enum")]
            elif isinstance(kind, (list, tuple)):
                pending.extendleft({**one, "type": name} for name in kind)
            elif one.get("anyOf") or one.get("oneOf"):
                pending.extendleft(reversed(self._list(one, "anyOf" if one.get("anyOf") else "oneOf")))
            elif kind == "boolean":
                found += [(True, ""), (False, "")]
            elif kind == "null":
                found.append((None, ""))
            else:
                raise _undecidable(one, self.path, alone=alone)
            alone = False
        return found

    def check_keywords(self, spec: Mapping[str, Any]) -> None:
        """Refuses keywords that would change which answers are allowed and are not read."""
        for key in _UNREAD:
            if key in spec:
                message = f"{key} is not read, and may change which answers are allowed; list the answers themselves"
                raise SchemaError("schema.input.keyword", message, f"{self.path}.{key}")

    def _list(self, spec: Mapping[str, Any], key: str) -> list[Any]:
        values = spec[key]
        if not isinstance(values, (list, tuple)):
            message = f"{key} is a list, not a {type(values).__name__}"
            raise SchemaError("schema.input.schema", message, f"{self.path}.{key}")
        return list(values)


def _field(reader: _Reader, given: Any) -> _Field:
    """One property."""
    path = reader.path
    spec = reader.resolved(given)
    own = _own_keys(spec, path)
    if "description" not in own:
        own |= _description_within(spec, reader)
    if spec.get("type") == "array":
        return _array(reader, spec, own)
    answers = reader.answers(spec)
    nullable = any(_plain(value) is None for value, _ in answers)
    answers = [(value, gloss) for value, gloss in answers if _plain(value) is not None]
    if any(isinstance(_plain(value), bool) for value, _ in answers):
        return _boolean(answers, nullable, own, path)
    choices, glosses, originals = _choices(answers, path)
    kept = own | {"type": "enum", "choices": choices} | _glosses(glosses, own)
    if nullable:
        kept["allow_none_of_above"] = True
    return _Field(kept, originals)


def _own_keys(spec: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The description and this library's keys, from the property itself and from its extension object."""
    own = {key: spec[key] for key in ("description", *OWN_KEYS) if key in spec}
    extension = spec.get(EXTENSION, {})
    if not isinstance(extension, Mapping):
        message = f"{EXTENSION} is an object with keys of {', '.join(OWN_KEYS)}"
        raise SchemaError("schema.input.key", message, f"{path}.{EXTENSION}")
    for where, keys in ((path, spec), (f"{path}.{EXTENSION}", extension)):
        if "allow_none_of_above" in keys:
            message = "allow null beside the other answers instead (None in Python), so that the value has a place in the type"
            raise SchemaError("schema.input.key", message, f"{where}.allow_none_of_above")
    for key in extension:
        if key not in OWN_KEYS:
            message = f"{key!r} is no key of {EXTENSION}; allowed are {', '.join(OWN_KEYS)}"
            raise SchemaError("schema.input.key", message, f"{path}.{EXTENSION}.{key}")
    return own | dict(extension)


def _boolean(answers: list[Answer], nullable: bool, own: dict[str, Any], path: str) -> _Field:
    values = [value for value, _ in answers]
    plain = [_plain(value) for value in values]
    if any(not isinstance(value, bool) for value in plain):
        raise _refused_union(path)
    if set(plain) != {True, False}:
        message = "true or false alone leaves nothing to decide; allow both, as a boolean does"
        raise SchemaError("schema.input.choices", message, path)
    if nullable:
        message = (
            "a boolean has no third answer; make it an enum such as 'yes', 'no' with null for none of the above, "
            "or use abstain_below_margin"
        )
        raise SchemaError("schema.input.null", message, path)
    originals = dict(zip(plain, values, strict=True))
    glosses = {_shown(value): gloss for value, gloss in answers if gloss}
    return _Field(own | {"type": "boolean"} | _glosses(glosses, own), originals)


def _description_within(spec: Mapping[str, Any], reader: _Reader) -> dict[str, Any]:
    """What describes the one enum of a union with null, as of an Enum that may be None."""
    parts = spec.get("anyOf") or spec.get("oneOf")
    if not isinstance(parts, (list, tuple)):
        return {}
    # A reader of its own: the answers themselves are read later, by the same references.
    inside = [_Reader(reader.root, reader.path).resolved(part) for part in parts]
    enums = [part for part in inside if part.get("type") != "null"]
    if len(enums) != 1 or "enum" not in enums[0] or "description" not in enums[0]:
        return {}
    return {"description": enums[0]["description"]}


def _array(reader: _Reader, spec: Mapping[str, Any], own: dict[str, Any]) -> _Field:
    where = f"{reader.path}.items"
    if "items" not in spec:
        message = "an array needs items, one enum for all of it: list[X], set[X] or tuple[X, ...] in Python"
        raise SchemaError("schema.input.items", message, reader.path)
    reader.check_keywords(spec)
    inside = _Reader(reader.root, where, reader.followed)
    items = inside.resolved(spec["items"])
    answers = inside.answers(items)
    if any(_plain(value) is None or isinstance(_plain(value), bool) for value, _ in answers):
        message = "an array's options are strings or whole numbers; null and booleans select nothing"
        raise SchemaError("schema.input.items", message, where)
    choices, glosses, originals = _choices(answers, where)
    own = _own_keys(items, where) | own
    kept = own | {"type": "multi", "choices": choices} | _glosses(glosses, own)
    counts = _counts(spec, choices, reader.path)
    given = kept.get("set_constraints", [])
    if counts and isinstance(given, (list, tuple)):  # The schema says what is wrong with anything else.
        kept["set_constraints"] = [*given, *counts]
    return _Field(kept, originals)


def _counts(spec: Mapping[str, Any], choices: list[str], path: str) -> list[dict[str, Any]]:
    """How many items an array has, as constraints on its options."""
    least, most = spec.get("minItems", 0), spec.get("maxItems", len(choices))
    for key, value in (("minItems", least), ("maxItems", most)):
        if not is_whole(value, 0):
            raise SchemaError("schema.input.items", f"{key} is a whole number, 0 or more", f"{path}.{key}")
    if least == most:
        return [{"type": "exact_k", "options": choices, "k": least}]
    counts: list[dict[str, Any]] = []
    if least > 0:
        counts.append({"type": "at_least_k", "options": choices, "k": least})
    if most < len(choices):
        counts.append({"type": "at_most_k", "options": choices, "k": most})
    return counts


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _shown(value: Any) -> str:
    """A value as the text of a choice."""
    plain = _plain(value)
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def _choices(answers: list[Answer], path: str) -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """Choices as texts, their glosses, and the value of each."""
    if not answers:
        raise SchemaError("schema.input.choices", "there is nothing to choose from; list the answers", path)
    originals: dict[str, Any] = {}
    glosses = {}
    for value, gloss in answers:
        plain = _plain(value)
        if not isinstance(plain, (str, int)):
            message = f"{plain!r} cannot be a choice; choices are strings or whole numbers"
            raise SchemaError("schema.input.choices", message, path)
        if isinstance(plain, int) and plain.bit_length() > _MOST_BITS:
            message = f"a whole number of {plain.bit_length()} bits cannot be a choice; give it as a text"
            raise SchemaError("schema.input.choices", message, path)
        choice = _shown(plain)
        if choice in originals:
            message = f"two answers are shown as {choice!r}; give each its own text"
            raise SchemaError("schema.input.choices", message, path)
        originals[choice] = value
        if gloss:
            glosses[choice] = gloss
    return list(originals), glosses, originals


def _gloss(spec: Mapping[str, Any]) -> str:
    """What describes one of several answers."""
    return next((spec[key] for key in ("description", "title") if isinstance(spec.get(key), str)), "")


def _glosses(found: Mapping[str, str], own: Mapping[str, Any]) -> dict[str, Any]:
    """The key for glosses: those given under it, then those of the answers themselves."""
    given = own.get("choice_descriptions", {})
    if not isinstance(given, Mapping):
        return {}  # It stays as it is, and the schema says what is wrong with it.
    glosses = {**found, **{_shown(choice): text for choice, text in given.items()}}
    return {"choice_descriptions": glosses} if glosses else {}


def _refused_union(path: str) -> SchemaError:
    message = (
        "answers of several kinds cannot be told apart in one field; make it one enum, or a field for each kind; "
        "beside a list leave out null, since an empty list already says that nothing applies"
    )
    return SchemaError("schema.input.union", message, path)


def _undecidable(spec: Mapping[str, Any], path: str, *, alone: bool) -> SchemaError:
    """Why a property has no list of answers."""
    kind = spec.get("type")
    if kind == "array" and not alone:
        return _refused_union(path)
    if kind == "array":
        return SchemaError("schema.input.items", "lists within lists cannot be decided; give one list of options", path)
    if kind == "string":
        message = "free text cannot be decided; list the answers, as with Literal or an Enum ('enum' in JSON Schema)"
        return SchemaError("schema.input.text", message, path)
    if kind in ("integer", "number"):
        message = "a number cannot be decided; list its levels as an enum with 'ordered': true, such as 1 to 5 or 'low' to 'high'"
        return SchemaError("schema.input.number", message, path)
    if kind == "object" or "properties" in spec:
        message = "a field cannot hold fields; give each question a field of its own on the top level"
        return SchemaError("schema.input.nested", message, path)
    message = "no answers are listed here; use an enum, a boolean or an array of an enum's values"
    return SchemaError("schema.input.unknown", message, path)
