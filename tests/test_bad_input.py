"""Every rule broken on purpose, through Python: (input, exception, code, path)."""

import json

import pytest

import jevmlx
from jevmlx import _core, errors

BOOLEAN = {"a": {"type": "boolean"}}
CYCLIC: dict = {}
CYCLIC["a"] = CYCLIC

SCHEMAS = [
    (None, "schema.type", ""),
    (1, "schema.type", ""),
    ([], "schema.type", ""),
    ({}, "schema.empty", ""),
    ("", "schema.json", ""),
    ("{}", "schema.empty", ""),
    ('{"a": NaN}', "schema.json", "a"),
    ('{"a": {}, "a": {}}', "schema.json.duplicate_key", "a"),
    ('{"a": {"choices": ["\\udc80"]}}', "schema.surrogate", "a.choices[0]"),
    ({"a": {"choices": ["x", "\ud800"]}}, "schema.surrogate", "a.choices[1]"),
    ({"\udfff": {"type": "boolean"}}, "schema.surrogate", ""),
    ("\ud800", "schema.surrogate", ""),
    ({1: {"type": "boolean"}}, "schema.type", ""),
    ({"a": {1: 2}}, "schema.type", "a"),
    ({"a": None}, "schema.type", "a"),
    ({"a": {"choices": {"x", "y"}}}, "schema.type", "a.choices"),
    ({"a": {"choices": [b"x"]}}, "schema.type", "a.choices[0]"),
    ({"a": {"choices": ["x", float("nan")]}}, "schema.type", "a.choices[1]"),
    ({"a": {"choices": ["x", 10**30]}}, "schema.type", "a.choices[1]"),
    ({"a": {"choices": [True]}}, "schema.type", "a.choices[0]"),
    ({"a": {"choices": ["x", "x"]}}, "schema.choices.duplicate", "a.choices[1]"),
    ({"a": {"choices": [str(i) for i in range(256)]}}, "schema.choices.count", "a.choices"),
    ({"a": {"choices": ["x"], "extra": 1}}, "schema.unknown_key", "a.extra"),
    ({"x" * 1_000_000: {"type": "boolean"}}, "schema.field_name", "x" * 1_000_000),
    ({"": {"type": "boolean"}}, "schema.field_name", ""),
    ({"a": {"type": "boolean", "description": "x" * (17 << 20)}}, "schema.size", ""),
]


@pytest.mark.parametrize(("source", "code", "path"), SCHEMAS)
def test_schema(source, code, path):
    with pytest.raises(jevmlx.SchemaError) as caught:
        jevmlx.Schema(source)
    assert (caught.value.code, caught.value.path) == (code, path)
    assert 10 < len(caught.value.message) < 400


def test_a_structure_that_holds_itself_is_refused():
    with pytest.raises(jevmlx.SchemaError) as caught:
        jevmlx.Schema(CYCLIC)
    assert caught.value.code == "schema.json.depth"


class Tokenizer:
    def __init__(self, encode):
        self.encode = encode


def characters(text):
    return [ord(c) for c in text]


def raising(text):
    raise RuntimeError("vocabulary file is gone")


TOKENIZERS = [
    (object(), "tokenizer.type"),
    (None, "tokenizer.type"),
    (Tokenizer(raising), "tokenizer.failed"),
    (Tokenizer(lambda text: []), "tokenizer.empty"),
    (Tokenizer(lambda text: None), "tokenizer.output"),
    (Tokenizer(lambda text: "abc"), "tokenizer.output"),
    (Tokenizer(lambda text: [1.5]), "tokenizer.output"),
    (Tokenizer(lambda text: [-1]), "tokenizer.output"),
    (Tokenizer(lambda text: [2**31]), "tokenizer.output"),
    (Tokenizer(lambda text: [2**40]), "tokenizer.output"),
    (Tokenizer(lambda text: [7]), "compile.token_identical"),
    (Tokenizer(lambda text: [7] * len(text)), "compile.token_prefix"),
    (Tokenizer(lambda text: [len(text)]), "compile.no_common_token"),
]


@pytest.mark.parametrize(("tokenizer", "code"), TOKENIZERS)
def test_tokenizer(tokenizer, code):
    with pytest.raises(jevmlx.JevmlxError) as caught:
        jevmlx.compile_plan({"f": {"choices": ["A", "AB"]}}, tokenizer)
    assert caught.value.code == code
    if code == "tokenizer.failed":
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert "vocabulary file is gone" in caught.value.message


