"""What cannot be decided is refused, with its place and what to do."""

import dataclasses
import enum
import re
import typing
from pathlib import Path
from typing import Literal

import pydantic
import pytest

import jevmlx
from reference.inputs import prop, refer


class Inner(pydantic.BaseModel):
    flag: bool


class Text(pydantic.BaseModel):
    note: str


class Number(typing.TypedDict):
    size: float


@dataclasses.dataclass
class Nested:
    inner: Inner


class Callback(pydantic.BaseModel):
    call: typing.Callable[[], None]


class Unsure(pydantic.BaseModel):
    flag: bool | None


class Mixed(pydantic.BaseModel):
    either: bool | Literal["maybe"]


class Empty(pydantic.BaseModel):
    pass


@dataclasses.dataclass
class NoChoice:
    field: Literal[()]


class Bytes(pydantic.BaseModel):
    field: Literal[b"a", b"b"]


class Team(enum.StrEnum):
    BILLING = "billing"


class BytesEnum(enum.Enum):
    A = b"a"


class OnlyBytes(pydantic.BaseModel):
    field: BytesEnum


class OptionalList(pydantic.BaseModel):
    field: list[Literal["a", "b"]] | None


class Pair(pydantic.BaseModel):
    field: tuple[Literal["a", "b"], Literal["a", "b"]]


class Scale(pydantic.BaseModel):
    field: Literal["low", "high"] | None = pydantic.Field(json_schema_extra={"ordered": True})


class Unresolved(pydantic.BaseModel):
    field: "Nowhere"  # noqa: F821 - that is the point


@dataclasses.dataclass
class Aliased:
    field: Literal["low", "high"] = dataclasses.field(metadata={"alias": "level", "ordered": True})


TWICE = [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]
DEEP: dict = {}
DEEP["type"] = "object"
DEEP["properties"] = {"field": DEEP}


