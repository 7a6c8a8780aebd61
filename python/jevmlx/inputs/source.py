"""Which form a schema is given in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._core import Schema
from ..errors import SchemaError
from .classes import class_form
from .json_schema import is_json_schema, read_json_schema

# What a file's name could never start with.
_JSON_STARTS = ("{", "[")


@dataclass(frozen=True)
class SchemaInput:
    """A schema, and the way back to the form it was given in.

    Attributes:
        schema: The schema.
        restore: From ``Decision.values`` to an instance of the caller's own class; a dict where there was none.
    """

    schema: Schema
    restore: Callable[[Mapping[str, Any]], Any]


class _Restore:
    """The way back to a form; a copy in another process reads the form again."""

    def __init__(self, source: Any, restore: Callable[[Mapping[str, Any]], Any]) -> None:
        self._source = source
        self._restore = restore

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return self._restore(values)

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return _restore_of, (self._source,)


def _restore_of(source: Any) -> Callable[[Mapping[str, Any]], Any]:
    return schema_of(source).restore


def schema_of(source: Any) -> SchemaInput:
    """A schema from any form it may have.

    Reading a class takes about a millisecond; where that counts, call this once and pass what it returns.

    Args:
        source: A :class:`jevmlx.Schema`; a mapping in this library's form; JSON Schema as a mapping; either of them as JSON text or
            in a file named by a :class:`pathlib.Path`; a pydantic model, a dataclass or a TypedDict (the class, not an instance).

    Raises:
        SchemaError: ``schema.input.*`` for what cannot be decided, with the field's path and what to do; ``schema.*`` for a schema
            that is at fault.

    Example:
        >>> from typing import Literal, TypedDict
        >>> Ticket = TypedDict("Ticket", {"team": Literal["billing", "sales"], "urgent": bool})
        >>> given = schema_of(Ticket)
        >>> [field.type for field in given.schema.fields]
        ['enum', 'boolean']
        >>> given.restore({"team": "sales", "urgent": True})
        {'team': 'sales', 'urgent': True}
    """
    if isinstance(source, SchemaInput):
        return source
    if isinstance(source, Schema):
        return SchemaInput(source, dict)
    if isinstance(source, Path):
        return _of_data(_read(source))
    if isinstance(source, str):
        return _of_text(source)
    if isinstance(source, Mapping):
        return _of_data(source)
    if isinstance(source, type):
        data, build = class_form(source)
        schema, originals = read_json_schema(data)
        return SchemaInput(schema, _Restore(source, lambda values: build(originals(values))))
    raise SchemaError(
        "schema.input.type",
        f"a {type(source).__name__} is no schema; give a mapping, JSON text, a pathlib.Path to a JSON file, or a pydantic model, "
        "dataclass or TypedDict as a class",
    )


def _of_text(text: str) -> SchemaInput:
    if not text.lstrip().startswith(_JSON_STARTS):
        message = f"{text[:40]!r} is not JSON; give a JSON object, or name a file by a pathlib.Path"
        raise SchemaError("schema.json", message)
    return _of_data(text)


def _of_data(source: Mapping[str, Any] | str) -> SchemaInput:
    """A mapping or JSON text in one of its two forms; nothing is both, see :func:`is_json_schema`."""
    try:
        return SchemaInput(Schema(source), dict)
    except SchemaError as error:
        # A text that is no JSON has no form; this reader also sees what Python's does not, such as a key that stands twice.
        if error.code.startswith(("schema.json", "schema.surrogate")):
            raise
        data = json.loads(source) if isinstance(source, str) else source
        if not is_json_schema(data):
            raise
    schema, originals = read_json_schema(data)

    def restore(values: Mapping[str, Any]) -> dict[str, Any]:
        for spec in schema.fields:
            if values.get(spec.name, ...) is None and not spec.none_of_above:
                message = "the field abstained and cannot be null; allow null, or read Decision.values"
                raise SchemaError("schema.input.value", message, spec.name)
        return originals(values)

    return SchemaInput(schema, _Restore(data, restore))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{str(path)!r} is not UTF-8: byte {error.start} cannot be read; save it as UTF-8"
        raise SchemaError("schema.input.file", message) from error
    except (OSError, ValueError) as error:
        message = f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}; name a JSON file"
        raise SchemaError("schema.input.file", message) from error
