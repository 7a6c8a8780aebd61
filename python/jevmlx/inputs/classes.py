"""Pydantic models, dataclasses and TypedDicts: pydantic says what their JSON Schema is, and makes instances again."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

import typing_extensions
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from ..errors import SchemaError
from .json_schema import OWN_KEYS


class _WithMembers(GenerateJsonSchema):
    """JSON Schema whose enums list what Python holds: members of an Enum, not their values.

    Pydantic makes an instance of members under every setting, of values not where the class is strict or a Literal holds members.
    """

    def literal_schema(self, schema: Any) -> dict[str, Any]:
        return {"enum": list(schema["expected"])}

    def enum_schema(self, schema: Any) -> dict[str, Any]:
        return {**super().enum_schema(schema), "enum": list(schema["members"])}


def class_form(cls: type) -> tuple[Mapping[str, Any], Callable[[Mapping[str, Any]], Any]]:
    """A class's JSON Schema, and what makes an instance of the values that it lists.

    Raises:
        SchemaError: ``schema.input.class``; the second result: ``schema.input.value``.

    Example:
        >>> data, build = class_form(dataclasses.make_dataclass("Ticket", [("urgent", bool)]))
        >>> data["properties"]["urgent"]["type"], build({"urgent": True})
        ('boolean', Ticket(urgent=True))
    """
    if not (dataclasses.is_dataclass(cls) or typing_extensions.is_typeddict(cls) or issubclass(cls, BaseModel)):
        message = (
            f"{cls.__name__} is no schema; give a pydantic model, a dataclass or a TypedDict with a field per question"
        )
        raise SchemaError("schema.input.class", message)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(_readable(cls))
        data = adapter.json_schema(schema_generator=_WithMembers)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        message = f"{cls.__name__} cannot be read as a schema: {error.message}"
        raise SchemaError("schema.input.class", message) from error
    except (TypeError, NameError, AssertionError) as error:
        # Annotations that Python or pydantic cannot make sense of; an empty Literal is an AssertionError.
        raise SchemaError("schema.input.class", f"{cls.__name__} cannot be read as a schema: {error}") from error
    if dataclasses.is_dataclass(cls):
        _add_metadata(cls, data.get("properties", {}))
    return data, lambda values: _build(adapter, cls.__name__, values)


def _build(adapter: TypeAdapter[Any], name: str, values: Mapping[str, Any]) -> Any:
    """An instance; a strict class takes lists for its sets all the same, and a field is known by its alias and by its name."""
    try:
        return adapter.validate_python(dict(values), strict=False, by_alias=True, by_name=True)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, found['loc'])) or 'the whole'}: {found['msg']}"
            for found in error.errors(include_url=False)
        )
        message = (
            f"{name} cannot hold these values ({wrong}); where a field abstained its value is None: let the field be None, "
            "or read Decision.values"
        )
        where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        raise SchemaError("schema.input.value", message, where) from error


def _readable(cls: type) -> Any:
    """The class, or for a TypedDict its like: before Python 3.12 pydantic takes only those of typing_extensions."""
    if sys.version_info >= (3, 12) or not typing.is_typeddict(cls):
        return cls
    annotations = typing.get_type_hints(cls, include_extras=True)
    return typing_extensions.TypedDict(cls.__name__, annotations)  # type: ignore[operator]


def _add_metadata(cls: type, properties: dict[str, Any]) -> None:
    """What pydantic leaves out of a dataclass's fields: this library's keys in their metadata."""
    for field in dataclasses.fields(cls):
        if not field.init:
            # The class sets it itself, whatever was decided.
            properties.pop(field.name, None)
            continue
        own = {key: field.metadata[key] for key in OWN_KEYS if key in field.metadata}
        if own and field.name not in properties:
            message = (
                f"the field {field.name!r} has an alias; give {', '.join(own)} by pydantic's Field(json_schema_extra=…)"
            )
            raise SchemaError("schema.input.class", message, field.name)
        if own:
            properties[field.name].update(own)
