"""One-line schemas: what is written is what is read, and nothing but an error with a position comes of anything else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jevmlx
from jevmlx.cli.oneline import parse, parse_answers

WORD = re.compile(r"""[^\s|<\[\]:;?'"][^\s|<\[\]:;?]*""")


def quoted(text, mark="'"):
    return mark + text.replace("\\", "\\\\").replace(mark, f"\\{mark}") + mark


def rendered(text, mark):
    return text if WORD.fullmatch(text) else quoted(text, mark)


def render(fields, space, mark):
    """The obvious way to write a schema down."""
    parts = []
    for name, spec in fields.items():
        described = f" {quoted(spec['description'], mark)}" if "description" in spec else ""
        head = rendered(name, mark) + described
        if spec["type"] == "boolean":
            parts.append(f"{head}{space}?")
            continue
        sign = "<" if spec.get("ordered") else "|"
        labels = f"{space}{sign}{space}".join(rendered(choice, mark) for choice in spec["choices"])
        if spec["type"] == "multi":
            labels = f"[{space}{labels}{space}]"
        parts.append(f"{head}{'?' if spec.get('allow_none_of_above') else ''}{space}:{space}{labels}")
    return (f"{space};{space}" if space else " ").join(parts)


texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["a", "very angry", "don't", "a|b", "?", "\\"]
)
described = st.just({}) | st.builds(lambda text: {"description": text}, texts)
boolean = st.just({"type": "boolean"})
enum = st.builds(
    lambda choices, more: {"type": "enum", "choices": choices} | more,
    st.lists(texts, min_size=1, max_size=4),
    st.sampled_from([{}, {"allow_none_of_above": True}]),
)
# One level alone is written as one choice alone is.
scale = st.builds(
    lambda choices: {"type": "enum", "choices": choices, "ordered": True}, st.lists(texts, min_size=2, max_size=4)
)
multi = st.builds(lambda choices: {"type": "multi", "choices": choices}, st.lists(texts, min_size=1, max_size=4))
field = st.builds(lambda spec, more: spec | more, boolean | enum | scale | multi, described)


@given(
    st.dictionaries(texts, field, min_size=1, max_size=4), st.sampled_from(["", " ", "\n\t"]), st.sampled_from("'\"")
)
def test_what_is_written_is_what_is_read(fields, space, mark):
    found = parse(render(fields, space, mark))
    assert found == fields
    assert list(found) == list(fields)


def outcome(read, text):
    try:
        return read(text), None
    except jevmlx.JevmlxError as error:
        return None, error


@given(st.text() | st.text("ab|<[]:;?'\" \\", max_size=30))
def test_nothing_but_an_error_with_its_position(text):
    for read in (parse, parse_answers):
        found, error = outcome(read, text)
        if error is None:
            assert found
        else:
            assert error.code == "input.ask"
            assert 1 <= int(error.path.removeprefix("character ")) <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "urgent? team: billing|technical|sales",
            {"urgent": {"type": "boolean"}, "team": {"type": "enum", "choices": ["billing", "technical", "sales"]}},
        ),
        ("team?: a|b", {"team": {"type": "enum", "choices": ["a", "b"], "allow_none_of_above": True}}),
        ("mood: 'very angry'<calm", {"mood": {"type": "enum", "choices": ["very angry", "calm"], "ordered": True}}),
        ("tags: [a|b];", {"tags": {"type": "multi", "choices": ["a", "b"]}}),
        (
            'team "Who\'s it for?": a|b',
            {"team": {"type": "enum", "choices": ["a", "b"], "description": "Who's it for?"}},
        ),
        ("don't?", {"don't": {"type": "boolean"}}),
    ],
)
def test_examples(text, fields):
    assert parse(text) == fields


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 1, "name"),
        ("  ;", 4, "name"),
        ("urgent", 7, "'?'"),
        ("team: very angry|calm", 17, "quote a label of several words"),
        ("team: a|", 9, "label"),
        ("team: a|b<c", 10, "take one"),
        ("team: [a|b", 11, "']'"),
        ("team: [a<b]", 11, "scale"),
        ("team: 'a|b", 7, "never closed"),
        ("a? a?", 4, "twice"),
        ("?", 1, "name"),
        ("a: b c?: ", 10, "label"),
    ],
)
def test_errors_say_where_and_what(text, at, says):
    with pytest.raises(jevmlx.JevmlxError) as caught:
        parse(text)
    assert caught.value.path == f"character {at}"
    assert says in caught.value.message
