"""Getting files to the disk: whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: str | Path, data: bytes) -> None:
    """Writes a file under another name beside its own, then renames it.

    Raises:
        OSError: It cannot be written; what was there before is untouched.
        ValueError: The path holds a null character.
    """
    target = Path(path)
    # Opened anew rather than by tempfile, whose files only their owner may read.
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def to_disk(path: Path) -> None:
    """Returns when a file's bytes, or the names in a folder, are on the disk.

    Raises:
        OSError: They are not.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
