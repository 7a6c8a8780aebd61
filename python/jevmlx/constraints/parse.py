"""Reading the constraints between fields that a call brings: every mistake is an error that says where it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import ConstraintError
from .rows import Row

KINDS = ("implies", "requires_parent", "excludes", "exclusivity")
_BOOLEANS: dict[str, object] = {"true": True, "false": False}
# What an error message lists and quotes at most: values, and characters of one.
_LISTED = 20
_QUOTED = 200
_KEYS = {
    "implies": ("if", "then"),
    "requires_parent": ("field", "value", "parent", "parent_values"),
    "excludes": ("pairs",),
    "exclusivity": ("pairs",),
}


@dataclass(frozen=True)
class CaseField:
    """A field that constraints may speak of.

    Attributes:
        name: Its name.
        type: ``"boolean"``, ``"enum"`` or ``"multi"``.
        values: What its value may be: True and False, or strings, or ``None`` for none of the above.
        first: The number of its first (field, value) item; its others follow.
    """

    name: str
    type: str
    values: tuple[object, ...]
    first: int

    @property
    def items(self) -> range:
        """Its (field, value) items."""
        return range(self.first, self.first + len(self.values))


@dataclass(frozen=True)
class CaseConstraint:
    """One constraint between fields.

    Attributes:
        text: How errors and results name it: its name where it has one, and its content.
        row: What it demands of the (field, value) items.
        fields: The names of the fields it mentions.
    """

    text: str
    row: Row
    fields: frozenset[str]


def case_fields(fields: Sequence[tuple[str, str, tuple[object, ...]]]) -> tuple[CaseField, ...]:
    """Fields given as (name, type, values), with their items numbered."""
    numbered, first = [], 0
    for name, kind, values in fields:
        numbered.append(CaseField(name, kind, tuple(values), first))
        first += len(values)
    return tuple(numbered)


def parse(constraints: object, fields: Sequence[CaseField]) -> tuple[CaseConstraint, ...]:
    """Constraints in the order given.

    Args:
        constraints: A list of objects, as written in JSON.
        fields: All fields of the schema.

    Raises:
        ConstraintError: ``constraints.type``, ``constraints.key``, ``constraints.field`` or ``constraints.value``.
    """
    known = {field.name: field for field in fields}
    items = _sequence(constraints, "constraints", "objects")
    return tuple(_Reader(f"constraints[{index}]", known).constraint(item) for index, item in enumerate(items))


def shown(value: object) -> str:
    """A value as JSON shows it, cut where it is long; whatever JSON cannot hold, by its type."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
    return _printable(text)


def _printable(text: str) -> str:
    text = text if len(text) <= _QUOTED else text[:_QUOTED] + "…"
    # A lone surrogate could not be printed.
    return text.encode("utf-8", "backslashreplace").decode()


def _sequence(value: object, path: str, of: str) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return value
    raise ConstraintError("constraints.type", f"a list of {of} is needed, not a {type(value).__name__}", path)


def _object(value: object, path: str) -> Mapping[object, object]:
    if isinstance(value, Mapping):
        return value
    raise ConstraintError("constraints.type", f"an object is needed, not a {type(value).__name__}", path)


