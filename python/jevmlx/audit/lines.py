"""One line of the log: how it is built, and what makes it a line.

A line is a JSON object whose first members are ``seq``, ``time`` and ``prev`` and whose last is ``sha256``: the SHA-256 of the
line's bytes before ``,"sha256":``. The bytes are hashed as they stand: nobody has to agree on a canonical form to check them.
Keys keep their order, for the order of a schema's fields and choices is part of the question.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import AuditError

GENESIS = "0" * 64
"""What stands for the hash of the line before the first one."""

# A reader needs a bound, or a file that is no log would be read into memory whole.
MAX_LINE_BYTES = 64 * 2**20

RESERVED = ("seq", "time", "prev", "sha256")
_END = re.compile(rb',"sha256":"([0-9a-f]{64})"\}\Z')
_END_BYTES = 77


@dataclass(frozen=True)
class Line:
    """A line that is what it was written as.

    Attributes:
        seq: Its number in the log, from 1.
        prev: Hash of the line before it.
        sha256: Its own hash.
        content: All its members but ``sha256``.
    """

    seq: int
    prev: str
    sha256: str
    content: Mapping[str, Any]


class NotALine(Exception):  # noqa: N818 - never leaves the package
    """The reason why bytes are no line."""


def dumps(value: Any) -> bytes:
    """Compact JSON as UTF-8; a lone surrogate, which has no UTF-8 form, becomes its JSON escape.

    Raises:
        AuditError: ``audit.entry``: the value is no plain data.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"an entry must be plain data that JSON can hold, without NaN: {error}"
        raise AuditError("audit.entry", message) from error
    return text.encode("utf-8", "backslashreplace")


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not")


def payload(entry: Mapping[str, Any]) -> bytes:
    """An entry's members as they stand in its line.

    Raises:
        AuditError: ``audit.entry``.
    """
    given: object = entry
    kind: object = entry.get("kind") if isinstance(given, Mapping) else None
    if not isinstance(kind, str) or not kind:
        raise AuditError(
            "audit.entry",
            f"an entry is an object with a kind, a text that is not empty; this one's is {kind!r}",
            "kind",
        )
    for key in entry:
        if key in RESERVED:
            raise AuditError("audit.entry", f"{key!r} is a key of the log's own; name it otherwise", key)
    members = dumps(entry)[1:-1]
    if len(members) > MAX_LINE_BYTES // 2:
        message = (
            f"an entry has at most {MAX_LINE_BYTES // 2} bytes, and this one has {len(members)}; store its hash instead"
        )
        raise AuditError("audit.entry", message)
    return members


def head(seq: int) -> bytes:
    """What a line's bytes start with."""
    return b'{"seq":%d,"time":"' % seq


def build(seq: int, time: str, prev: str, members: bytes) -> tuple[bytes, str]:
    """A line with its newline, and its hash.

    Args:
        seq: Its number.
        time: UTC, ISO 8601.
        prev: Hash of the line before it.
        members: From :func:`payload`.
    """
    body = head(seq) + f'{time}","prev":"{prev}",'.encode() + members
    digest = hashlib.sha256(body).hexdigest()
    return body + f',"sha256":"{digest}"}}\n'.encode(), digest


def parse(raw: bytes) -> Line:
    """A line from its bytes without the newline.

    Raises:
        NotALine: It is none, or was changed.
    """
    end = _END.search(raw, max(0, len(raw) - _END_BYTES))
    if end is None:
        raise NotALine("it does not end in a hash as a line of an audit log does")
    body, stated = raw[: end.start()], end[1].decode()
    found = hashlib.sha256(body).hexdigest()
    if found != stated:
        raise NotALine(f"it was changed: its bytes hash to {found}, and it says {stated}")
    try:
        content = json.loads(body + b"}")
        seq, prev = content["seq"], content["prev"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotALine("it is not a JSON object with seq and prev") from error
    if type(seq) is not int or not isinstance(prev, str):
        raise NotALine("its seq is no whole number, or its prev no text")
    return Line(seq, prev, stated, content)


def check_torn(torn: bytes, seq: int) -> None:
    """Whether what stands after the last newline was to become line ``seq``.

    Raises:
        NotALine: It was not: no crash left it there.
    """
    begin = head(seq)
    begun = torn[: len(begin)] == begin[: len(torn)]
    # After a crash of the machine a file may have its new size, but zeros in place of its new bytes.
    zeros = seq > 1 and not torn.strip(b"\0")
    if not begun and not zeros:
        raise NotALine("it does not end in a newline, and what there is of it is no beginning of a line")
    if _is_line(torn[:-1]):
        raise NotALine("it was changed: it is whole, but for another byte in place of its newline")


def _is_line(raw: bytes) -> bool:
    try:
        parse(raw)
    except NotALine:
        return False
    return True
