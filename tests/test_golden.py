"""The golden check, run as a user runs it, on the committed vectors and on spoilt copies."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reference.loading import GOLDEN

OURS = "qwen3__fake__context_empty.json"
GIVEN = "qwen3__fake__risk_enum_bool.json"


def golden_prompts(*arguments: str | Path) -> tuple[int, list[str]]:
    """Exit status and lines of the script."""
    command = [sys.executable, str(GOLDEN / "golden_prompts.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def edit_json(path: Path, change) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value, indent=2, sort_keys=isinstance(value, dict)) + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the golden folder that holds the fake tokenizer's vectors only, so that each run is short."""
    root = tmp_path / "golden"
    (root / "prompts").mkdir(parents=True)
    (root / "tokenizers").mkdir()
    for vector in (GOLDEN / "prompts").glob("qwen3__fake__*.json"):
        shutil.copy(vector, root / "prompts")
    cases = json.loads((GOLDEN / "cases.json").read_text())
    (root / "cases.json").write_text(json.dumps([case for case in cases if case["tokenizer"] == "fake"]))
    given = (GOLDEN / "published.sha256").read_text().splitlines(keepends=True)
    (root / "published.sha256").write_text("".join(line for line in given if "__fake__" in line))
    revisions = json.loads((GOLDEN / "tokenizers" / "revisions.json").read_text())
    (root / "tokenizers" / "revisions.json").write_text(json.dumps({"fake": revisions["fake"]}))
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "prompts").iterdir()}


def test_the_committed_vectors_hold():
    assert golden_prompts("--check") == (0, [f"{len(list((GOLDEN / 'prompts').iterdir()))} vectors hold"])


def test_the_fake_vectors_hold_alone(root: Path):
    status, lines = golden_prompts("--check", "--root", root)
    assert (status, lines) == (0, [f"{len(contents(root))} vectors hold"])


def test_check_fails_on_a_changed_text(root: Path):
    edit_json(root / "prompts" / OURS, lambda vector: vector.update(rendered_text=vector["rendered_text"] + " "))
    assert golden_prompts("--check", "--root", root) == (1, [f"differs: {OURS}: rendered_text"])


def test_check_fails_on_a_changed_input(root: Path):
    edit_json(root / "prompts" / OURS, lambda vector: vector["input"].update(context="another"))
    assert golden_prompts("--check", "--root", root) == (1, [f"differs: {OURS}: input"])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda data: data[:-1], "the layout of the file"),
        (lambda data: data.replace(b"\n", b"\r\n"), "the layout of the file"),
        (lambda data: data[: len(data) // 2], "not JSON"),
        (lambda data: b"[]\n", "not an object"),
    ],
)
def test_check_fails_on_changed_bytes(root: Path, spoil, reason: str):
    path = root / "prompts" / OURS
    path.write_bytes(spoil(path.read_bytes()))
    assert golden_prompts("--check", "--root", root) == (1, [f"differs: {OURS}: {reason}"])


def test_check_fails_on_a_missing_vector(root: Path):
    (root / "prompts" / OURS).unlink()
    assert golden_prompts("--check", "--root", root) == (1, [f"missing: {OURS}"])


def test_check_fails_on_an_extra_vector(root: Path):
    name = OURS.replace("__fake__", "__earlier__")
    shutil.copy(root / "prompts" / OURS, root / "prompts" / name)
    assert golden_prompts("--check", "--root", root) == (1, [f"extra: {name} has no case in cases.json"])


def test_check_fails_on_a_changed_published_vector(root: Path):
    edit_json(root / "prompts" / GIVEN, lambda vector: vector.update(plan_hash="0" * 64))
    status, lines = golden_prompts("--check", "--root", root)
    assert (status, lines) == (1, [f"published: {GIVEN}: its bytes were changed", f"differs: {GIVEN}: plan_hash"])


@pytest.mark.parametrize("change", [{"revision": "later"}, {"model_id": "org/Qwen2.5-later"}])
def test_check_fails_on_what_is_no_longer_resolved(root: Path, change: dict[str, str]):
    edit_json(root / "tokenizers" / "revisions.json", lambda recorded: recorded["fake"].update(change))
    status, lines = golden_prompts("--check", "--root", root)
    assert status == 1
    assert len(lines) == len(contents(root))
    assert all(line.startswith("stale: qwen3__fake__") for line in lines)


def test_check_fails_on_another_tokenizer_under_the_same_revision(root: Path):
    recorded = json.loads((GOLDEN / "tokenizers" / "revisions.json").read_text())["qwen3"]
    shutil.copytree(GOLDEN / "tokenizers" / "qwen3", root / "tokenizers" / "qwen3")
    edit_json(root / "tokenizers" / "revisions.json", lambda all_of_them: all_of_them.update(qwen3=recorded))
    edit_json(root / "tokenizers" / "qwen3" / "tokenizer_config.json", lambda config: config.update(chat_template=""))
    expected = f"tokenizer: qwen3: its files are not the ones recorded for revision {recorded['revision']}"
    assert golden_prompts("--check", "--root", root) == (1, [expected])


def test_write_restores_ours_and_nothing_else(root: Path):
    committed = contents(root)
    (root / "prompts" / OURS).write_text("{}")
    (root / "prompts" / "stray.json").write_text("{}")
    status, _ = golden_prompts("--write", "--root", root)
    assert status == 0
    assert contents(root) == committed


def test_write_never_touches_a_published_vector(root: Path):
    (root / "prompts" / GIVEN).write_text("{}")
    (root / "prompts" / OURS).write_text("{}")
    before = contents(root)
    assert golden_prompts("--write", "--root", root) == (1, [f"published: {GIVEN}: its bytes were changed"])
    assert contents(root) == before


def test_write_refuses_another_content_for_a_published_vector(root: Path):
    def rename_context(cases: list[dict]) -> None:
        case = next(case for case in cases if case["case"] == "risk_enum_bool")
        case["context"] = "another"

    before = contents(root)
    edit_json(root / "cases.json", rename_context)
    status, lines = golden_prompts("--write", "--root", root)
    assert status == 1
    assert lines == [f"published: {GIVEN}: not what the product renders; this vector is never rewritten"]
    assert contents(root) == before


def test_write_writes_nothing_where_a_case_cannot_be_rendered(root: Path):
    edit_json(root / "cases.json", lambda cases: cases[-1].update(schema={}))
    (root / "prompts" / OURS).write_text("{}")
    before = contents(root)
    status, lines = golden_prompts("--write", "--root", root)
    assert status == 1
    assert [line.split(":")[0] for line in lines] == ["not rendered"]
    assert contents(root) == before
