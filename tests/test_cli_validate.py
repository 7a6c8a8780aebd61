"""What validate says about schemas, and that it needs no model for it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from jevmlx import presets
from jevmlx.cli.app import app
from jevmlx.cli.explain import branch_nodes
from jevmlx.cli.lint import normalized


def validate(tmp_path, schema, *arguments):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema))
    done = CliRunner().invoke(app, ["validate", str(path), "--json", *arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def kinds(found):
    return [(finding["kind"], finding["path"]) for finding in found["findings"]]


def enum(*choices, **more):
    return {"a": {"description": "x", "choices": choices, **more}}


@pytest.mark.parametrize("name", presets.NAMES)
@pytest.mark.parametrize("tokenizer", [(), ("--tokenizer", "embedded")])
def test_presets_have_nothing_to_find(name, tokenizer):
    done = CliRunner().invoke(app, ["validate", name, "--strict", *tokenizer])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "ok"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (enum("Refund", "refund "), [("near-duplicate", "a.choices[1]")]),
        (enum("Ｒefund", "Refund"), [("near-duplicate", "a.choices[1]")]),
        (enum("follow up", "follow-up"), [("near-duplicate", "a.choices[1]")]),
        (enum("refund", "other team", "refund request"), [("near-duplicate", "a.choices[2]")]),
        (enum("cancelled", "canceled"), [("near-duplicate", "a.choices[1]")]),
        (enum("level 1", "level 2", "level 12"), []),
        (enum("+", "-"), []),
        (enum("low", "slow"), []),
        (enum("yes", "no"), [("label-prior", "a.choices")]),
        (enum("yes", "no", "later"), [("label-prior", "a.choices[0]"), ("label-prior", "a.choices[1]")]),
        (enum("billing", "other"), [("label-prior", "a.choices[1]")]),
        (enum("billing", "other", choice_descriptions={"other": "anything about jobs"}), []),
        (enum("billing", "sales", allow_none_of_above=True), []),
        (enum("none", "some", "all", ordered=True), []),
        (enum("refund", "unknown", type="multi"), [("label-prior", "a.choices[1]")]),
        (enum(*(f"{index} things" for index in range(31))), [("many-choices", "a.choices")]),
        (enum("a", "b" * 61), [("long-choice", "a.choices[1]")]),
        ({"a": {"type": "boolean"}}, [("no-description", "a")]),
        ({"a": {"type": "boolean", "description": "x" * 9_000}}, [("long-prompt", "")]),
    ],
)
def test_findings(tmp_path, schema, expected):
    assert kinds(validate(tmp_path, schema)) == expected


def test_tokens_are_those_of_the_prompt(engine, tmp_path):
    schema = enum("billing", "sales", "an exceptionally circumlocutory appellation")
    found = validate(tmp_path, schema, "--tokenizer", "embedded")
    ids = engine.tokenizer.encode("billing", add_special_tokens=False)
    assert found["fields"]["a"]["tokens"]["billing"] == len(ids)
    assert kinds(found) == [("unequal-tokens", "a.choices[2]")]
    plan = engine.compile(schema).plan
    turns = plan.context_turns("", True)
    assert found["prompt"]["tokens"] == sum(
        len(engine.tokenizer.encode(text, add_special_tokens=False)) for _, text in turns
    )
    assert found["fields"]["a"]["branch_nodes"] == branch_nodes(plan.to_dict()["fields"]["a"]["remainders"]) == 1
    assert kinds(validate(tmp_path, schema, "--tokenizer", "embedded", "--scoring", "slots")) == []


def test_choices_that_begin_with_the_same_tokens(tmp_path):
    schema = enum("department of public works", "department of public health", "sales")
    found = validate(tmp_path, schema, "-m", "embedded")
    assert ("shared-beginning", "a.choices") in kinds(found)
    assert found["fields"]["a"]["shared"] == 3
    assert found["fields"]["a"]["branch_nodes"] == 2


def test_a_crowded_window(tmp_path):
    found = validate(tmp_path, {"a": {"type": "boolean", "description": "word " * 3_000}}, "-m", "embedded")
    assert kinds(found) == [("long-prompt", "")]


def test_warnings_fail_only_when_strict(tmp_path):
    path = tmp_path / "schema.json"
    for schema, code in ((enum("yes", "no"), 1), ({"a": {"type": "boolean"}}, 0)):
        path.write_text(json.dumps(schema))
        assert CliRunner().invoke(app, ["validate", str(path)]).exit_code == 0
        assert CliRunner().invoke(app, ["validate", str(path), "--strict"]).exit_code == code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--scoring", "both"), "config.scoring"),
        (("-m", "no/such"), "model.not_found"),
        (("-m", "."), "model.tokenizer"),
        (("-m", __file__), "model.tokenizer"),
        (("-m", "embedded", "--revision", "x"), "config.revision"),
    ],
)
def test_input_at_fault(tmp_path, monkeypatch, arguments, code):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["validate", "credit-risk", *arguments])
    assert done.exit_code == 1
    assert f"[{code}" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("--tokenizer", "embedded")])
def test_nothing_heavy_is_imported(arguments):
    code = (
        "import sys\nfrom jevmlx.cli.app import app\n"
        f"app(['validate', 'credit-risk', *{arguments!r}], standalone_mode=False)\n"
        "sys.exit(', '.join({'mlx', 'transformers', 'torch', 'numpy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_normalized():
    assert normalized("Straße\n  A") == normalized("STRASSE a")
