"""What is the same for all contexts of a call: the schema in the caller's form, and the options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._core import Schema
from .constraints import CaseProgram
from .decisions import value_of
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
        cases: The constraints between fields; ``None`` without any.
    """

    source: SchemaInput
    options: Options
    cases: CaseProgram | None

    @property
    def schema(self) -> Schema:
        """The schema."""
        return self.source.schema

    @property
    def restore(self) -> Callable[[Mapping[str, Any]], Any]:
        """From field values to the caller's own type."""
        return self.source.restore


def case_program(schema: Schema, constraints: Sequence[Mapping[str, Any]]) -> CaseProgram | None:
    """A call's constraints between fields, checked against its schema.

    Raises:
        ConstraintError: A constraint is at fault.
    """
    if not constraints:
        return None
    fields = [
        (spec.name, spec.type, tuple(value_of(spec, index) for index in range(len(spec.choices))))
        for spec in schema.fields
    ]
    return CaseProgram.of(constraints, fields)
