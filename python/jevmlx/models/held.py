"""Models on this machine: which are there, whether they are whole, and removing them.

The hub's cache names each file's content by its hash: SHA-256 for large files, git's SHA-1 for others. The embedded model has a
manifest. So a model can be verified without a network.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from ..errors import ModelError
from . import embedded
from .cache import MANIFEST, cache_dir

EMBEDDED = "embedded"
State = Literal["ok", "damaged", "missing", "unknown"]
# Told (bytes read, bytes to read).
Progress = Callable[[int, int], None]

_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Held:
    """A model in one revision.

    Attributes:
        model: What it is loaded by: ``"embedded"`` or a hub id.
        revision: The commit, or the embedded model's package version.
        path: Its folder.
        size: Bytes on disk; revisions of a model may share files.
    """

    model: str
    revision: str
    path: Path
    size: int


@dataclass(frozen=True)
class Checked:
    """One file of a model.

    Attributes:
        name: Its name in the model's folder.
        state: ``"ok"``, ``"damaged"`` (its bytes are not those of its hash), ``"missing"``, or ``"unknown"``: no hash is recorded.
    """

    name: str
    state: State


def held() -> list[Held]:
    """Every model on this machine."""
    found = []
    folder = embedded.cached_folder()
    if (folder / MANIFEST).is_file():
        found.append(Held(EMBEDDED, embedded.REVISION, folder, _size(folder)))
    cache = _hub_cache()
    for repository in sorted(cache.glob("models--*")) if cache.is_dir() else ():
        model = repository.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in sorted(repository.glob("snapshots/*/")):
            found.append(Held(model, snapshot.name, snapshot, _size(snapshot)))
    return found


def find(model: str, revision: str | None = None) -> list[Held]:
    """The revisions of a model on this machine.

    Args:
        model: ``"embedded"`` or a hub id.
        revision: A commit, the beginning of one, or a branch or tag as it was when it was fetched; all by default.

    Raises:
        ModelError: ``model.not_found``.
    """
    found = [one for one in held() if one.model == model and (revision is None or _is(one, revision))]
    if not found:
        at = f" at revision {revision!r}" if revision else ""
        message = f"{model!r} is not on this machine{at}; `jevmlx models list` shows what is"
        raise ModelError("model.not_found", message)
    return found


def verify(one: Held, progress: Progress | None = None) -> list[Checked]:
    """Hashes every file of a model and compares.

    Args:
        one: The model.
        progress: Told the bytes hashed so far, and all.
    """
    tell = progress or (lambda _done, _total: None)
    done = 0

    def read(size: int) -> None:
        nonlocal done
        done += size
        tell(done, one.size)

    return [Checked(name, _state(path, expected, read)) for name, path, expected in _files(one)]


def remove(one: Held) -> None:
    """Removes a model in one revision; files that another revision needs are kept.

    Raises:
        ModelError: ``model.cache``: the folder cannot be changed.
    """
    try:
        if one.model == EMBEDDED:
            with FileLock(cache_dir() / f".{one.path.name}.lock"):
                shutil.rmtree(one.path)
            return
        repository = one.path.parent.parent
        if len(list(one.path.parent.iterdir())) == 1:
            shutil.rmtree(repository)
            return
        from huggingface_hub import scan_cache_dir

        scan_cache_dir(_hub_cache()).delete_revisions(one.revision).execute()
    except OSError as error:
        message = f"{one.path} cannot be removed: {error.strerror}; fix its permissions"
        raise ModelError("model.cache", message) from error


def _hub_cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _is(one: Held, revision: str) -> bool:
    if one.model == EMBEDDED:
        return one.revision == revision
    reference = one.path.parent.parent / "refs" / revision
    named = reference.read_text().strip() if reference.is_file() else ""
    return one.revision == named or (len(revision) >= 7 and one.revision.startswith(revision))


def _files(one: Held) -> Iterator[tuple[str, Path, str]]:
    """Name, path and recorded hash of each file; an empty hash where none is recorded."""
    if one.model == EMBEDDED:
        try:
            stated: dict[str, Any] = json.loads((one.path / MANIFEST).read_text())
        except (OSError, ValueError):
            stated = {}
        for name in sorted({*stated, *(path.name for path in one.path.iterdir())} - {MANIFEST}):
            yield name, one.path / name, str(stated.get(name, ""))
        return
    for path in sorted(one.path.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            blob = path.readlink().name if path.is_symlink() else ""
            yield path.relative_to(one.path).as_posix(), path, blob


def _state(path: Path, expected: str, read: Callable[[int], None]) -> State:
    if not path.is_file():
        return "missing"
    size = path.stat().st_size
    if _SHA256.fullmatch(expected):
        digest = hashlib.sha256()
    elif _SHA1.fullmatch(expected):
        # Not for security: it is how git names a file's content.
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    else:
        read(size)
        return "unknown"
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            read(len(chunk))
    return "ok" if digest.hexdigest() == expected else "damaged"
