"""Every way to ask gives the library's bits; schemas in every form; options reach the engine."""

import json

import pytest
from typer.testing import CliRunner

import jevmlx
from jevmlx import presets
from jevmlx.cli.app import app
from jevmlx.cli.shared import margins

TEXT = "My card was charged twice and nobody answers."
SCHEMA = {"urgent": {"type": "boolean"}, "team": {"choices": ["billing", "sales"], "description": "Who answers"}}


def invoke(*arguments, stdin=None):
    return CliRunner().invoke(app, list(map(str, arguments)), input=stdin)


def printed(*arguments, stdin=None):
    done = invoke(*arguments, "--json", stdin=stdin)
    assert done.exit_code == 0, done.output
    return without_timings(json.loads(done.stdout))


def without_timings(data):
    return {key: value for key, value in data.items() if key != "timings"}


def plain(decision):
    return without_timings(json.loads(decision.to_json()))


@pytest.fixture
def loaded(engine, monkeypatch):
    """The model of these tests, loaded once; test_cli.py has whole processes."""
    monkeypatch.setattr("jevmlx.engine.load", lambda *_args, **_kwargs: engine)


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return path


def test_decide(engine, loaded, schema):
    assert printed("decide", schema, TEXT) == plain(engine.decide(SCHEMA, TEXT))


def test_choose(engine, loaded):
    found = printed(
        *("choose", "billing|'other team'", TEXT, "-q", "Who answers?", "--allow-none"),
        *("--meaning", "billing=charges"),
    )
    choices = {"billing": "charges", "other team": ""}
    assert found == plain(engine.choose(TEXT, choices, "Who answers?", allow_none=True))
    several = printed("choose", "[refund|outage]", stdin=TEXT)
    assert several == plain(engine.choose(TEXT, ["refund", "outage"], several=True))


def test_judge_and_rate(engine, loaded):
    assert printed("judge", "The writer is angry", TEXT) == plain(engine.judge(TEXT, "The writer is angry"))
    assert printed("rate", "low<mid<high", TEXT) == plain(engine.rate(TEXT, ["low", "mid", "high"]))
    assert printed("rate", "3", TEXT, "-q", "How sure?") == plain(engine.rate(TEXT, 3, "How sure?"))


def test_ask(engine, loaded):
    fields = {"urgent": {"type": "boolean"}, "team": {"choices": ["billing", "sales"], "allow_none_of_above": True}}
    assert printed("ask", "urgent? team?: billing|sales", TEXT) == plain(engine.decide(fields, TEXT))


def test_options_reach_the_engine(engine, schema, tmp_path):
    constraints = [
        {"type": "excludes", "pairs": [{"field": "urgent", "value": True}, {"field": "team", "value": "sales"}]}
    ]
    policy = {"team": {"min_probability": 1.0, "otherwise": "review"}}
    for name, value in (("constraints", constraints), ("policy", policy)):
        (tmp_path / name).write_text(json.dumps(value))
    log = tmp_path / "audit.jsonl"
    found = printed(
        *("decide", schema, TEXT, "--scoring", "slots", "--temperature", "2", "--permutations", "2"),
        *("--prior-correction", "--abstain-below-margin", "urgent=50", "--no-legal-mass", "--audit-log", log),
        *("--constraints", tmp_path / "constraints", "--policy", tmp_path / "policy", "--audit-redact"),
    )
    expected = engine.decide(
        SCHEMA,
        TEXT,
        scoring="slots",
        temperature=2.0,
        permutations=2,
        prior_correction=True,
        abstain_below_margin={"urgent": 50.0},
        legal_mass=False,
        constraints=constraints,
        policy=policy,
    )
    assert found == plain(expected)
    assert found["fields"]["urgent"]["status"] == "abstain"
    assert found["fields"]["team"]["status"] == "review"
    assert TEXT not in log.read_text()
    assert '"kind":"decision"' in log.read_text().replace(": ", ":")


def test_isolate_and_overflow(engine, loaded):
    found = printed("ask", "a? b: c|d", TEXT, "--isolate", "--overflow", "keep_tail")
    fields = {"a": {"type": "boolean"}, "b": {"choices": ["c", "d"]}}
    assert found == plain(engine.decide(fields, TEXT, isolate=True, overflow="keep_tail"))


CLASSES = """
from typing import Literal
from pydantic import BaseModel

class Ticket(BaseModel):
    urgent: bool
    team: Literal["billing", "sales"]

class Outer:
    Inner = Ticket

number = 3
"""


