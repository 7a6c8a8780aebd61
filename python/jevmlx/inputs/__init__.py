"""Placeholder until the package is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .._core import Schema


@dataclass(frozen=True)
class SchemaInput:
    """A schema and the way back."""

    schema: Schema
    restore: Callable[[Mapping[str, Any]], Any]


def schema_of(source: Any) -> SchemaInput:
    """A schema."""
    return SchemaInput(Schema(source), dict)
