"""What is the same for all contexts of a call: the schema in the caller's form, and the options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ._core import Schema
from .inputs import SchemaInput
from .options import Options

# A schema, or what ``jevmlx.schema_of`` makes one of: a mapping, JSON text, a file, a class.
SchemaLike = Any


@dataclass(frozen=True)
class Asking:
    """A schema to decide, and how.

    Attributes:
        source: The schema in the form it was given in.
        options: Checked options.
    """

    source: SchemaInput
    options: Options

    @property
    def schema(self) -> Schema:
        """The schema."""
        return self.source.schema

    @property
    def restore(self) -> Callable[[Mapping[str, Any]], Any]:
        """From field values to the caller's own type."""
        return self.source.restore
