"""The product against the slow reference on random schemas and random toy tokenizers."""

import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jevmlx
from reference import jsontext
from reference import plan as reference_plan
from reference import prompt as reference_prompt
from reference import schema as reference_schema

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAME = st.one_of(
    st.text(string.ascii_lowercase, min_size=1, max_size=6),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="./#"), min_size=1, max_size=6),
)


@st.composite
def specs(draw):
    kind = draw(st.sampled_from(["boolean", "enum", "choice", "selection", "multi", None]))
    spec = {} if kind is None else {"type": kind}
    choices = ["true", "false"]
    if kind != "boolean":
        least, most = (2, 8) if kind == "multi" else (1, 40)
        choices = draw(st.lists(TEXT, min_size=least, max_size=most, unique=True))
        spec["choices"] = choices
    if draw(st.booleans()):
        spec["description"] = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
    if kind != "boolean" and kind != "multi" and "none of the above" not in choices:
        spec |= draw(st.sampled_from([{}, {}, {"ordered": True}, {"allow_none_of_above": True}]))
    if draw(st.booleans()):
        spec["choice_descriptions"] = draw(st.dictionaries(st.sampled_from(choices), TEXT, max_size=3))
    return spec


SCHEMAS = st.dictionaries(NAME, specs(), min_size=1, max_size=4)


class Toy:
    """A tokenizer over few ids: characters, in pieces of some width, folded onto a small vocabulary."""

    def __init__(self, vocabulary, width, salt):
        self.vocabulary, self.width, self.salt = vocabulary, width, salt

    def encode(self, text):
        pieces = [text[at : at + self.width] for at in range(0, len(text), self.width)]
        return [hash_of(piece, self.salt) % self.vocabulary for piece in pieces]

    def __repr__(self):
        return f"Toy({self.vocabulary}, {self.width}, {self.salt})"


def hash_of(piece, salt):
    value = salt
    for character in piece:
        value = (value * 1_000_003 + ord(character)) % 2**31
    return value


TOYS = st.builds(Toy, st.one_of(st.integers(2, 60), st.integers(60, 100_000)), st.integers(1, 3), st.integers(0, 1000))


def by_reference(schema, toy, scoring):
    """The reference's plan, or ``None`` where it refuses."""
    fields = reference_schema.fields_of(schema)
    try:
        return fields, reference_plan.compile_plan(fields, lambda texts: [toy.encode(t) for t in texts], scoring)
    except ValueError:
        return fields, None


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS, toy=TOYS, scoring=st.sampled_from(["labels", "slots"]))
def test_plans_hashes_and_blocks_are_the_references(schema, toy, scoring):
    fields, expected = by_reference(schema, toy, scoring)
    try:
        plan = jevmlx.compile_plan(schema, toy, scoring)
    except jevmlx.CompileError:
        assert expected is None
        return
    assert expected is not None
    assert plan.to_dict() == expected
    assert plan.plan_hash == jsontext.plan_hash(expected)
    assert plan.schema_block == reference_prompt.schema_block(fields, expected)


@settings(max_examples=150, deadline=None)
@given(
    context=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    key=st.one_of(st.none(), st.binary(min_size=1, max_size=80)),
    supports_system=st.booleans(),
)
def test_turns_are_the_references(context, key, supports_system):
    toy = Toy(100_000, 1, 1)
    schema = {"a": {"choices": ["x", "y"], "description": "d"}, "b": {"type": "boolean"}}
    fields, expected = by_reference(schema, toy, "labels")
    plan = jevmlx.compile_plan(schema, toy)
    block = reference_prompt.schema_block(fields, expected)
    content = reference_prompt.user_content(block, context, key)
    turns = reference_prompt.context_turns(content, supports_system)
    assert plan.context_turns(context, supports_system, key) == [(turn["role"], turn["content"]) for turn in turns]
    assert jevmlx.context_nonce(context, key) in plan.user_content(context, key)

    alone = reference_prompt.context_turns(reference_prompt.isolated_content(block, context, key), supports_system)
    assert plan.isolated_turns(context, supports_system, key) == [(turn["role"], turn["content"]) for turn in alone]


@settings(max_examples=300, deadline=None)
@given(schema=SCHEMAS)
def test_a_schema_survives_its_plain_form_and_its_json(schema):
    import json

    parsed = jevmlx.Schema(schema)
    assert jevmlx.Schema(parsed.to_dict()) == parsed
    assert jevmlx.Schema(json.dumps(schema)) == parsed
    assert [field.name for field in parsed.fields] == list(schema)


@settings(max_examples=300, deadline=None)
@given(ids=st.lists(st.integers(0, 2**31 - 1), max_size=20))
def test_the_id_hash_is_the_references(ids):
    import hashlib
    import json

    assert jevmlx.token_ids_sha256(ids) == hashlib.sha256(json.dumps(ids).encode()).hexdigest()


@st.composite
def dependent(draw):
    """A schema of scalar fields, some under others, and a choice for each."""
    schema = draw(SCHEMAS.filter(lambda schema: all(spec.get("type") != "multi" for spec in schema.values())))
    names = list(schema)
    for index in range(1, len(names)):
        if draw(st.booleans()):
            schema[names[index]]["depends_on"] = draw(st.sampled_from(names[:index]))
    # The order that fields stand in has nothing to do with what depends on what.
    schema = {name: schema[name] for name in draw(st.permutations(names))}
    fields = reference_schema.fields_of(schema)
    return schema, {field.name: draw(st.sampled_from(field.choices)) for field in fields}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asked=dependent(), toy=TOYS, scoring=st.sampled_from(["labels", "slots"]))
def test_waves_are_the_references(asked, toy, scoring):
    schema, decided = asked
    fields, expected = by_reference(schema, toy, scoring)
    if expected is None:
        return

    def encode(texts):
        return [toy.encode(text) for text in texts]

    plan = jevmlx.compile_plan(schema, toy, scoring)
    indices = [field.choices.index(decided[field.name]) for field in plan.schema.fields]
    for depth in range(1, max(plan.depths()) + 1):
        try:
            wave = reference_plan.compile_wave(fields, expected, depth, decided, encode)
        except ValueError:
            with pytest.raises(jevmlx.CompileError):
                plan.wave(depth, indices, encode)
            continue
        found = plan.wave(depth, indices, encode)
        assert found.to_dict() == wave
        assert found.plan_hash == jsontext.plan_hash(wave)
        assert [plan.schema.fields[index].name for index in found.fields] == list(wave["fields"])


@given(schema=SCHEMAS, of=st.integers(1, 9), step=st.integers(0, 8), scales=st.booleans())
def test_rotations_and_the_canonical_order_are_the_references(schema, of, step, scales):
    fields = reference_schema.fields_of(schema)
    turned = jevmlx.Schema(schema).rotated(step % of, of, scales)
    sorted_ = jevmlx.Schema(schema).canonical()
    for index, field in enumerate(fields):
        assert list(turned.fields[index].choices) == reference_schema.rotated(field, step % of, of, scales).choices
        assert list(sorted_.fields[index].choices) == reference_schema.canonical(field).choices
        for other in (turned, sorted_):
            assert other.fields[index].choice_descriptions == jevmlx.Schema(schema).fields[index].choice_descriptions
