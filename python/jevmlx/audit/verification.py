"""Whether a log is whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import AuditError
from .chain import Broken, Torn, walk
from .lines import GENESIS


@dataclass(frozen=True)
class Verification:
    """What a log is worth.

    Attributes:
        lines: How many lines are whole and in their place, up to the first that is not.
        files: How many files they stand in.
        first_broken: The first line that is not; ``None`` where there is none.
        torn_bytes: Bytes of an unfinished line at the end, which no ``append`` returned for; 0 where there is none.
        last_hash: Hash of the last of the lines; 64 zeros where there is none.
    """

    lines: int
    files: int
    first_broken: Broken | None
    torn_bytes: int
    last_hash: str

    @property
    def ok(self) -> bool:
        """Whether nothing is broken; a torn end is not."""
        return self.first_broken is None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        data = {"ok": self.ok, **asdict(self)}
        if self.first_broken is not None:
            data["first_broken"]["file"] = str(self.first_broken.file)
        return data


def verify(path: str | Path, *, expect: str | None = None) -> Verification:
    r"""Reads a whole log and checks every line; a writer may go on meanwhile.

    Args:
        path: The file that is written to; its full files are found beside it.
        expect: Hash of a line that must be there: what ``append`` returned for it. Shows that nothing up to that line was cut off,
            and that the log was not written anew.

    Raises:
        AuditError: ``audit.file``: it cannot be read; ``audit.option``: ``expect`` is no hash.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "audit.jsonl"
        >>> path.write_text("no audit log\n")
        13
        >>> verify(path).first_broken.reason
        'it does not end in a hash as a line of an audit log does'
    """
    if expect is not None and (
        not isinstance(expect, str) or len(expect) != 64 or set(expect) - set("0123456789abcdef")
    ):
        raise AuditError(
            "audit.option", f"{expect!r} is no hash of a line: 64 lower-case hex digits are needed", "expect"
        )
    lines, last_hash, torn, broken = 0, GENESIS, 0, None
    files: set[Path] = set()
    place, number = Path(path), 0
    expected = expect is None
    for found in walk(path):
        if isinstance(found, Broken):
            broken = found
        elif isinstance(found, Torn):
            torn = found.size
        else:
            lines, last_hash, place, number = lines + 1, found.line.sha256, found.file, found.number
            files.add(found.file)
            expected = expected or last_hash == expect
    if broken is None and not expected:
        reason = f"no line before it has hash {expect}: the end was cut off, or the log was written anew"
        broken = Broken(place, number + 1, reason)
    return Verification(lines, len(files), broken, torn, last_hash)
