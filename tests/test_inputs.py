"""All forms of a schema come to the same schema, and values come back in the form they were asked in."""

import dataclasses
import enum
import json
import re
import sys
import typing
from pathlib import Path
from typing import Annotated, Literal, Optional

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jevmlx
from jevmlx.inputs import choose_schema, judge_schema, rate_schema
from reference.loading import load_tokenizer

TOKENIZER = load_tokenizer("qwen2.5")
WORDS = st.text(st.sampled_from("abcdefgh XY'\"\\é😀"), min_size=1, max_size=6).filter(lambda text: text.strip())


@st.composite
def library_forms(draw):
    """A schema in the library's own form; names are identifiers, as classes need them."""
    fields = {}
    for index in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["boolean", "enum", "ordered", "nullable", "multi"]))
        spec = {"type": kind if kind in ("boolean", "multi") else "enum"}
        if kind != "boolean":
            least = 2 if kind == "multi" else 1
            spec["choices"] = draw(st.lists(WORDS, min_size=least, max_size=5, unique=True))
            glossed = draw(st.lists(st.sampled_from(spec["choices"]), unique=True))
            if glossed:
                spec["choice_descriptions"] = {choice: f"means {choice}" for choice in glossed}
        if kind == "ordered":
            spec["ordered"] = True
        if kind == "nullable":
            spec["allow_none_of_above"] = True
        if draw(st.booleans()):
            spec["description"] = draw(WORDS)
        fields[f"field_{index}"] = spec
    return fields


def annotation(spec, items):
    """A field as a Python type; choices as a Literal or as an Enum."""
    extra = {key: spec[key] for key in ("choice_descriptions", "ordered") if key in spec}
    field = pydantic.Field(description=spec.get("description"), json_schema_extra=extra or None)
    if spec["type"] == "boolean":
        return Annotated[bool, field]
    if items == "enum":
        one = enum.Enum("Choice", {f"m{i}": choice for i, choice in enumerate(spec["choices"])})
    else:
        one = Literal[tuple(spec["choices"])]
    if spec["type"] == "multi":
        return Annotated[list[one], field]
    return Annotated[Optional[one] if spec.get("allow_none_of_above") else one, field]  # noqa: UP045 - built at run time


def json_schema(fields):
    """The same schema as JSON Schema, by hand."""
    properties = {}
    for name, spec in fields.items():
        own = {key: spec[key] for key in ("choice_descriptions", "ordered", "description") if key in spec}
        if spec["type"] == "boolean":
            properties[name] = {"type": "boolean", **own}
        elif spec["type"] == "multi":
            properties[name] = {"type": "array", "items": {"$ref": f"#/$defs/{name}~1items"}, **own}
        elif spec.get("allow_none_of_above"):
            properties[name] = {"anyOf": [{"enum": spec["choices"]}, {"type": "null"}], **own}
        else:
            properties[name] = {"oneOf": [{"const": choice} for choice in spec["choices"]], **own}
    items = {f"{name}/items": {"enum": spec["choices"]} for name, spec in fields.items() if spec["type"] == "multi"}
    return {"type": "object", "properties": properties, "$defs": items}


def forms(fields, items, folder):
    types = {name: annotation(spec, items) for name, spec in fields.items()}
    file = folder / "schema.json"
    file.write_text(json.dumps(fields, ensure_ascii=False), "utf-8")
    return {
        "mapping": fields,
        "text": json.dumps(fields),
        "file": file,
        "schema": jevmlx.Schema(fields),
        "JSON Schema": json_schema(fields),
        "JSON Schema text": json.dumps(json_schema(fields)),
        "pydantic": pydantic.create_model("Model", **{name: (one, ...) for name, one in types.items()}),
        "dataclass": dataclasses.make_dataclass("Data", list(types.items())),
        "TypedDict": typing.TypedDict("Typed", types),
    }


