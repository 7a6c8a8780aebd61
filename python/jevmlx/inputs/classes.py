"""Pydantic models, dataclasses and TypedDicts: pydantic says what their JSON Schema is, and makes instances again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, get_type_hints, is_typeddict

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from ..errors import SchemaError

# Classes whose form is held; a program has few.
_MAX_CLASSES = 256


@lru_cache(maxsize=_MAX_CLASSES)
def class_form(cls: type) -> tuple[Mapping[str, Any], Callable[[Mapping[str, Any]], Any]]:
    """A class's JSON Schema, and what makes an instance of plain values.

    Raises:
        SchemaError: ``schema.input.class``.
    """
    if not (dataclasses.is_dataclass(cls) or is_typeddict(cls) or issubclass(cls, BaseModel)):
        message = (
            f"{cls.__name__} is no schema; give a pydantic model, a dataclass or a TypedDict with a field per question"
        )
        raise SchemaError("schema.input.class", message)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(_readable(cls))
        data = adapter.json_schema()
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        message = f"{cls.__name__} cannot be read as a schema: {error.message}"
        raise SchemaError("schema.input.class", message) from error
    except (TypeError, NameError) as error:
        raise SchemaError("schema.input.class", f"{cls.__name__} cannot be read as a schema: {error}") from error

    def build(values: Mapping[str, Any]) -> Any:
        try:
            return adapter.validate_python(values)
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, found['loc'])) or 'the whole'}: {found['msg']}"
                for found in error.errors(include_url=False)
            )
            message = (
                f"{cls.__name__} cannot hold these values ({wrong}); a field that abstained has none: read Decision.values, "
                "or set no threshold for fields that may not be None"
            )
            raise SchemaError("schema.input.value", message) from error

    return data, build


def _readable(cls: type) -> Any:
    """The class, or for a TypedDict its like: before Python 3.12 pydantic takes only those of typing_extensions."""
    if not is_typeddict(cls):
        return cls
    from typing_extensions import TypedDict

    return TypedDict(cls.__name__, get_type_hints(cls, include_extras=True))  # type: ignore[operator]