def test_schemas_in_every_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cli_forms.py").write_text(CLASSES)
    # A file of a preset's name is a file when it is written as one.
    (tmp_path / "credit-risk").write_text(json.dumps({"type": "object", "properties": {"a": {"type": "boolean"}}}))

    def fields(name):
        done = invoke("validate", name, "--json")
        assert done.exit_code == 0, done.output
        return list(json.loads(done.stdout)["fields"])

    assert fields("cli_forms:Ticket") == fields("cli_forms:Outer.Inner") == ["urgent", "team"]
    assert fields("./credit-risk") == ["a"]
    assert fields("credit-risk")[0] == "risk"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("no_such_module:Ticket", "input.class at no_such_module:Ticket"),
        ("cli_bad:Ticket", "input.class"),
        ("cli_quits:Ticket", "input.class"),
        ("cli_forms:Ticket2", "input.class"),
        ("cli_forms:number", "schema.input.type"),
        ("no-such-preset", "schema.input.file"),
        ("a\0b", "schema.input.file"),
        ("x" * 5000, "schema.input.file"),
        (".", "schema.input.file"),
    ],
)
def test_schemas_that_are_none(tmp_path, monkeypatch, name, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cli_forms.py").write_text(CLASSES)
    (tmp_path / "cli_bad.py").write_text("1 / 0")
    (tmp_path / "cli_quits.py").write_text("raise SystemExit(0)")
    done = invoke("validate", name)
    assert done.exit_code == 1
    assert f"[{code}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_presets_and_their_examples():
    assert invoke("presets").stdout.split() == list(presets.NAMES)
    for name in presets.NAMES:
        assert json.loads(invoke("presets", name).stdout) == json.loads(presets.path(name).read_text())
        lines = invoke("presets", name, "--examples").stdout.splitlines()
        assert [json.loads(line)["context"] for line in lines] == presets.contexts(name)
        assert len(lines) >= 3
        assert jevmlx.schema_of(presets.path(name)).schema.fields
    assert invoke("presets", "nothing").exit_code == 1
    assert invoke("presets", "--examples").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("judge", " ", TEXT), "schema.input.question"),
        (("choose", "a|a", TEXT), "schema.choices.duplicate at answer.choices[1]"),
        (("choose", "a|b", TEXT, "--meaning", "c=d"), "config.meaning"),
        (("choose", "a|", TEXT), "input.ask at character 3"),
        (("choose", "a b", TEXT), "input.ask at character 3"),
        (("rate", "0", TEXT), "schema.input.choices"),
        (("rate", "999999", TEXT), "schema.input.choices"),
        (("ask", "a", TEXT), "input.ask at character 2"),
        (("ask", "a?", TEXT, "--policy", "/nonexistent"), "input.file"),
        (("ask", "a?", TEXT, "--constraints", __file__), "input.json"),
        (("ask", "a?", TEXT, "--abstain-below-margin", "x"), "config.abstain_below_margin"),
        (("ask", "a?", TEXT, "--abstain-below-margin", "b=1"), "config.policy"),
        (("ask", "a?", TEXT, "--permutations", "0"), "config.permutations"),
        (("ask", "a?", TEXT, "--temperature", "0"), "config.temperature"),
        (("ask", "a?", TEXT, "--calibration", "/nonexistent"), "calibration.file"),
        (("ask", "a?", TEXT, "--overflow", "cut"), "config.overflow"),
        (("ask", "a?", TEXT, "--dtype", "int8"), "config.dtype"),
        (("ask", "a?", TEXT, "--model", "/nonexistent"), "model.not_found"),
        (("ask", "a?", TEXT, "--audit-log", "/nonexistent/log"), "audit.file"),
    ],
)
def test_input_at_fault(arguments, code):
    done = invoke(*arguments)
    assert done.exit_code == 1
    assert f"[{code}" in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("choose", "a<b", TEXT),
        ("rate", "a|b", TEXT),
        ("ask", "a?", TEXT, "--json", "--jsonl"),
        ("ask", "a?", TEXT, "--out", "x.jsonl"),
        ("ask", "a?", TEXT, "--resume"),
        ("ask", "a?", TEXT, "--merge"),
        ("ask", "a?", TEXT, "--column", "x"),
        ("ask", "a?", TEXT, "--format", "xml"),
        ("ask", "a?", TEXT, "--file", "x.jsonl"),
        ("ask", "a?", "--file", "x.jsonl", "--json"),
        ("ask", "a?", "--file", "x.jsonl", "--resume"),
        ("ask", "a?", TEXT, "--temperature", "warm"),
        ("ask", "a?", TEXT, "--audit-redact"),
        ("ask",),
        ("decid",),
    ],
)
def test_usage(arguments):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_standard_input_that_is_not_utf8(schema):
    done = CliRunner().invoke(app, ["decide", str(schema)], input=b"\xff")
    assert done.exit_code == 1
    assert "[input.encoding" in done.stderr


def test_an_error_nobody_foresaw_is_one_line_too(monkeypatch):
    def fails(*_args, **_kwargs):
        raise KeyError("x")

    monkeypatch.setattr("jevmlx.cli.schemas.load", fails)
    done = invoke("validate", "credit-risk")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: unexpected KeyError")
    assert "Traceback" not in done.stderr


def test_margins():
    assert margins(None) is None
    for wrong in (["1", "2"], ["a=1", "a=2"], ["1", "a=2"], ["a=1", "2"], ["a="]):
        with pytest.raises(jevmlx.ConfigError) as caught:
            margins(wrong)
        assert caught.value.code == "config.abstain_below_margin"


def test_calibrating_and_using_it(engine, loaded, tmp_path):
    schema, data, out = tmp_path / "schema.json", tmp_path / "labels.jsonl", tmp_path / "calibration.json"
    schema.write_text(json.dumps({"urgent": {"type": "boolean"}}))
    words = ("parcel", "invoice", "refund", "login", "phone", "price")
    lines = [
        json.dumps({"context": f"{a}, {b}: {'now' if now else 'no hurry'}", "labels": {"urgent": now}})
        for a in words
        for b in words
        if a < b
        for now in (True, False)
    ]
    data.write_text("\n".join(lines))
    options = ("--isolate",)
    done = invoke("calibrate", schema, data, "--out", out, *options)
    assert done.exit_code == 0, done.output
    assert "boolean" in done.stdout
    found = printed("decide", schema, TEXT, "--calibration", out, *options)
    assert found["provenance"]["calibration_sha256"]
    expected = engine.decide(schema, TEXT, calibration=out, isolate=True)
    assert found == plain(expected)
    # Made for another way of asking.
    done = invoke("decide", schema, TEXT, "--calibration", out)
    assert done.exit_code == 1
    assert "[calibration.mismatch" in done.stderr
    done = invoke("calibrate", schema, data, "--out", tmp_path / "no" / "out")
    assert "[calibration.file" in done.stderr
