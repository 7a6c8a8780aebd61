"""A log read from its first line to its last, each checked against the one before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import AuditError
from .files import in_order
from .lines import GENESIS, MAX_LINE_BYTES, Line, NotALine, check_torn, parse


@dataclass(frozen=True)
class Broken:
    """The first line that is not what it should be.

    Attributes:
        file: Its file.
        line: Its number in that file, from 1.
        reason: What is wrong with it.
    """

    file: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


@dataclass(frozen=True)
class Torn:
    """An unfinished line at the end: being written, or left by a crash.

    Attributes:
        size: Its bytes.
    """

    size: int


@dataclass(frozen=True)
class Place:
    """A checked line and where it stands.

    Attributes:
        file: Its file.
        number: Its number in that file, from 1.
        line: The line.
    """

    file: Path
    number: int
    line: Line


def walk(path: str | Path) -> Iterator[Place | Broken | Torn]:
    """All lines, up to the first broken one or the torn one, which comes last.

    Raises:
        AuditError: ``audit.file``: a file cannot be read.
    """
    path = Path(os.path.realpath(path))
    seq, sha256 = 0, GENESIS
    try:
        for file, opened in in_order(path):
            number = 0
            while raw := opened.readline(MAX_LINE_BYTES):
                number += 1
                try:
                    if not raw.endswith(b"\n") and len(raw) < MAX_LINE_BYTES and file == path:
                        check_torn(raw, seq + 1)
                        yield Torn(len(raw))
                        return
                    line = parse(_whole(raw))
                    _check_place(line, seq, sha256)
                except NotALine as reason:
                    yield Broken(file, number, str(reason))
                    return
                seq, sha256 = line.seq, line.sha256
                yield Place(file, number, line)
    except OSError as error:
        message = f"the log cannot be read: {error.strerror}; check its name and who may read it"
        raise AuditError("audit.file", message, str(error.filename or path)) from error


def _whole(raw: bytes) -> bytes:
    if not raw.endswith(b"\n"):
        raise NotALine("it has no end: the file was cut, or is no audit log")
    return raw[:-1]


def _check_place(line: Line, seq: int, sha256: str) -> None:
    """Whether a line is the one to follow line ``seq``.

    Raises:
        NotALine: It is not.
    """
    expected = seq + 1
    if line.seq > expected:
        missing = f"line {expected} is" if line.seq == expected + 1 else f"lines {expected} to {line.seq - 1} are"
        raise NotALine(f"{missing} missing before it: it was written as number {line.seq}")
    if line.seq < expected:
        raise NotALine(f"it was written as number {line.seq} and stands where number {expected} should be")
    if line.prev != sha256:
        raise NotALine(f"it was written after a line with hash {line.prev}, and the line before it has {sha256}")
