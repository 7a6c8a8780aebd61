"""Python processes in which chosen packages are not installed, for real."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import jevmlx

_SITE = Path(np.__file__).parents[1]
_SOURCES = Path(jevmlx.__file__).parents[1]


def site_without(folder: Path, *packages: str) -> Path:
    """Fills a folder with links to all installed packages but those named, and to jevmlx."""
    folder.mkdir()
    for entry in _SITE.iterdir():
        if not entry.name.startswith(packages) and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    own = folder / "jevmlx"
    if not own.exists():
        own.symlink_to(_SOURCES / "jevmlx")
    return folder


def run(
    program: str, *, site: Path | None = None, check: bool = True, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a new interpreter; with ``site``, that folder holds its only installed packages."""
    return subprocess.run(
        command(program, site),
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=check,
    )


def command(program: str, site: Path | None = None) -> list[str]:
    """The command line of such a process."""
    flags = ["-S"] if site else []
    path = site or _SOURCES
    return [sys.executable, *flags, "-c", f"import sys; sys.path.insert(1, {str(path)!r})\n{program}"]


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, less what would decide what is under test."""
    decided = ("JEVMLX_", "OPENBLAS_", "OMP_", "HF_", "PYTHONPATH")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(decided)}
    return {**kept, **variables}
