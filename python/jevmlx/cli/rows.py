"""Many contexts from a file: JSON Lines, CSV or Parquet, read row by row.

A row that cannot be read carries its error; the file as a whole is refused only where no row of it can be read.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import JevmlxError
from .files import STDIN, cannot_read

CONTEXT = "context"
MESSAGES = "messages"

MANY = ("jsonl", "csv", "parquet")
FORMATS = ("text", *MANY)
_BY_SUFFIX = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}

# Python's own limit on a CSV cell is 128 kB; a context may be a book.
_MOST_CELL = 2**30


@dataclass(frozen=True)
class Row:
    """One context of a file.

    Attributes:
        number: Its line or row, from 0.
        sha256: Hash of what was read: the line of JSON Lines, the cell's UTF-8 of CSV and Parquet.
        context: A text, or chat messages.
        error: Why there is none.
    """

    number: int
    sha256: str
    context: Any = None
    error: JevmlxError | None = None


@dataclass(frozen=True)
class Rows:
    """A file's rows, and how many there are where that is known."""

    rows: Iterator[Row]
    total: int | None = None


def format_of(file: str | None, given: str | None) -> str:
    """The format of a file, by its name where none is given."""
    if given is not None:
        return given
    return _BY_SUFFIX.get(Path(file or "").suffix.lower(), "text")


@contextmanager
def opened(file: str | None, file_format: str, column: str | None) -> Iterator[Rows]:
    """The rows of a file.

    Args:
        file: Its path; ``None`` or ``"-"`` is standard input.
        file_format: One of ``MANY``.
        column: Key or column of the contexts; in JSON Lines ``messages`` may stand in the place of the default one.

    Raises:
        JevmlxError: ``input.file``, ``input.column``, ``input.row``, ``input.encoding``.
    """
    read = {"jsonl": _json_lines, "csv": _csv, "parquet": _parquet}[file_format]
    if file is None or file == STDIN:
        yield read(sys.stdin.buffer, column)
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        raise cannot_read(file, "file of contexts", error) from error
    with stream:
        yield read(stream, column)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _json_lines(stream: BinaryIO, column: str | None) -> Rows:
    total = None
    if stream.seekable():
        total = sum(1 for line in stream if line.strip())
        stream.seek(0)
    lines = ((number, line.rstrip(b"\r\n")) for number, line in enumerate(stream))
    return Rows((_json_row(number, line, column) for number, line in lines if line.strip()), total)


def _json_row(number: int, line: bytes, column: str | None) -> Row:
    digest = _sha256(line)
    try:
        # Some programs mark the beginning of a file.
        record = json.loads(line.decode("utf-8-sig" if number == 0 else "utf-8"))
    except UnicodeDecodeError as error:
        message = f"the line is not UTF-8: byte {error.start} cannot be read; re-encode it"
        return Row(number, digest, error=JevmlxError("input.encoding", message))
    except (ValueError, RecursionError) as error:
        return Row(number, digest, error=JevmlxError("input.json", f"the line is not JSON: {error}"))
    if not isinstance(record, dict):
        message = f'the line is no object with a key "{column or CONTEXT}"'
        return Row(number, digest, error=JevmlxError("input.json", message))
    for key in (column,) if column else (CONTEXT, MESSAGES):
        if key in record:
            return Row(number, digest, record[key])
    message = f'the line has no key "{column or CONTEXT}"; name the one that holds the text by --column'
    return Row(number, digest, error=JevmlxError("input.column", message))


def _csv(stream: BinaryIO, column: str | None) -> Rows:
    csv.field_size_limit(_MOST_CELL)
    # Bytes that are no UTF-8 are found cell by cell, so that one of them spoils one row.
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    # Strict: a quotation mark that is never closed would swallow the rest of the file.
    reader = csv.reader(text, strict=True)
    header = next(_csv_cells(reader), [])
    at = _place(header, column or CONTEXT)
    return Rows(_csv_rows(reader, at, len(header)))


def _place(header: list[str], column: str) -> int:
    if header.count(column) != 1:
        many = "several columns" if column in header else "no column"
        shown = ", ".join(map(repr, header)) or "none"
        message = (
            f"there is {many} {column!r}; the first line names {shown}: name the one that holds the text by --column"
        )
        raise JevmlxError("input.column", message)
    return header.index(column)


def _csv_cells(reader: Any) -> Iterator[list[str]]:
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = f"line {reader.line_num} is not CSV: {error}; quote cells that hold commas, quotation marks or line breaks"
            raise JevmlxError("input.row", message) from error
        # An empty line is no row.
        if cells:
            yield cells


def _csv_rows(reader: Any, at: int, width: int) -> Iterator[Row]:
    for number, cells in enumerate(_csv_cells(reader)):
        if len(cells) == width:
            yield text_row(number, cells[at].encode("utf-8", "surrogateescape"))
            continue
        # A comma that is not quoted would cut a text short.
        message = f"the row has {len(cells)} cells and the first line has {width}; quote cells that hold commas"
        digest = _sha256("\0".join(cells).encode("utf-8", "surrogateescape"))
        yield Row(number, digest, error=JevmlxError("input.row", message))


def text_row(number: int, data: bytes | None) -> Row:
    """A row that holds one text, as UTF-8."""
    if data is None:
        return Row(number, _sha256(b""), error=JevmlxError("input.row", "the cell is null; a text is needed"))
    try:
        return Row(number, _sha256(data), data.decode("utf-8"))
    except UnicodeDecodeError as error:
        message = f"the cell is not UTF-8: byte {error.start} cannot be read; re-encode it"
        return Row(number, _sha256(data), error=JevmlxError("input.encoding", message))


def _parquet(stream: BinaryIO, column: str | None) -> Rows:
    from .parquet import cells

    if not stream.seekable():
        stream = io.BytesIO(stream.read())
    found, total = cells(stream, column or CONTEXT)
    return Rows((text_row(number, data) for number, data in enumerate(found)), total)
