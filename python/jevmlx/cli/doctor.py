"""``jevmlx doctor``: what a bug report needs to say about the machine, and whether it can run this at all."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import typer

from .exits import AT_FAULT
from .shared import JsonOption

# The embedded model in float32, and the working memory that loading it asks for.
EMBEDDED_BYTES = 134_515_008 * 4 + 512 * 2**20
# Its wheel, the file in it, and what it is converted to.
FETCH_BYTES = 300 * 10**6

_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w.-]+)['"]""")


@dataclass(frozen=True)
class Check:
    """One thing that must or should be so.

    Attributes:
        name: What is looked at.
        state: ``"ok"``; ``"warning"``: it runs, but slower or not with everything; ``"failed"``: it does not run.
        detail: What was found, and what to do.
    """

    name: str
    state: str
    detail: str


def doctor(as_json: JsonOption = False) -> None:
    """Say what this machine runs on, and whether it can. Exits with 1 where it cannot."""
    from . import show

    found = report()
    if as_json:
        show.json_data(found)
    else:
        show.report(found)
    if not found["can_run"]:
        raise typer.Exit(AT_FAULT)


def report() -> dict[str, Any]:
    """Versions, device and BLAS, what was checked, and a verdict, as plain data."""
    from .. import __version__
    from ..limits import available_memory, cpu_count
    from ..models.cache import cache_dir

    device, checks = _device()
    checks += [_memory(available_memory()), _embedded(cache_dir()), *_packages()]
    failed = [check.name for check in checks if check.state == "failed"]
    return {
        "jevmlx": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": cpu_count(),
        "cache": str(cache_dir()),
        "packages": _versions(),
        **device,
        "checks": [asdict(check) for check in checks],
        "can_run": not failed,
        "verdict": f"this machine cannot run jevmlx: {', '.join(failed)}" if failed else "this machine can run jevmlx",
    }


def _device() -> tuple[dict[str, Any], list[Check]]:
    """What MLX computes on, and whether it does."""
    from ..errors import JevmlxError

    try:
        from .. import blas
        from ..scoring.mlx_load import device_report

        found = device_report()
    except JevmlxError as error:
        return {}, [Check("mlx", "failed", error.message)]
    except Exception as error:
        # What a broken installation raises: a library that is missing, symbols that do not fit.
        return {}, [Check("mlx", "failed", f"MLX does not work: {type(error).__name__}: {error}; install it again")]
    checks = [Check("mlx", "ok", f"computes on the {found['device']}")]
    slow = found["device"] == "cpu" and sys.platform.startswith("linux") and not blas.status().active
    checks.append(Check("blas", "warning" if slow else "ok", str(found["blas"])))
    return found, checks


def _memory(free: int | None) -> Check:
    need = f"the embedded model takes {EMBEDDED_BYTES / 1e9:.1f} GB"
    if free is None:
        return Check("memory", "ok", f"the system does not say how much is free; {need}")
    enough = free >= EMBEDDED_BYTES
    advice = "" if enough else ": free some"
    return Check("memory", "ok" if enough else "failed", f"{free / 1e9:.1f} GB are free; {need}{advice}")


def _embedded(cache: Path) -> Check:
    """Whether the embedded model is there, or could be put there."""
    from ..models.embedded import cached_folder

    if cached_folder().is_dir():
        return Check("embedded model", "ok", f"in {cached_folder()}")
    there = cache
    while not there.exists() and there != there.parent:
        there = there.parent
    if not os.access(there, os.W_OK):
        detail = f"not fetched, and {there} cannot be written to; set JEVMLX_CACHE to another folder"
        return Check("embedded model", "failed", detail)
    free = shutil.disk_usage(there).free
    if free < FETCH_BYTES:
        detail = f"not fetched, and {free / 1e6:.0f} MB are free in {there}; {FETCH_BYTES / 1e6:.0f} MB are needed"
        return Check("embedded model", "failed", detail)
    return Check("embedded model", "warning", "not fetched; `jevmlx models pull embedded` does")


def _packages() -> Iterator[Check]:
    """Required packages that are missing or too old, and those that an extra lacks."""
    for extra, wanted in _requirements().items():
        missing = [text for text in wanted if not _satisfied(text)]
        if not missing:
            continue
        if not extra:
            yield Check(
                "packages", "failed", f"missing or of another version: {', '.join(missing)}; install jevmlx again"
            )
        else:
            detail = f"lacks {', '.join(missing)}; pip install 'jevmlx[{extra}]' if you need it"
            yield Check(f"extra {extra}", "warning", detail)


def _requirements() -> dict[str, list[str]]:
    """Extra (empty for none) → requirements that apply to this machine."""
    from packaging.requirements import Requirement

    found: dict[str, list[str]] = {}
    for text in requires("jevmlx") or ():
        wanted = Requirement(text)
        named = _EXTRA.search(text)
        extra = named[1] if named else ""
        if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
            extras = f"[{','.join(sorted(wanted.extras))}]" if wanted.extras else ""
            found.setdefault(extra, []).append(f"{wanted.name}{extras}{wanted.specifier}")
    # Two of the same kind: on Linux one backend of MLX is enough.
    if not all(_satisfied(text) for text in found.get("cuda", ())):
        found.pop("cuda", None)
    return found


def _satisfied(text: str) -> bool:
    from packaging.requirements import Requirement

    wanted = Requirement(text)
    try:
        have = version(wanted.name)
    except PackageNotFoundError:
        return False
    return wanted.specifier.contains(have, prereleases=True)


def _versions() -> dict[str, str]:
    """Every dependency's version, those of extras included."""
    from packaging.requirements import Requirement

    names = {Requirement(text).name for wanted in _requirements().values() for text in wanted}
    found = {}
    for name in sorted(names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
