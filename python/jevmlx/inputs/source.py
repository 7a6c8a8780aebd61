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

Restore = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class SchemaInput:
    """A schema, and the way back to the form it was given in.

    Attributes:
        schema: The schema.
        restore: From ``Decision.values`` to an instance of the caller's own class; a dict where there was none.
    """

    schema: Schema
    restore: Restore


def schema_of(source: Any) -> SchemaInput:
    """A schema from any form it may have.

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
        source = _read(source)
    if isinstance(source, str):
        return _text(source)
    if isinstance(source, Mapping):
        return _mapping(source, source)
    if isinstance(source, type):
        data, build = class_form(source)
        schema, values = read_json_schema(data)
        return SchemaInput(schema, lambda found: build(values(found)))
    raise SchemaError(
        "schema.input.type",
        f"a {type(source).__name__} is no schema; give a mapping, JSON text, a pathlib.Path to a JSON file, or a pydantic model, "
        "dataclass or TypedDict class",
    )


def _text(text: str) -> SchemaInput:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        # What is wrong with it is said by the reader that names positions.
        return SchemaInput(Schema(text), dict)
    return _mapping(data, text) if isinstance(data, dict) else SchemaInput(Schema(text), dict)


def _mapping(data: Mapping[str, Any], source: Mapping[str, Any] | str) -> SchemaInput:
    if is_json_schema(data):
        schema, values = read_json_schema(data)
        return SchemaInput(schema, values)
    return SchemaInput(Schema(source), dict)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{str(path)!r} is not UTF-8: byte {error.start} cannot be read; save it as UTF-8"
        raise SchemaError("schema.input.file", message) from error
    except OSError as error:
        message = f"{str(path)!r} cannot be read: {error.strerror or error}; name a JSON file"
        raise SchemaError("schema.input.file", message) from error