@dataclass(frozen=True)
class _Reader:
    path: str
    known: Mapping[str, CaseField]

    def constraint(self, given: object) -> CaseConstraint:
        item = _object(given, self.path)
        kind = item.get("type")
        if not isinstance(kind, str) or kind not in KINDS:
            what = f"{shown(kind)} is no type of constraint" if "type" in item else "a constraint needs a type"
            raise ConstraintError("constraints.type", f"{what}; allowed are {', '.join(KINDS)}", f"{self.path}.type")
        self._keys(item, ("type", *_KEYS[kind]), ("name",), self.path)
        name = item.get("name")
        if name is not None and not isinstance(name, str):
            message = f"name is a {type(name).__name__}; a string is needed"
            raise ConstraintError("constraints.type", message, f"{self.path}.name")
        if name and name != name.encode("utf-8", "replace").decode():
            message = "name holds a lone surrogate, which has no UTF-8 form; remove it"
            raise ConstraintError("constraints.value", message, f"{self.path}.name")
        row, fields = self._demand(kind, item)
        index = self.path.removeprefix("constraints")
        content = shown({key: value for key, value in item.items() if key != "name"})
        return CaseConstraint(f"constraints{index} {f'({name}) ' if name else ''}{content}", row, fields)

    def _keys(self, item: Mapping[object, object], needed: Sequence[str], optional: Sequence[str], path: str) -> None:
        allowed = [*needed, *optional]
        for key in item:
            if key not in allowed:
                message = f"{shown(key)} is no key here; allowed are {', '.join(allowed)}"
                where = _printable(key) if isinstance(key, str) else shown(key)
                raise ConstraintError("constraints.key", message, f"{path}.{where}")
        for key in needed:
            if key not in item:
                message = f"{key} is missing; {', '.join(needed)} are needed"
                raise ConstraintError("constraints.key", message, f"{path}.{key}")

    def _demand(self, kind: str, item: Mapping[object, object]) -> tuple[Row, frozenset[str]]:
        match kind:
            case "implies":
                return self._implies(item)
            case "requires_parent":
                return self._requires_parent(item)
            case "excludes":
                return self._excludes(item)
        return _at_most_one(self._pairs(item["pairs"], "two or more pairs", 2, None))

    def _implies(self, item: Mapping[object, object]) -> tuple[Row, frozenset[str]]:
        if_field, if_item = self._pair(item["if"], f"{self.path}.if")
        then_field, then_item = self._pair(item["then"], f"{self.path}.then")
        self._distinct(if_field, then_field, f"{self.path}.then.field")
        return Row((if_item,), (then_item,), most=0), frozenset((if_field.name, then_field.name))

    def _requires_parent(self, item: Mapping[object, object]) -> tuple[Row, frozenset[str]]:
        field = self._field(item["field"], f"{self.path}.field")
        value = self._value(field, item["value"], f"{self.path}.value")
        parent = self._field(item["parent"], f"{self.path}.parent")
        self._distinct(field, parent, f"{self.path}.parent")
        path = f"{self.path}.parent_values"
        values = _sequence(item["parent_values"], path, "values")
        allowed = [self._value(parent, one, f"{path}[{index}]") for index, one in enumerate(values)]
        self._all_different(allowed, path)
        if not allowed:
            message = f"parent_values is empty; name at least one value of {shown(parent.name)}"
            raise ConstraintError("constraints.value", message, path)
        return Row((value,), tuple(allowed), most=0), frozenset((field.name, parent.name))

    def _excludes(self, item: Mapping[object, object]) -> tuple[Row, frozenset[str]]:
        pairs = self._pairs(item["pairs"], "exactly two pairs", 2, 2)
        (one, _), (other, _) = pairs
        self._distinct(one, other, f"{self.path}.pairs[1].field")
        return _at_most_one(pairs)

    def _pairs(self, given: object, wanted: str, least: int, most: int | None) -> list[tuple[CaseField, int]]:
        path = f"{self.path}.pairs"
        values = _sequence(given, path, "objects with field and value")
        if len(values) < least or (most is not None and len(values) > most):
            raise ConstraintError("constraints.value", f"{wanted} are needed, not {len(values)}", path)
        pairs = [self._pair(value, f"{path}[{index}]") for index, value in enumerate(values)]
        self._all_different([item for _, item in pairs], path)
        return pairs

    def _pair(self, given: object, path: str) -> tuple[CaseField, int]:
        pair = _object(given, path)
        self._keys(pair, ("field", "value"), (), path)
        field = self._field(pair["field"], f"{path}.field")
        return field, self._value(field, pair["value"], f"{path}.value")

    def _field(self, name: object, path: str) -> CaseField:
        field = self.known.get(name) if isinstance(name, str) else None
        if field is None:
            allowed = _listed([other.name for other in self.known.values() if other.type != "multi"])
            raise ConstraintError("constraints.field", f"{shown(name)} is no field; allowed are {allowed}", path)
        if field.type == "multi":
            message = f"{shown(name)} is a multi field; constrain its options with set_constraints in the schema"
            raise ConstraintError("constraints.field", message, path)
        return field

    def _value(self, field: CaseField, value: object, path: str) -> int:
        meant = _BOOLEANS.get(value, value) if field.type == "boolean" and isinstance(value, str) else value
        for index, own in enumerate(field.values):
            # True equals 1, which is no boolean.
            if isinstance(meant, type(own)) and own == meant:
                return field.first + index
        message = f"{shown(value)} is no value of {shown(field.name)}; allowed are {_listed(field.values)}"
        raise ConstraintError("constraints.value", message, path)

    def _distinct(self, one: CaseField, other: CaseField, path: str) -> None:
        if one is other:
            message = f"{shown(one.name)} stands on both sides; a field cannot constrain itself"
            raise ConstraintError("constraints.field", message, path)

    def _all_different(self, items: Sequence[int], path: str) -> None:
        seen: set[int] = set()
        for index, item in enumerate(items):
            if item in seen:
                raise ConstraintError(
                    "constraints.value", "this stands twice in the list; once is enough", f"{path}[{index}]"
                )
            seen.add(item)


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(shown, values[:_LISTED])) + (", …" if len(values) > _LISTED else "")


def _at_most_one(pairs: Sequence[tuple[CaseField, int]]) -> tuple[Row, frozenset[str]]:
    return Row(tuple(item for _, item in pairs), most=1), frozenset(field.name for field, _ in pairs)
