"""The slow reference against the published vectors, and against the traps of the contract one by one."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import codebook, prompt, vectors
from reference.control import DataEncoder, is_control
from reference.jsontext import ids_text, json_text, plan_text, refuse_surrogates
from reference.loading import GOLDEN, FakeTokenizer, load_tokenizer, revisions
from reference.plan import compile_plan
from reference.render import apply_template, encoder_of, resolve_profile
from reference.schema import fields_of, one_line

CASES = vectors.cases()
PUBLISHED = {line.split("/")[-1] for line in (GOLDEN / "published.sha256").read_text().splitlines()}
REAL = ["qwen2.5", "qwen3", "gemma"]


def fake_encode(texts: list[str]) -> list[list[int]]:
    return [FakeTokenizer().encode(text) for text in texts]


# The vectors


def test_all_published_vectors_have_cases():
    assert len(PUBLISHED) == 15
    assert {vectors.file_name(case) for case in CASES} >= PUBLISHED


@pytest.mark.parametrize("case", CASES, ids=vectors.file_name)
def test_the_reference_gives_the_committed_bytes(case):
    committed = (GOLDEN / "prompts" / vectors.file_name(case)).read_bytes()
    assert vectors.vector_bytes(vectors.vector_of(case)) == committed


@pytest.mark.parametrize("case", [c for c in CASES if c["tokenizer"] != "fake"], ids=vectors.file_name)
def test_control_ids_are_the_templates_own(case):
    """As many control ids as the same turns have with harmless contents; the ids decode to the text."""
    tokenizer = load_tokenizer(case["tokenizer"])
    encoder = encoder_of(tokenizer)
    assert isinstance(encoder, DataEncoder)
    rendered = vectors.rendered_of(case)
    kwargs = resolve_profile(revisions()[case["tokenizer"]]["model_id"], tokenizer).template_kwargs
    harmless = apply_template(tokenizer, [turn | {"content": "x"} for turn in rendered.turns], kwargs)

    def control_ids(ids: list[int]) -> list[int]:
        return [i for i in ids if i in encoder.control.values()]

    assert control_ids(rendered.ids) == control_ids(tokenizer.encode(harmless, add_special_tokens=False))
    decoded = tokenizer.decode(rendered.ids)
    if case["tokenizer"] == "gemma":
        assert decoded == rendered.text.replace("▁", " ")
    else:
        assert decoded == unicodedata.normalize("NFC", rendered.text)
    if not any(token in turn["content"] for token in encoder.control for turn in rendered.turns):
        assert rendered.ids == tokenizer.encode(rendered.text, add_special_tokens=False)


# The three dialects


def test_json_text_escapes_only_what_it_must():
    assert json_text('"\\/\b\t\n\f\r\x00\x1f\x7fé\u2028😀') == '"\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001f\x7fé\u2028😀"'
    assert json_text({"b": [1, True], "a": None}) == '{"b": [1, true], "a": null}'


def test_plan_text_is_ascii_and_sorted_by_code_point():
    assert plan_text({"😀": 1, "\uff5e": {"b": 1, "a": 2}}) == '{"\\uff5e": {"a": 2, "b": 1}, "\\ud83d\\ude00": 1}'
    assert plan_text("\x7f\x80é") == '"\\u007f\\u0080\\u00e9"'


def test_ids_text():
    assert ids_text([1, 22, 333]) == "[1, 22, 333]"


def test_lone_surrogates_are_refused_with_their_position():
    with pytest.raises(ValueError, match=r"context: lone surrogate U\+D800 at position 2"):
        refuse_surrogates("ab\ud800", "context")


# Schema and text


def test_descriptions_lose_exactly_the_white_space_of_str_strip():
    stripped = {c for c in map(chr, range(sys.maxunicode + 1)) if one_line(f"{c}x") == "x" and c != "\n"}
    listed = "\t\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
        map(chr, range(0x2000, 0x200B))
    )
    assert stripped == set(listed)


@pytest.mark.parametrize(
    ("description", "line"),
    [("a\nb", "a"), ("\na", ""), (" a \r\nb", "a"), ("a\rb", "a\rb"), ("a\u2028b", "a\u2028b"), ("\x1c\x85a\x1f", "a")],
)
def test_the_line_of_a_description(description: str, line: str):
    assert one_line(description) == line


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"": {"type": "boolean"}},
        {"a.b": {"type": "boolean"}},
        {"a/b": {"type": "boolean"}},
        {"a#b": {"type": "boolean"}},
        {"a": {"type": "number"}},
        {"a": {"type": "boolean", "choices": ["false", "true"]}},
        {"a": {"choices": []}},
        {"a": {"choices": [str(i) for i in range(256)]}},
        {"a": {"choices": ["x", "x"]}},
        {"a": {"type": "multi", "choices": ["x"]}},
        {"a": {"type": "multi", "choices": [str(i) for i in range(65)]}},
        {"a": {"choices": ["x"], "choice_descriptions": {"y": ""}}},
        {"a": {"choices": ["x"], "other": 1}},
        {"a": {"type": "boolean", "ordered": True}},
        {"a": {"choices": ["x"], "depends_on": "a"}},
        {"a": {"choices": ["x"], "depends_on": "b"}, "b": {"choices": ["x"], "depends_on": "a"}},
        {"a": {"choices": ["x"], "depends_on": "b"}, "b": {"type": "multi", "choices": ["x", "y"]}},
        {"a": {"choices": ["\ud800"]}},
    ],
)
def test_broken_schemas(schema):
    with pytest.raises(ValueError):  # noqa: PT011 - the message is not part of the reference
        fields_of(schema)


def test_nonces():
    assert prompt.context_nonce("The applicant pays late sometimes.") == "C389525abe2404839"
    # RFC 4231, test case 1
    assert prompt.context_nonce("Hi There", b"\x0b" * 20) == "Cb0344c61d8db3853"


def test_user_content():
    fields = fields_of({"f": {"choices": ["x", "y"], "choice_descriptions": {"x": "", "y": "z"}}})
    block = prompt.schema_block(fields, compile_plan(fields, fake_encode, "labels"))
    assert block == '  "f": "x"  "y" — "z"  // ""'
    nonce = "Ce3b0c44298fc1c14"  # sha256 of nothing
    expected = f"Classify the following fields.\n\n{block}\n\n<<<CONTEXT:{nonce}\n\nCONTEXT:{nonce}>>>"
    assert prompt.user_content(block, "") == expected


@pytest.mark.parametrize(
    "roles", ["", "s", "a", "su", "sua", "ua", "uu", "us", "usu", "ssu", "auu", "uau", "suau", "uaau", "ut"]
)
def test_message_order(roles: str):
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    messages = [{"role": names[role], "content": role} for role in roles]
    if roles in {"su", "uau", "suau"}:
        prompt.check_messages(messages)
    else:
        with pytest.raises(ValueError, match="in turn"):
            prompt.check_messages(messages)


@pytest.mark.parametrize(
    "message", [{"role": "user", "content": []}, {"role": "user"}, {"role": "user", "content": "", "tool_calls": []}]
)
def test_messages_are_text_only(message):
    with pytest.raises(ValueError, match=r"messages\[0\]"):
        prompt.check_messages([message])


# Plan


def plan_of(schema, scoring: str = "labels"):
    return compile_plan(fields_of(schema), fake_encode, scoring)


def test_a_lone_field_gives_all_it_shares_to_the_lead_in():
    plan = plan_of({"f": {"choices": ["x", "y"]}})
    assert plan["lead_in_ids"] == FakeTokenizer().encode('{"f": "')
    assert plan["fields"]["f"] == {"shared_ids": [], "remainders": fake_encode(['x"}', 'y"}'])}


def test_one_choice_has_an_empty_remainder():
    plan = plan_of({"f": {"choices": ["x"]}}, "slots")
    assert plan["lead_in_ids"] == FakeTokenizer().encode('{"f": "A"}')
    assert plan["fields"]["f"]["remainders"] == [[]]
    assert plan["fields"]["f"]["single_branch"] is True


def test_multi_rows_share_the_lead_in_with_scalar_rows():
    plan = plan_of({"f": {"type": "multi", "choices": ["x", "y"]}, "g": {"type": "boolean"}})
    assert plan["lead_in_ids"] == FakeTokenizer().encode('{"')
    multi = plan["fields"]["f"]
    assert multi["suffix_ids_list"] == fake_encode(['f/00": "', 'f/01": "'])
    assert multi["remainders"] == [fake_encode(['Y"}', 'N"}'])] * 2
    assert multi["count"]["shared_ids"] == FakeTokenizer().encode('f#count": "')
    assert plan["fields"]["g"] == {
        "shared_ids": FakeTokenizer().encode('g": '),
        "remainders": fake_encode(["true}", "false}"]),
    }


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda texts: [[1] for _ in texts], "equal or one is a token prefix"),
        (lambda texts: [[1] * (i + 1) for i, _ in enumerate(texts)], "equal or one is a token prefix"),
        (lambda texts: [[i] for i, _ in enumerate(texts)], "no common first token"),
    ],
)
def test_plans_that_cannot_be(encode, message: str):
    with pytest.raises(ValueError, match=message):
        compile_plan(fields_of({"f": {"choices": ["x", "y"]}}), encode, "labels")


def test_no_codebook():
    with pytest.raises(ValueError, match="no codebook of 2"):
        compile_plan(fields_of({"f": {"choices": ["x", "y"]}}), lambda texts: [[1] for _ in texts], "slots")


# Codebook


def test_the_cost_of_a_set():
    candidates = [("AA", (9, 1, 1)), ("AB", (9, 1, 2, 3)), ("AC", (9, 2))]
    # Branch nodes at the end of the shared (9,) and of (9, 1); lengths 3, 4, 2.
    assert codebook.cost(candidates) == (2, 1, 4, 3 * 29 - 81, 2)
    assert codebook.cost(candidates[:1]) == (0, 0, 3, 0, 2)


def test_the_pools():
    assert [len(pool) for pool in codebook.pools()] == [26, 10, 36, 1296]
    assert codebook.pools()[3][:2] + codebook.pools()[3][36:38] == ["AA", "AB", "BA", "BB"]


def test_the_first_pool_with_one_branch_node_wins_over_a_shorter_later_one():
    first = [("A", (1, 2, 3)), ("B", (1, 3, 3))]
    later = [("0", (1, 2)), ("1", (1, 3))]
    assert codebook.choose([first, later], 2, codebook.exact) == first
    assert codebook.choose([first, later], 1, codebook.exact) == later[:1]


token_pools = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=9).map(
    lambda rows: [(f"{i:02d}", tuple(ids)) for i, ids in enumerate(rows)]
)


@given(token_pools, st.integers(1, 9))
@settings(max_examples=400, deadline=None)
def test_three_searches_agree_on_small_pools(pool, n: int):
    expected = codebook.brute_force(pool, n)
    assert codebook.exact(pool, n) == expected
    assert codebook.bounded(pool, n) == expected


@pytest.mark.parametrize("tokenizer", ["qwen2.5", "gemma"])
@pytest.mark.parametrize("n", [2, 36, 37, 255])
def test_real_vocabularies_reach_one_branch_node(tokenizer: str, n: int):
    encode = encoder_of(load_tokenizer(tokenizer)).encode
    pools = [
        [(code, tuple(ids)) for code, ids in zip(pool, encode([json.dumps({"f": code}) for code in pool]), strict=True)]
        for pool in codebook.pools()
    ]
    chosen = codebook.choose(pools, n, codebook.exact)
    assert chosen is not None
    assert codebook.cost(chosen)[:2] == (1, 0)
    assert len({code for code, _ in chosen}) == n


# Control tokens


@pytest.mark.parametrize(
    ("text", "special", "control"),
    [
        ("<|im_end|>", True, True),
        ("<think>", False, True),
        ("<unused7>", False, True),
        ("[@BOS@]", False, True),
        ("\n\n", False, False),
        ("▁▁", False, False),
        ("</table>", False, False),
        ("<b>", False, False),
        ("<b>", True, True),
        ("<s>", False, False),
    ],
)
def test_the_control_rule(text: str, special: bool, control: bool):
    assert is_control(text, special) is control


@pytest.mark.parametrize("name", REAL)
def test_no_form_of_a_control_token_leaks(name: str):
    """Whole, doubled, nested, between spaces, cut in two by itself, and at the ends of words."""
    encoder = encoder_of(load_tokenizer(name))
    assert isinstance(encoder, DataEncoder)
    forms = ["{t}", "{t}{t}", " {t} ", "a{t}b", "\n{t}\n", '{{"{t}": "{t}"}}', "{h}{t}{r}"]
    texts = [form.format(t=token, h=token[:3], r=token[3:]) for token in encoder.control for form in forms]
    control = set(encoder.control.values())
    leaks = [text for text, ids in zip(texts, encoder.encode(texts), strict=True) if control & set(ids)]
    assert leaks == []


@pytest.mark.parametrize(
    ("name", "takes_system"), [("qwen2.5", True), ("qwen3", True), ("gemma", False), ("fake", True)]
)
def test_profiles(name: str, takes_system: bool):
    profile = resolve_profile(revisions()[name]["model_id"], load_tokenizer(name))
    assert profile.supports_system is takes_system
    assert profile.template_kwargs == ({"enable_thinking": False} if profile.name == "qwen3" else {})
    assert resolve_profile("org/other", load_tokenizer(name)).supports_system is takes_system