def test_an_interrupt_in_the_tokenizer_stays_an_interrupt():
    def interrupted(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jevmlx.compile_plan(BOOLEAN, Tokenizer(interrupted))


def test_scoring_mode():
    with pytest.raises(jevmlx.ConfigError) as caught:
        jevmlx.compile_plan(BOOLEAN, Tokenizer(characters), "logits")
    assert (caught.value.code, caught.value.path) == ("config.scoring", "scoring")


class Templated(Tokenizer):
    def __init__(self, apply):
        super().__init__(characters)
        self.apply = apply

    def apply_chat_template(self, messages, **kwargs):
        return self.apply(messages, **kwargs)


def echo(messages, **kwargs):
    return "\n".join(m["content"] for m in messages)


def raise_plainly(messages, **kwargs):
    raise ZeroDivisionError("0")


@pytest.mark.parametrize(
    ("apply", "code"),
    [
        (raise_plainly, "prompt.template"),
        (lambda m, **k: None, "prompt.template"),
        (lambda m, **k: b"x", "prompt.template"),
    ],
)
def test_template(apply, code):
    with pytest.raises(jevmlx.PromptError) as caught:
        jevmlx.resolve_profile("some/model", Templated(apply))
    assert caught.value.code == code


def test_no_template():
    with pytest.raises(jevmlx.PromptError) as caught:
        jevmlx.resolve_profile("some/model", Tokenizer(characters))
    assert caught.value.code == "prompt.no_template"


USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": "hello"}
SYSTEM = {"role": "system", "content": "be brief"}

MESSAGES = [
    ([], "prompt.messages.empty", "messages"),
    ([SYSTEM], "prompt.messages.empty", "messages"),
    ("hi", "prompt.messages.type", "messages"),
    ([1], "prompt.messages.type", "messages[0]"),
    ([ASSISTANT], "prompt.messages.role", "messages[0].role"),
    ([USER, USER], "prompt.messages.role", "messages[1].role"),
    ([USER, ASSISTANT], "prompt.messages.role", "messages[1].role"),
    ([SYSTEM, SYSTEM, USER], "prompt.messages.role", "messages[1].role"),
    ([USER, ASSISTANT, SYSTEM, USER], "prompt.messages.role", "messages[2].role"),
    ([{"role": "tool", "content": "x"}], "prompt.messages.role", "messages[0].role"),
    ([{"role": "user"}], "prompt.messages.content", "messages[0].content"),
    ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], "prompt.messages.content", "messages[0].content"),
    ([{"role": "user", "content": "x", "tool_calls": []}], "prompt.messages.key", "messages[0].tool_calls"),
    ([{"role": 1, "content": "x"}], "prompt.messages.role", "messages[0].role"),
    ([{"role": "user", "content": "\ud800"}], "prompt.surrogate", "messages[0].content"),
]


@pytest.fixture(scope="module")
def rendered():
    tokenizer = Templated(echo)
    plan = jevmlx.compile_plan(BOOLEAN, tokenizer)
    profile = jevmlx.resolve_profile("some/model", tokenizer)
    return lambda *args, **kwargs: jevmlx.render_prompt(plan, *args, tokenizer=tokenizer, profile=profile, **kwargs)


@pytest.mark.parametrize(("messages", "code", "path"), MESSAGES)
def test_messages(rendered, messages, code, path):
    with pytest.raises(jevmlx.PromptError) as caught:
        rendered(messages=messages)
    assert (caught.value.code, caught.value.path) == (code, path)


@pytest.mark.parametrize(
    ("kwargs", "code"),
    [
        ({}, "config.context"),
        ({"context": "x", "messages": [USER]}, "config.context"),
        ({"messages": [USER], "nonce_key": b"k"}, "config.nonce_key"),
        ({"context": "x", "nonce_key": b""}, "prompt.nonce_key"),
        ({"context": 1}, "prompt.context"),
        ({"context": "a\udc00"}, "prompt.surrogate"),
    ],
)
def test_context(rendered, kwargs, code):
    with pytest.raises(jevmlx.JevmlxError) as caught:
        rendered(**kwargs)
    assert caught.value.code == code


def test_nul_bytes_are_text(rendered):
    assert "a\x00b" in rendered("a\x00b").text
    plan = jevmlx.compile_plan({"n\x00": {"choices": ["\x00", "\x01"]}}, Tokenizer(characters))
    assert plan.schema_block == '  "n\\u0000": "\\u0000"  "\\u0001"  // ""'


def test_every_code_has_its_exception_class():
    for code, name in _core.ERROR_CODES:
        assert issubclass(getattr(errors, name), errors.JevmlxError), code


def test_errors_survive_pickling_and_read_well():
    import pickle

    with pytest.raises(jevmlx.SchemaError) as caught:
        jevmlx.Schema(json.dumps({"team": {"choices": ["a", "a"]}}))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, again.path, again.message) == (caught.value.code, caught.value.path, caught.value.message)
    assert (
        str(again)
        == '"a" already stands at index 0; choices must be distinct [schema.choices.duplicate at team.choices[1]]'
    )
