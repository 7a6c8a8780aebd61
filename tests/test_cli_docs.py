"""Every command that the page on the command line shows runs as it stands."""

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from jevmlx.cli.app import app

ROOT = Path(__file__).parent.parent


def commands():
    text = (ROOT / "docs/cli.md").read_text("utf-8")
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            assert line.startswith("$ jevmlx ")
            yield shlex.split(line)[2:]


def test_examples_run(engine, monkeypatch, tmp_path):
    monkeypatch.setattr("jevmlx.engine.load", lambda *_args, **_kwargs: engine)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    shown = list(commands())
    for arguments in shown:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, (arguments, done.output)
    assert len((tmp_path / "decisions.jsonl").read_text().splitlines()) == 3
    assert len(shown) >= 10
