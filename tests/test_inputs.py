"""All forms of a schema come to the same schema, and values come back in the form they were asked in."""

import dataclasses
import enum
import json
import pickle
import subprocess
import sys
import typing
from typing import Annotated, Literal

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jevmlx
from jevmlx.inputs import choose_schema, judge_schema, rate_schema
from jevmlx.inputs.json_schema import is_json_schema
from reference.inputs import forms, json_schema, library_forms, listed, prop, refer
from reference.loading import load_tokenizer


class Mail(pydantic.BaseModel):
    urgent: bool


TOKENIZER = load_tokenizer("qwen2.5")
ITEMS = st.sampled_from(["literal", "enum", "members"])


@settings(max_examples=40, deadline=None)
@given(fields=library_forms(), items=ITEMS, scoring=st.sampled_from(["labels", "slots"]))
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


@settings(max_examples=40, deadline=None)
@given(fields=library_forms(), items=ITEMS, draw=st.data())
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
        if form in ("mapping", "text", "file", "schema"):
            assert typed == values
            continue
        if form in ("pydantic", "strict", "dataclass"):
            assert type(typed) is source
            typed = vars(typed)
        assert list(typed) == list(values)
        for name, value in typed.items():
            assert_typed(value, values[name], fields[name], members=items != "literal" and "JSON" not in form)


def assert_typed(found, decided, spec, *, members):
    """What was found is what was decided: a number where the form had one, a member of the Enum where it had an Enum."""
    if isinstance(decided, tuple):
        assert isinstance(found, list)
        assert len(found) == len(decided)
        for one, choice in zip(found, decided, strict=True):
            assert_typed(one, choice, spec, members=members)
    elif isinstance(decided, str):
        assert isinstance(found, enum.Enum) is members
        plain = found.value if members else found
        assert plain == dict(zip(spec["choices"], listed(spec["choices"]), strict=True))[decided]
    else:
        assert found is decided


KEYWORDS = st.sampled_from(
    ["properties", "type", "$ref", "$schema", "$defs", "items", "enum", "anyOf", "required", "x y"]
)


@settings(max_examples=60)
@given(names=st.lists(KEYWORDS, min_size=1, max_size=4, unique=True), draw=st.data())
def test_the_two_forms_of_mappings_cannot_be_confused(names, draw):
    fields = draw.draw(library_forms(names))
    assert not is_json_schema(fields)
    other = json_schema(fields)
    for given_form in (other, {"properties": other["properties"], "$defs": other["$defs"]}):
        assert is_json_schema(given_form)
        for source in (fields, json.dumps(fields), given_form, json.dumps(given_form)):
            assert jevmlx.schema_of(source).schema.to_dict() == jevmlx.Schema(fields).to_dict()


class Spelt(enum.Enum):
    YES = True
    NO = False


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
    priority: Priority = dataclasses.field(metadata={"description": "How soon", "ordered": True})
    tags: frozenset[Literal["refund", "outage"]]
    pair: Annotated[tuple[Team, ...], pydantic.Field(min_length=1)]
    reply: Literal[True, False]
    spelt: Spelt = dataclasses.field(metadata={"choice_descriptions": {Spelt.NO: "misspelt"}})
    asked_of: typing.ClassVar[str] = "nobody"
    derived: str = dataclasses.field(init=False, default="set by the class")


def test_enums_sets_tuples_and_numbers():
    given_ = jevmlx.schema_of(Ticket)
    teams = ["billing", "sales"]
    assert given_.schema.to_dict() == {
        "team": {"type": "enum", "description": "Who answers.", "choices": teams},
        "priority": {"type": "enum", "description": "How soon", "choices": ["1", "2"], "ordered": True},
        "tags": {"type": "multi", "choices": ["refund", "outage"]},
        "pair": {
            "type": "multi",
            "description": "Who answers.",
            "choices": teams,
            "set_constraints": [{"type": "at_least_k", "options": teams, "k": 1}],
        },
        "reply": {"type": "boolean"},
        "spelt": {"type": "boolean", "choice_descriptions": {"false": "misspelt"}},
    }
    values = {"team": "sales", "priority": "2", "tags": ("refund",), "pair": ("billing", "sales")}
    typed = given_.restore(values | {"reply": False, "spelt": True})
    pair = (Team.BILLING, Team.SALES)
    assert typed == Ticket(Team.SALES, Priority.HIGH, frozenset({"refund"}), pair, False, Spelt.YES)
    assert (type(typed.priority), type(typed.team), type(typed.spelt)) == (Priority, Team, Spelt)
    assert typed.derived == "set by the class"


