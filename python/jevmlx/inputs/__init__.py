"""Schemas in the forms that people have them in: mappings, JSON, files, classes, JSON Schema."""

from __future__ import annotations

from .one_field import choose_schema, judge_schema, rate_schema
from .source import SchemaInput, schema_of

__all__ = ["SchemaInput", "choose_schema", "judge_schema", "rate_schema", "schema_of"]
