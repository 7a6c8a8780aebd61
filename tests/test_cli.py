"""The command line as a user runs it: real processes, the embedded model, files on disk."""

import json
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
    found = json.loads(done.stdout)
    assert TEXT in found["prompt"]["text"]
    assert found["hashes"]["prompt_sha256"] == jevmlx.token_ids_sha256(found["prompt"]["ids"])
    assert found["rows"][0]["branch_nodes"] == 1
    assert "plan_hash" in run("explain", schema, TEXT).stdout.decode()


@pytest.mark.parametrize(
    ("content", "arguments", "code"),
    [
        (b"{", (TEXT,), "schema.json"),
        (b"\xff\xfe", (TEXT,), "input.encoding"),
        (b'{"a": {"choices": ["x", "x"]}}', (TEXT,), "schema.choices.duplicate at a.choices[1]"),
        (json.dumps(SCHEMA).encode(), ("--file", "/nonexistent.txt"), "input.file"),
        (json.dumps(SCHEMA).encode(), (TEXT, "--model", "no/such/model/at/all"), "model.not_found"),
        (json.dumps(SCHEMA).encode(), (TEXT, "--scoring", "both"), "config.scoring"),
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


def test_batch_records_bad_lines_and_resumes(schema, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = [json.dumps({"context": f"{TEXT} {number}"}).encode() for number in range(4)]
    lines[1:1] = [b"not json", b'{"context": "\xff"}', b'{"messages": [{"role": "user", "content": "hi"}]}']
    source.write_bytes(b"\n".join(lines) + b"\n")
    done = run("batch", schema, source, target)
    assert done.returncode == 0, done.stderr
    whole = target.read_bytes()
    records = [json.loads(line) for line in whole.splitlines()]
    codes = [record.get("error", {}).get("code") for record in records]
    assert codes == [None, "prompt.context", "prompt.encoding", None, None, None, None]
    assert [record["line"] for record in records] == list(range(7))
    # Cut in the middle of the fifth line, as by a crash.
    kept = b"".join(line + b"\n" for line in whole.splitlines()[:4])
    target.write_bytes(kept + whole.splitlines()[4][:30])
    assert run("batch", schema, source, target).returncode == 2, "an existing file is not overwritten"
    done = run("batch", schema, source, target, "--resume")
    assert b"3 decided" in done.stdout, done.stderr
    again = [json.loads(line) for line in target.read_bytes().splitlines()]
    for one, other in zip(records, again, strict=True):
        one.pop("timings", None), other.pop("timings", None)
        assert one == other
    source.write_bytes(b"\n".join(lines[1:]) + b"\n")
    done = run("batch", schema, source, target, "--resume")
    assert done.returncode == 1
    assert b"input.resume" in done.stderr
