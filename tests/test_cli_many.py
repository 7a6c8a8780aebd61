"""Many contexts from a file: rows that cannot be read, formats that give the same, and runs that are interrupted."""

import csv
import json
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from jevmlx.cli.app import app

ASKED = "urgent? team: billing|sales"
TEXT = "My card was charged twice"
TEXTS = [f'{TEXT}, "{number}", é\nand nobody answers' for number in range(2)]


def invoke(*arguments, stdin=None):
    return CliRunner().invoke(app, list(map(str, arguments)), input=stdin)


@pytest.fixture
def loaded(engine, monkeypatch):
    """The model of these tests, loaded once; real processes are below."""
    monkeypatch.setattr("jevmlx.engine.load", lambda *_args, **_kwargs: engine)


def write_jsonl(path, records):
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    return path


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def records(text):
    return [json.loads(line) for line in text.splitlines()]


def codes(text):
    return [record.get("error", {}).get("code") for record in records(text)]


def test_all_formats_give_the_librarys_bits(engine, loaded, tmp_path):
    write_jsonl(tmp_path / "a.jsonl", [{"context": text, "id": 1} for text in TEXTS])
    write_csv(tmp_path / "a.csv", [["id", "body"], *([1, text] for text in TEXTS)])
    for name, kind in (("a", pa.string()), ("b", pa.large_string()), ("c", pa.dictionary(pa.int8(), pa.string()))):
        column = pa.array(TEXTS, pa.string()).cast(kind)
        parquet.write_table(pa.table({"id": [1, 2], "body": column}), tmp_path / f"{name}.parquet")
    schema = {"urgent": {"type": "boolean"}, "team": {"choices": ["billing", "sales"]}}
    expected = [engine.decide(schema, text).to_dict()["fields"] for text in TEXTS]
    for name, options in {
        "a.jsonl": (),
        "a.csv": ("--column", "body"),
        **dict.fromkeys(("a.parquet", "b.parquet", "c.parquet"), ("--column", "body")),
    }.items():
        done = invoke("ask", ASKED, "--file", tmp_path / name, "--jsonl", *options)
        assert done.exit_code == 0, done.output
        found = records(done.stdout)
        assert [record["fields"] for record in found] == expected
        assert [record["line"] for record in found] == [0, 1]
        assert "timings" not in found[0]
    piped = invoke("ask", ASKED, "--format", "jsonl", "--jsonl", stdin=(tmp_path / "a.jsonl").read_bytes())
    assert [record["fields"] for record in records(piped.stdout)] == expected
    assert "2 decided, 0 of them error records" in piped.stderr


