"""Texts from a column of a Parquet file; ``pyarrow`` is imported here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from ..errors import ConfigError, JevmlxError

# Rows held at a time.
_ROWS = 256


def cells(stream: BinaryIO, column: str) -> tuple[Iterator[bytes | None], int]:
    """The UTF-8 of every cell of a column, and how many there are.

    Raises:
        ConfigError: ``config.extra``: pyarrow is not installed.
        JevmlxError: ``input.file``: this is no Parquet file; ``input.column``: the column is not there or holds no texts.
    """
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        message = (
            "reading Parquet needs pyarrow: pip install 'jevmlx[parquet]', or convert the file to JSON Lines or CSV"
        )
        raise ConfigError("config.extra", message) from error
    try:
        file = parquet.ParquetFile(stream)
        names = file.schema_arrow.names
        if names.count(column) != 1:
            shown = ", ".join(map(repr, names)) or "none"
            message = (
                f"there is no column {column!r}; the columns are {shown}: name the one that holds the text by --column"
            )
            raise JevmlxError("input.column", message)
        _check(pa, file.schema_arrow.field(column).type, column)
        return _cells(pa, file, column), file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise _damaged(error) from error


def _check(pa: Any, kind: Any, column: str) -> None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = ("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary")
    if not any(getattr(pa.types, test)(kind) for test in tests):
        message = f"the column {column!r} holds {kind}; a column of texts is needed"
        raise JevmlxError("input.column", message)


def _cells(pa: Any, file: Any, column: str) -> Iterator[bytes | None]:
    try:
        for batch in file.iter_batches(_ROWS, columns=[column]):
            values = batch.column(0)
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            yield from values.cast(pa.large_binary()).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> JevmlxError:
    return JevmlxError("input.file", f"this is no Parquet file, or a damaged one: {error}")