REFUSED = [
    (Text, "schema.input.text", "note"),
    (Number, "schema.input.number", "size"),
    (Nested, "schema.input.nested", "inner"),
    (Callback, "schema.input.class", ""),
    (Unsure, "schema.input.null", "flag"),
    (Mixed, "schema.input.union", "either"),
    (Empty, "schema.input.object", ""),
    (int, "schema.input.class", ""),
    (Team, "schema.input.class", ""),
    (NoChoice, "schema.input.class", ""),
    (Unresolved, "schema.input.class", ""),
    (Aliased, "schema.input.class", "field"),
    (Bytes, "schema.input.choices", "field"),
    (OnlyBytes, "schema.input.choices", "field"),
    (OptionalList, "schema.input.union", "field"),
    (Pair, "schema.input.items", "field"),
    (Scale, "schema.allow_none_of_above", "field.allow_none_of_above"),
    (Literal["a"], "schema.input.type", ""),
    (b"{}", "schema.input.type", ""),
    (7, "schema.input.type", ""),
    (None, "schema.input.type", ""),
    (["a"], "schema.input.type", ""),
    (Text(note="x"), "schema.input.type", ""),
    (prop({"enum": []}), "schema.input.choices", "field"),
    (prop({"enum": "ab"}), "schema.input.schema", "field.enum"),
    (prop({"enum": [1.5]}), "schema.input.choices", "field"),
    (prop({"enum": [1, "1"]}), "schema.input.choices", "field"),
    (prop({"const": True}), "schema.input.choices", "field"),
    (prop({"enum": [None]}), "schema.input.choices", "field"),
    (prop({"$ref": "#/$defs/none"}), "schema.input.ref", "field"),
    (prop({"$ref": "https://example.org/x.json"}), "schema.input.ref", "field"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "schema.input.ref", ""),
    (refer(a={"anyOf": [{"$ref": "#/$defs/a"}]}), "schema.input.ref", "field"),
    (refer(a={"anyOf": TWICE}, b={"enum": []}), "schema.input.ref", "field"),
    (refer(a={"type": "array", "items": {"$ref": "#/$defs/a"}}), "schema.input.ref", "field.items"),
    (prop({"anyOf": 5}), "schema.input.schema", "field.anyOf"),
    (prop({"type": ["boolean", "null"]}), "schema.input.null", "field"),
    (prop({"type": ["string", "null"]}), "schema.input.text", "field"),
    (prop({"type": ["array", "null"], "items": {"enum": ["a", "b"]}}), "schema.input.union", "field"),
    (prop({"enum": ["a"], "x-jevmlx": {"order": True}}), "schema.input.key", "field.x-jevmlx.order"),
    (prop({"enum": [10**400]}), "schema.input.choices", "field"),
    (prop({"enum": ["a", "b"], "not": {"const": "b"}}), "schema.input.keyword", "field.not"),
    (prop({"anyOf": [{"enum": ["a"], "if": {}}, {"const": "b"}]}), "schema.input.keyword", "field.if"),
    (prop({"enum": ["a", "b"], "nullable": True}), "schema.input.keyword", "field.nullable"),
    (prop({"type": "array", "items": {"enum": ["a"]}, "contains": {}}), "schema.input.keyword", "field.contains"),
    (prop({"enum": ["a"], "x-jevmlx": []}), "schema.input.key", "field.x-jevmlx"),
    (prop({"enum": ["a"], "allow_none_of_above": True}), "schema.input.key", "field.allow_none_of_above"),
    (
        prop({"type": "boolean", "choice_descriptions": {"yes": ""}}),
        "schema.choice_descriptions.unknown",
        "field.choice_descriptions.yes",
    ),
    (prop({"type": "boolean", "ordered": True}), "schema.ordered", "field.ordered"),
    (prop({"enum": ["a"], "description": 5}), "schema.type", "field.description"),
    (
        prop({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "set_constraints": 5}),
        "schema.type",
        "field.set_constraints",
    ),
    (
        prop({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3}),
        "schema.set_constraints",
        "field.set_constraints[0].k",
    ),
    ({"properties": {}}, "schema.missing_key", "properties.choices"),
    (DEEP, "schema.json.depth", ".".join(["properties.field"] * 16 + ["type"])),
    (
        '{"type": "object", "properties": {"a": {}, "a": {"type": "boolean"}}}',
        "schema.json.duplicate_key",
        "properties.a",
    ),
    ('{"type": "object", "properties": {"a": {"enum": [NaN]}}}', "schema.json", "properties.a.enum[0]"),
    (
        '{"type": "object", "properties": {"a": {"type": "boolean", "title": "\\ud800"}}}',
        "schema.surrogate",
        "properties.a.title",
    ),
    ("schema.json", "schema.json", ""),
    (Path("no\0file"), "schema.input.file", ""),
    (prop({"type": "array"}), "schema.input.items", "field"),
    (prop({"type": "array", "items": {"type": "boolean"}}), "schema.input.items", "field.items"),
    (prop({"type": "array", "items": {"type": "string"}}), "schema.input.text", "field.items"),
    (prop({"type": "array", "items": {"type": "array"}}), "schema.input.items", "field.items"),
    (prop({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": -1}), "schema.input.items", "field.minItems"),
    (prop({"anyOf": [{"enum": ["a"]}, {"type": "array", "items": {"enum": ["a"]}}]}), "schema.input.union", "field"),
    (prop({"anyOf": [{"enum": ["a"]}, {"type": "string"}]}), "schema.input.text", "field"),
    (prop({}), "schema.input.unknown", "field"),
    (prop([]), "schema.input.schema", "field"),
    ({"type": "array", "items": {}}, "schema.input.object", ""),
    ({"type": "object"}, "schema.input.object", ""),
    (prop({"enum": ["a"], "ordered": "yes"}), "schema.type", "field.ordered"),
    (prop({"enum": ["a"], "choice_descriptions": []}), "schema.type", "field.choice_descriptions"),
    (prop({"enum": ["a"], "depends_on": "b"}), "schema.depends_on", "field.depends_on"),
    ("no JSON", "schema.json", ""),
    ("[1]", "schema.type", ""),
    ("[" * 100_000, "schema.json.depth", "[0]" * 32),
    ('{"a": {"type": "boolean"}, "a": {"type": "boolean"}}', "schema.json.duplicate_key", "a"),
    (Path("/no/such/file.json"), "schema.input.file", ""),
]


@pytest.mark.parametrize(("source", "code", "path"), REFUSED, ids=lambda value: re.sub(r"\W+", "-", str(value))[:40])
def test_what_cannot_be_decided_is_refused(source, code, path):
    with pytest.raises(jevmlx.SchemaError) as caught:
        jevmlx.schema_of(source)
    assert (caught.value.code, caught.value.path) == (code, path)


def test_a_file_that_is_not_utf8(tmp_path):
    file = tmp_path / "latin.json"
    file.write_bytes('{"é": {}}'.encode("latin-1"))
    with pytest.raises(jevmlx.SchemaError) as caught:
        jevmlx.schema_of(file)
    assert caught.value.code == "schema.input.file"


def test_the_name_of_a_file_is_no_text_and_the_error_says_so():
    with pytest.raises(jevmlx.SchemaError, match=r"pathlib\.Path"):
        jevmlx.schema_of("schema.json")