def test_what_stands_in_a_field_of_a_model():
    class Model(pydantic.BaseModel, strict=True):
        """Not a question."""

        team: Annotated[Team, pydantic.Field(alias="from", description="Whose is it?")] = pydantic.Field(
            json_schema_extra={"choice_descriptions": {Team.SALES: "offers", Team.BILLING: "charges"}}
        )
        reply: Spelt = pydantic.Field(
            validation_alias=pydantic.AliasPath("answers", 0),
            json_schema_extra={
                "x-jevmlx": {"depends_on": "from", "choice_descriptions": {Spelt.NO: "later", Spelt.YES: "at once"}}
            },
        )
        tags: set[Literal["a", "b"]] = pydantic.Field(
            min_length=1,
            json_schema_extra={"set_constraints": [{"type": "implies", "if_option": "a", "then_option": "b"}]},
        )

    given_ = jevmlx.schema_of(Model)
    assert given_.schema.to_dict() == {
        "from": {
            "type": "enum",
            "description": "Whose is it?",
            "choices": ["billing", "sales"],
            "choice_descriptions": {"billing": "charges", "sales": "offers"},
        },
        "reply": {
            "type": "boolean",
            "choice_descriptions": {"true": "at once", "false": "later"},
            "depends_on": "from",
        },
        "tags": {
            "type": "multi",
            "choices": ["a", "b"],
            "set_constraints": [
                {"type": "implies", "if_option": "a", "then_option": "b"},
                {"type": "at_least_k", "options": ["a", "b"], "k": 1},
            ],
        },
    }
    typed = given_.restore({"from": "sales", "reply": True, "tags": ("b",)})
    assert (typed.team, typed.reply, typed.tags) == (Team.SALES, Spelt.YES, {"b"})


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
            "only": {"const": "one", "title": "Only", "description": "what the field is about"},
            "nested": {"anyOf": [{"enum": ["a"]}, {"anyOf": [{"const": "b"}, {"enum": ["c", None]}]}]},
            "range": {"type": "array", "items": {"enum": ["x", "y", "z"]}, "minItems": 1, "maxItems": 2},
            "two": {"type": "array", "items": {"enum": ["x", "y", "z"]}, "minItems": 2, "maxItems": 2},
        },
    }
    found = jevmlx.schema_of(source).schema.to_dict()
    assert found["team"]["choice_descriptions"] == {"billing": "charges, refunds", "sales": "offers"}
    assert found["team"]["allow_none_of_above"]
    assert found["only"] == {"type": "enum", "description": "what the field is about", "choices": ["one"]}
    assert found["nested"] == {"type": "enum", "choices": ["a", "b", "c"], "allow_none_of_above": True}
    options = ["x", "y", "z"]
    assert found["range"]["set_constraints"] == [
        {"type": "at_least_k", "options": options, "k": 1},
        {"type": "at_most_k", "options": options, "k": 2},
    ]
    assert found["two"]["set_constraints"] == [{"type": "exact_k", "options": options, "k": 2}]


def test_glosses_of_a_booleans_constants():
    spec = {"oneOf": [{"const": True, "description": "an answer is due"}, {"const": False, "title": "all is well"}]}
    found = jevmlx.schema_of(prop(spec)).schema.to_dict()
    assert found["field"]["choice_descriptions"] == {"true": "an answer is due", "false": "all is well"}


def test_the_docstring_of_an_enum_that_may_be_none():
    class Mood(enum.Enum):
        """How it sounds."""

        CALM = "calm"
        ANGRY = "angry"

    for annotation in (Mood, Mood | None):
        model = pydantic.create_model("Model", mood=annotation)
        assert jevmlx.schema_of(model).schema.fields[0].description == "How it sounds."


def test_values_that_a_json_schema_cannot_hold():
    restore = jevmlx.schema_of(prop({"enum": ["a", "b"]})).restore
    with pytest.raises(jevmlx.SchemaError) as caught:
        restore({"field": None})
    assert (caught.value.code, caught.value.path) == ("schema.input.value", "field")
    assert jevmlx.schema_of(prop({"enum": ["a", None]})).restore({"field": None}) == {"field": None}