@settings(max_examples=60, deadline=None)
@given(fields=library_forms(), items=st.sampled_from(["literal", "enum"]), scoring=st.sampled_from(["labels", "slots"]))
def test_all_forms_come_to_the_same_plan(tmp_path_factory, fields, items, scoring):
    expected = jevmlx.Schema(fields)
    try:
        plan_hash = jevmlx.compile_plan(expected, TOKENIZER, scoring).plan_hash
    except jevmlx.CompileError:
        plan_hash = None
    for form, source in forms(fields, items, tmp_path_factory.mktemp("forms")).items():
        found = jevmlx.schema_of(source).schema
        assert found.to_dict() == expected.to_dict(), form
        if plan_hash is not None:
            assert jevmlx.compile_plan(found, TOKENIZER, scoring).plan_hash == plan_hash, form


@settings(max_examples=60, deadline=None)
@given(fields=library_forms(), items=st.sampled_from(["literal", "enum"]), draw=st.data())
def test_values_come_back_in_the_form_they_were_asked_in(tmp_path_factory, fields, items, draw):
    values = {}
    for name, spec in fields.items():
        if spec["type"] == "boolean":
            values[name] = draw.draw(st.booleans())
        elif spec["type"] == "multi":
            chosen = draw.draw(st.sets(st.sampled_from(spec["choices"])))
            values[name] = tuple(choice for choice in spec["choices"] if choice in chosen)
        else:
            nothing = [None] if spec.get("allow_none_of_above") else []
            values[name] = draw.draw(st.sampled_from(spec["choices"] + nothing))
    for form, source in forms(fields, items, tmp_path_factory.mktemp("forms")).items():
        typed = jevmlx.schema_of(source).restore(values)
        if form in ("pydantic", "dataclass"):
            assert isinstance(typed, source)
            typed = vars(typed)
        for name, value in typed.items():
            plain = [getattr(item, "value", item) for item in value] if isinstance(value, (list, tuple)) else value
            plain = getattr(plain, "value", plain)
            assert plain == (list(values[name]) if isinstance(values[name], tuple) else values[name]), (form, name)


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Team(enum.StrEnum):
    """Who answers."""

    BILLING = "billing"
    SALES = "sales"


@dataclasses.dataclass
class Ticket:
    team: Team
    priority: Priority = dataclasses.field(metadata={"description": "How soon", "json_schema_extra": {"ordered": True}})
    tags: frozenset[Literal["refund", "outage"]]
    pair: Annotated[tuple[Team, ...], pydantic.Field(min_length=1)]
    reply: Literal[True, False]


def test_enums_sets_tuples_and_numbers():
    given_ = jevmlx.schema_of(Ticket)
    assert (
        given_.schema.to_dict()
        == {
            "team": {"type": "enum", "description": "Who answers.", "choices": ["billing", "sales"]},
            "priority": {"type": "enum", "description": "How soon", "choices": ["1", "2"], "ordered": True},
            "tags": {"type": "multi", "choices": ["refund", "outage"]},
            "pair": {
                "type": "multi",
                "choices": ["billing", "sales"],
                "set_constraints": [{"type": "at_least_k", "options": ["billing", "sales"], "k": 1}],
            },
            "reply": {"type": "boolean"},
        }
        or given_.schema.to_dict()["pair"].get("description") == "Who answers."
    )
    values = {"team": "sales", "priority": "2", "tags": ("refund",), "pair": ("billing", "sales"), "reply": False}
    typed = given_.restore(values)
    assert typed == Ticket(Team.SALES, Priority.HIGH, frozenset({"refund"}), (Team.BILLING, Team.SALES), False)
    assert type(typed.priority) is Priority


