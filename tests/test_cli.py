"""The command line as a user runs it: real processes, the embedded model, files on disk."""

import json
import os
import subprocess
import sys

import pytest

import jevmlx

SCHEMA = {"urgent": {"type": "boolean", "description": "Needs a reply today"}}
TEXT = "My card was charged twice and nobody answers."


def run(*arguments, stdin=None):
    command = [sys.executable, "-m", "jevmlx", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=300)


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return path


def test_decide_prints_a_table(schema):
    done = run("decide", schema, TEXT)
    out = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "urgent" in out
    assert "%" in out
    assert "\x1b[" not in out, "no colours where the output is no terminal"


def test_decide_from_standard_input_gives_the_librarys_bits(schema):
    done = run("decide", schema, "--json", "--scoring", "slots", stdin=TEXT.encode())
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    expected = jevmlx.load("embedded").decide(SCHEMA, TEXT, scoring="slots").to_dict()
    for data in (printed, expected):
        del data["timings"]
    assert printed == json.loads(json.dumps(expected))


def test_explain_shows_prompt_plan_and_hashes(schema):
    done = run("explain", schema, TEXT, "--json")
    (found,) = json.loads(done.stdout)["prompts"]
    assert TEXT in found["text"]
    assert found["hashes"]["prompt_sha256"] == jevmlx.token_ids_sha256(found["ids"])
    assert found["rows"][0]["branch_nodes"] == 1
    assert "plan_hash" in run("explain", schema, TEXT).stdout.decode()
    alone = json.loads(run("explain", schema, TEXT, "--json", "--isolate", "--prior-correction").stdout)["prompts"]
    assert [prompt["role"] for prompt in alone] == ["question", "prior"] * len(SCHEMA)
    assert [prompt["fields"] for prompt in alone[::2]] == [[name] for name in SCHEMA]
    decided = jevmlx.load("embedded").decide(SCHEMA, TEXT, isolate=True, prior_correction=True).provenance.prompts
    assert [prompt["hashes"]["prompt_sha256"] for prompt in alone] == [record.prompt_sha256 for record in decided]


@pytest.mark.parametrize(
    ("content", "arguments", "code"),
    [
        (b"{", (TEXT,), "schema.json"),
        (b"\xff\xfe", (TEXT,), "schema.input.file"),
        (b'{"a": {"choices": ["x", "x"]}}', (TEXT,), "schema.choices.duplicate at a.choices[1]"),
        (json.dumps(SCHEMA).encode(), ("--file", "/nonexistent.txt"), "input.file"),
        (json.dumps(SCHEMA).encode(), (TEXT, "--model", "no/such/model/at/all"), "model.not_found"),
        (json.dumps(SCHEMA).encode(), (TEXT, "--scoring", "both"), "config.scoring at scoring"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_1(tmp_path, content, arguments, code):
    path = tmp_path / "schema.json"
    path.write_bytes(content)
    done = run("decide", path, *arguments)
    err = done.stderr.decode()
    assert done.returncode == 1
    assert f"[{code}" in err
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1].startswith("error: ")


def test_usage_errors_are_exit_code_2(schema):
    assert run("decide").returncode == 2
    assert run("decide", schema, TEXT, "--file", schema).returncode == 2
    assert run("nonsense").returncode == 2


def test_doctor_says_what_the_machine_runs_on():
    found = json.loads(run("doctor", "--json").stdout)
    assert found["jevmlx"] == jevmlx.__version__
    assert found["device"] in ("cpu", "gpu")
    assert found["can_run"] is True
    assert found["packages"]["mlx"]
    assert {check["name"] for check in found["checks"]} >= {"mlx", "memory", "embedded model"}


def test_version_and_help():
    assert run("--version").stdout.decode().strip() == f"jevmlx {jevmlx.__version__}"
    done = run("--help")
    assert done.returncode == 0
    assert "decide" in done.stdout.decode()


def test_a_traceback_only_when_asked_for(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text("{")
    done = run("-v", "decide", path, TEXT)
    assert done.returncode == 1
    assert "Traceback" in done.stderr.decode()


def test_a_reader_that_went_away_is_no_error():
    for arguments in (("presets", "support-triage"), ("--help",), ("validate", "credit-risk", "--json")):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "jevmlx", *arguments]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60)
        os.close(writer)
        assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [("presets", "credit-risk"), ("--help",), ("validate", "credit-risk")])
def test_a_full_disk_is_one_message(arguments):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "jevmlx", *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.decode() == "error: the output cannot be written: No space left on device [input.file]\n"


def test_starting_imports_nothing_heavy():
    code = (
        "import sys, jevmlx.cli.app; heavy = {'mlx', 'numpy', 'transformers', 'pydantic', 'rich', 'huggingface_hub'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