def test_rows_that_cannot_be_read_are_records(loaded, tmp_path):
    lines = [
        b'{"context": "%s"}' % TEXT.encode(),
        b"not json",
        b'{"context": "\xff"}',
        b"",
        b'{"messages": [{"role": "user", "content": "hi"}]}',
        b'{"text": "x"}',
        b"[1]",
        b'{"context": 3}',
        b'{"context": "\\ud800"}',
        b"[" * 100_000,
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    done = invoke("ask", ASKED, "--file", tmp_path / "a.jsonl", "--jsonl")
    expected = {0: None, 1: "input.json", 2: "input.encoding", 4: None, 5: "input.column", 6: "input.json"}
    expected |= {7: "prompt.context", 8: "prompt.surrogate", 9: "input.json"}
    found = records(done.stdout)
    assert {record["line"]: code for record, code in zip(found, codes(done.stdout), strict=True)} == expected
    assert all(record["error"]["index"] == record["line"] for record in found if "error" in record)
    assert "9 decided, 7 of them error records" in done.stderr
    assert done.exit_code == 0


def test_csv_cells_are_never_cut_short(loaded, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfcontext\r\nHello, world\r\n\r\n"Hello, world"\r\n\xff\r\n')
    done = invoke("ask", ASKED, "--file", path, "--jsonl")
    assert codes(done.stdout) == ["input.row", None, "input.encoding"]


def test_a_quotation_never_closed_ends_a_csv_file(loaded, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('context\nfine\n"never closed\nmore\n')
    done = invoke("ask", ASKED, "--file", path, "--jsonl")
    assert done.exit_code == 1
    assert "[input.row" in done.stderr


def test_nulls_and_bytes_in_parquet(loaded, tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"context": pa.array([b"fine", None, b"\xff"], pa.binary())}), path)
    done = invoke("ask", ASKED, "--file", path, "--jsonl")
    assert codes(done.stdout) == [None, "input.row", "input.encoding"]


def test_tables_of_many(loaded, tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", [{"context": TEXT}, {"context": 3}])
    done = invoke("ask", ASKED, "--file", source)
    assert "— 0 —" in done.stdout
    assert "%" in done.stdout
    assert "[prompt.context at context]" in done.stdout
    assert "\x1b[" not in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.jsonl", None, "input.file"),
        ("a.csv", b"", "input.column"),
        ("a.csv", b"text\nx\n", "input.column"),
        ("a.csv", b"context,context\nx,y\n", "input.column"),
        ("a.parquet", b"PAR1", "input.file"),
        ("a\0.jsonl", None, "input.file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, code):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    out = tmp_path / "out.jsonl"
    done = invoke("ask", ASKED, "--file", tmp_path / name, "--out", out)
    assert done.exit_code == 1
    assert f"[{code}" in done.stderr
    assert not out.exists()


def test_parquet_columns_that_are_none(tmp_path):
    parquet.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    for column in ("context", "id"):
        done = invoke("ask", ASKED, "--file", tmp_path / "a.parquet", "--column", column)
        assert done.exit_code == 1
        assert "[input.column" in done.stderr


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = invoke("ask", ASKED, "--file", tmp_path / "a.parquet")
    assert done.exit_code == 1
    assert "jevmlx[parquet]" in done.stderr
    assert "[config.extra" in done.stderr


def test_nothing_is_left_where_the_model_cannot_be_loaded(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", [{"context": TEXT}])
    out = tmp_path / "out.jsonl"
    done = invoke("ask", ASKED, "--file", source, "--out", out, "--model", tmp_path)
    assert done.exit_code == 1
    assert not out.exists()
    done = invoke("ask", ASKED, "--file", source, "--out", tmp_path / "no" / "out.jsonl")
    assert done.exit_code == 1
    assert "[input.file" in done.stderr


def test_resuming(loaded, tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", [{"context": TEXT}, {"context": 3}, {"context": "b"}, {"text": "c"}])
    out = tmp_path / "out.jsonl"
    command = ("ask", ASKED, "--file", source, "--out", out)
    assert invoke(*command).exit_code == 0
    whole = out.read_bytes()
    assert invoke(*command).exit_code == 2, "an existing file is not overwritten"
    assert out.read_bytes() == whole
    # Cut at every kind of place: between lines, within one, at nothing, and not at all.
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 10]
    for cut in (0, 20, ends[0], ends[1] - 1, ends[1], ends[2] + 5, len(whole)):
        out.write_bytes(whole[:cut])
        done = invoke(*command, "--resume")
        assert done.exit_code == 0, done.output
        assert out.read_bytes() == whole
    out.write_bytes(whole[: ends[0]])
    for other in (("--scoring", "slots"), ("--temperature", "2")):
        done = invoke(*command, "--resume", *other)
        assert done.exit_code == 1
        assert "[input.resume" in done.stderr
        assert out.read_bytes() == whole[: ends[0]]
    # Other words in the same places are another question.
    reworded = ASKED.replace("team:", 'team "Who answers?":')
    done = invoke("ask", reworded, *command[2:], "--resume")
    assert done.exit_code == 1
    assert "schema_sha256" in done.stderr
    write_jsonl(source, [{"context": "another"}])
    out.write_bytes(whole)
    done = invoke(*command, "--resume")
    assert done.exit_code == 1
    assert "[input.resume" in done.stderr
    assert out.read_bytes() == whole


def test_interrupted_runs_keep_what_was_finished(loaded, tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", [{"context": f"{TEXT} {number}"} for number in range(7)])
    out, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    command = ["ask", ASKED, "--file", str(source), "--out"]
    process = [sys.executable, "-m", "jevmlx", *command, str(out)]
    running = subprocess.Popen(process, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (out.exists() and out.read_bytes().count(b"\n") >= 2):
        assert running.poll() is None, running.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert err.decode().splitlines() == [f"{out} keeps what was decided; --resume goes on after it", "interrupted"]
    kept = out.read_bytes()
    assert 2 <= kept.count(b"\n") < 7
    assert invoke(*command, out, "--resume").exit_code == 0
    assert invoke(*command, whole).exit_code == 0
    assert out.read_bytes().startswith(kept)
    assert out.read_bytes() == whole.read_bytes()