def test_glosses_from_const_unions():
    source = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "team": {
                "description": "Who answers",
                "oneOf": [
                    {"const": "billing", "title": "charges, refunds"},
                    {"const": "sales", "title": "Sales", "description": "offers"},
                    {"type": "null"},
                ],
            },
            "nested": {"anyOf": [{"enum": ["a"]}, {"anyOf": [{"const": "b"}, {"enum": ["c", None]}]}]},
            "range": {"type": "array", "items": {"enum": ["x", "y", "z"]}, "minItems": 1, "maxItems": 2},
            "two": {"type": "array", "items": {"enum": ["x", "y", "z"]}, "minItems": 2, "maxItems": 2},
        },
    }
    found = jevmlx.schema_of(source).schema.to_dict()
    assert found["team"]["choice_descriptions"] == {"billing": "charges, refunds", "sales": "offers"}
    assert found["team"]["allow_none_of_above"]
    assert found["nested"] == {"type": "enum", "choices": ["a", "b", "c"], "allow_none_of_above": True}
    options = ["x", "y", "z"]
    assert found["range"]["set_constraints"] == [
        {"type": "at_least_k", "options": options, "k": 1},
        {"type": "at_most_k", "options": options, "k": 2},
    ]
    assert found["two"]["set_constraints"] == [{"type": "exact_k", "options": options, "k": 2}]


def test_the_two_forms_of_mappings_cannot_be_confused():
    for name in ("properties", "type", "$ref", "$schema", "items", "enum"):
        found = jevmlx.schema_of({name: {"type": "boolean"}}).schema
        assert [field.name for field in found.fields] == [name]


def prop(spec):
    return {"type": "object", "properties": {"field": spec}}


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
    (7, "schema.input.type", ""),
    (None, "schema.input.type", ""),
    (["a"], "schema.input.type", ""),
    (Text(note="x"), "schema.input.type", ""),
    (prop({"enum": []}), "schema.input.choices", "field"),
    (prop({"enum": "ab"}), "schema.input.choices", "field"),
    (prop({"enum": [1.5]}), "schema.input.choices", "field"),
    (prop({"enum": [1, "1"]}), "schema.input.choices", "field"),
    (prop({"const": True}), "schema.input.choices", "field"),
    (prop({"enum": [None]}), "schema.input.choices", "field"),
    (prop({"$ref": "#/$defs/none"}), "schema.input.ref", "field"),
    (prop({"$ref": "https://example.org/x.json"}), "schema.input.ref", "field"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "schema.input.ref", ""),
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


def test_values_that_a_class_cannot_hold():
    with pytest.raises(jevmlx.SchemaError) as caught:
        jevmlx.schema_of(Inner).restore({"flag": None})
    assert caught.value.code == "schema.input.value"
    assert "flag" in caught.value.message


def test_one_field():
    assert choose_schema(["a", "b"], "Which\n one? ").to_dict() == {
        "answer": {"type": "enum", "description": "Which one?", "choices": ["a", "b"]}
    }
    assert choose_schema({"a": "first", "b": ""}, several=True).fields[0].choice_descriptions == {"a": "first"}
    assert choose_schema(["a"], allow_none=True).fields[0].none_of_above
    assert judge_schema("Is it?").fields[0].type == "boolean"
    assert rate_schema(3).fields[0].choices == ("1", "2", "3")
    assert rate_schema(["low", "high"], "How?").fields[0].ordered


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: choose_schema("ab"), "schema.input.choices"),
        (lambda: choose_schema(3), "schema.input.choices"),
        (lambda: choose_schema([]), "schema.choices.count"),
        (lambda: choose_schema(["a"], 3), "schema.input.question"),
        (lambda: choose_schema(["a", "b"], several=True, allow_none=True), "schema.allow_none_of_above"),
        (lambda: judge_schema(" "), "schema.input.question"),
        (lambda: rate_schema(0), "schema.choices.count"),
        (lambda: rate_schema(256), "schema.choices.count"),
    ],
)
def test_one_field_at_fault(make, code):
    with pytest.raises(jevmlx.SchemaError) as caught:
        make()
    assert caught.value.code == code


def test_the_package_is_imported_without_pydantic():
    """Importing stays cheap: pydantic comes with the first use."""
    import subprocess

    code = "import sys, jevmlx; assert 'pydantic' not in sys.modules; jevmlx.schema_of({'a': {'type': 'boolean'}})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
