"""Files that a command is given, read whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ..errors import JevmlxError

STDIN = "-"


def read_text(path: Path, what: str) -> str:
    """A file's text.

    Raises:
        JevmlxError: ``input.file``, ``input.encoding``.
    """
    try:
        return decoded(path.read_bytes(), f"the {what}", str(path))
    except (OSError, ValueError) as error:
        raise cannot_read(path, what, error) from error


def read_stdin() -> str:
    """Standard input as text.

    Raises:
        JevmlxError: ``input.encoding``.
    """
    return decoded(sys.stdin.buffer.read(), "standard input", STDIN)


def decoded(data: bytes, what: str, path: str) -> str:
    """UTF-8 as text.

    Raises:
        JevmlxError: ``input.encoding``.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{what} is not UTF-8: byte {error.start} cannot be read; save it as UTF-8"
        raise JevmlxError("input.encoding", message, path) from error


def read_json(path: Path, what: str) -> Any:
    """A JSON file's value.

    Raises:
        JevmlxError: ``input.file``, ``input.encoding``, ``input.json``.
    """
    try:
        return json.loads(read_text(path, what))
    except (ValueError, RecursionError) as error:
        raise JevmlxError("input.json", f"the {what} file is not JSON: {error}", str(path)) from error


def cannot_read(path: Path | str, what: str, error: Exception) -> JevmlxError:
    """The error for a file that cannot be read; a name with a NUL is a ValueError."""
    why = getattr(error, "strerror", None) or str(error)
    return JevmlxError("input.file", f"the {what} cannot be read: {why}", str(path))
