"""Folders in the user's cache that are whole or not there at all.

A folder is built under a hidden name, described by a manifest of its files' hashes, and renamed into place. A lock file keeps
a second process from building the same folder, and is released by the operating system if its holder dies.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from ..disk import to_disk
from ..errors import ModelError

MANIFEST = "manifest.json"
_MODEL_FILES = {".safetensors", ".json", ".jinja", ".model", ".tiktoken", ".txt"}


def cache_dir() -> Path:
    """``$JEVMLX_CACHE``, else the platform's cache folder for this user; it need not exist."""
    chosen = os.environ.get("JEVMLX_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "jevmlx"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "jevmlx"


def build_once(name: str, build: Callable[[Path], None]) -> Path:
    """The cached folder ``name``, built if it is missing or damaged.

    Args:
        name: A file name.
        build: Fills the empty folder it is given; where it raises, nothing is left behind.

    Raises:
        ModelError: ``model.cache`` where the cache cannot be written.
    """
    root = cache_dir()
    folder = root / name
    if intact(folder):
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{name}.lock"):
            if not intact(folder):
                _build(root, folder, build)
    except OSError as error:
        raise ModelError(
            "model.cache",
            f"the cache folder {root} cannot be used: {error}; free some space, fix its permissions, or set "
            "JEVMLX_CACHE to another folder",
        ) from error
    return folder


def _build(root: Path, folder: Path, build: Callable[[Path], None]) -> None:
    # The lock is held, so whatever bears the hidden name was left by a process that died.
    for left in root.glob(f".{folder.name}.build-*"):
        shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.build-", dir=root))
    try:
        build(made)
        (made / MANIFEST).write_text(json.dumps(_hashes(made), indent=2, sort_keys=True) + "\n")
        for path in made.iterdir():
            path.chmod(0o644)
            to_disk(path)
        if folder.exists():
            shutil.rmtree(folder)
        made.chmod(0o755)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def intact(folder: Path) -> bool:
    """Whether a folder holds what its manifest says, by hash."""
    try:
        stated = json.loads((folder / MANIFEST).read_text())
        return isinstance(stated, dict) and bool(stated) and _hashes(folder) == stated
    except (OSError, ValueError):
        return False


def content_hash(folder: Path) -> str:
    """SHA-256 of an intact folder's manifest, which holds its files' names and hashes: 64 hex digits."""
    return _hash_of(json.loads((folder / MANIFEST).read_text()))


def folder_hash(folder: Path) -> str:
    """The same for any folder, by hashing the files that make up a model: some seconds for a large one."""
    return _hash_of({name: digest for name, digest in _hashes(folder).items() if Path(name).suffix in _MODEL_FILES})


def _hash_of(hashes: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def sha256(path: Path) -> str:
    """SHA-256 of a file: 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hashes(folder: Path) -> dict[str, str]:
    files = (path for path in folder.iterdir() if path.is_file() and path.name != MANIFEST)
    return {path.name: sha256(path) for path in files}
