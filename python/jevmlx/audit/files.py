"""A log's files: their names and order, their ends, and how they get to the disk.

The file that is written to keeps its name; when it is full it becomes ``audit.000001.jsonl`` and so on, the oldest first.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .lines import MAX_LINE_BYTES, NotALine

# One read finds the last line of most logs.
_FIRST_READ = 64 * 2**10


@dataclass(frozen=True)
class End:
    """A file's end.

    Attributes:
        line: The last line that ends in a newline, without it; ``None`` where there is none.
        torn: What stands after it.
    """

    line: bytes | None
    torn: bytes


def numbered(path: Path, number: int) -> Path:
    """The name of a full file."""
    return path.with_name(f"{path.stem}.{number:06}{path.suffix}")


def full_files(path: Path) -> list[tuple[int, Path]]:
    """Numbers and paths of a log's full files, the oldest first.

    Raises:
        OSError: The folder cannot be read.
    """
    name = re.compile(rf"{re.escape(path.stem)}\.(\d{{6,}}){re.escape(path.suffix)}")
    found = ((name.fullmatch(entry), path.parent / entry) for entry in os.listdir(path.parent))  # noqa: PTH208 - names
    return sorted((int(match[1]), file) for match, file in found if match)


def in_order(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A log's files, opened, the oldest first; a writer may go on meanwhile.

    Raises:
        OSError: A file cannot be read, or there is none.
    """
    last = 0
    while True:
        for number, file in full_files(path):
            if number > last:
                last = number
                with file.open("rb") as opened:
                    yield file, opened
        with ExitStack() as held:
            current = None
            with suppress(FileNotFoundError):
                current = held.enter_context(path.open("rb"))
            # The last full file's successor, unless the next one has become full in between.
            if any(number > last for number, _ in full_files(path)):
                continue
            if current is not None:
                yield path, current
            elif last == 0:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            # Else a writer died between renaming a full file and making the next one.
            return


def end_of(descriptor: int, size: int) -> End:
    """A file's end, read from the back.

    Raises:
        NotALine: There is no newline where a line must have ended.
        OSError: It cannot be read.
    """
    data, start, step = b"", size, _FIRST_READ
    while start > 0:
        if len(data) > 2 * MAX_LINE_BYTES:
            raise NotALine(f"no line ends in its last {len(data)} bytes")
        take = min(step, start)
        start, step = start - take, step * 2
        data = os.pread(descriptor, take, start) + data
        whole, newline, torn = data.rpartition(b"\n")
        if newline and (b"\n" in whole or start == 0):
            return End(whole.rpartition(b"\n")[2], torn)
    return End(None, data)


def same_file(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to an open file."""
    try:
        found, held = os.stat(path), os.fstat(descriptor)  # noqa: PTH116 - beside fstat
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of it, or raises.

    Raises:
        OSError: Some or none of it was written.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def to_disk(descriptor: int) -> None:
    """Returns when what was written is on the disk.

    Raises:
        OSError: It is not.
    """
    # fsync on macOS stops at the drive's cache; not every file system there can do more.
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with suppress(OSError):
            fcntl.fcntl(descriptor, full)
            return
    os.fsync(descriptor)