def test_a_way_back_goes_to_other_processes():
    for form, values in ((Mail, {"urgent": True}), (prop({"enum": [1, 2]}), {"field": "2"})):
        restore = jevmlx.schema_of(form).restore
        assert pickle.loads(pickle.dumps(restore))(values) == restore(values)


def test_references_are_json_pointers_in_a_fragment():
    source = refer(**{"a~0b~1c%20d": {"allOf": [{"$ref": "#/$defs/plain"}], "description": "beside"}})
    source["$defs"] = {
        "a~b/c d": source["$defs"]["a~0b~1c%20d"],
        "plain": {"enum": ["a"], "description": "referred to"},
    }
    found = jevmlx.schema_of(source).schema.fields[0]
    assert (found.description, found.choices) == ("beside", ("a",))


def test_a_file_with_a_byte_order_mark(tmp_path):
    file = tmp_path / "schema.json"
    file.write_text('{"urgent": {"type": "boolean"}}', "utf-8-sig")
    assert jevmlx.schema_of(file).schema.fields[0].name == "urgent"


def test_a_text_may_hold_what_this_library_does_not_read():
    source = prop({"enum": ["a", None], "default": 1.5, "examples": [{"x": -0.0}]}) | {"$id": "urn:x", "required": []}
    expected = {"field": {"type": "enum", "choices": ["a"], "allow_none_of_above": True}}
    assert jevmlx.schema_of(json.dumps(source)).schema.to_dict() == expected
    assert jevmlx.schema_of(source).schema.to_dict() == expected


def test_values_that_a_class_cannot_hold():
    with pytest.raises(jevmlx.SchemaError) as caught:
        jevmlx.schema_of(Ticket).restore(
            {"team": None, "priority": "3", "tags": (), "pair": (), "reply": True, "spelt": True}
        )
    assert caught.value.code == "schema.input.value"
    for name in ("team", "priority", "pair"):
        assert f"{name}: " in caught.value.message
    assert "tags: " not in caught.value.message


def test_what_a_class_itself_refuses():
    class Consistent(pydantic.BaseModel):
        urgent: bool
        team: Team

        @pydantic.model_validator(mode="after")
        def sales_are_never_urgent(self) -> typing.Self:
            if self.urgent and self.team is Team.SALES:
                raise ValueError("sales are never urgent")
            return self

    given_ = jevmlx.schema_of(Consistent)
    assert given_.restore({"urgent": False, "team": "sales"}).team is Team.SALES
    with pytest.raises(jevmlx.SchemaError, match="sales are never urgent"):
        given_.restore({"urgent": True, "team": "sales"})


def test_values_that_were_never_asked_for_stay_as_they_are():
    given_ = jevmlx.schema_of(prop({"enum": [1, 2]}))
    assert given_.restore({"field": "3", "other": "1"}) == {"field": "3", "other": "1"}


def test_what_was_read_may_be_given_again():
    given_ = jevmlx.schema_of(Ticket)
    assert jevmlx.schema_of(given_) is given_


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
        (lambda: choose_schema({"a", "b"}), "schema.input.choices"),
        (lambda: choose_schema({"a": None}), "schema.type"),
        (lambda: choose_schema(["a", "a"]), "schema.choices.duplicate"),
        (lambda: choose_schema(["a"], allow_none="no"), "schema.type"),
        (lambda: judge_schema(None), "schema.input.question"),
        (lambda: rate_schema(0), "schema.input.choices"),
        (lambda: rate_schema(10**12), "schema.input.choices"),
        (lambda: rate_schema(True), "schema.input.choices"),
        (lambda: rate_schema(2.5), "schema.input.choices"),
        (lambda: rate_schema([]), "schema.choices.count"),
    ],
)
def test_one_field_at_fault(make, code):
    with pytest.raises(jevmlx.SchemaError) as caught:
        make()
    assert caught.value.code == code


def test_the_package_is_imported_without_pydantic():
    """Importing stays cheap: pydantic comes with the first use."""
    code = "import sys, jevmlx; assert 'pydantic' not in sys.modules; jevmlx.schema_of({'a': {'type': 'boolean'}})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
