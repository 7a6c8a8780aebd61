"""Answering a schema's questions about what a command was given: one text, or a file of many."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from . import many
from .files import STDIN, read_stdin, read_text
from .progress import bar
from .rows import FORMATS, MANY, Row, format_of, opened
from .shared import How, Model, Output, Source

if TYPE_CHECKING:
    from ..inputs import SchemaInput


def answer(given: SchemaInput, source: Source, output: Output, model: Model, how: How, *, merge: bool = False) -> None:
    """Decides and prints. Everything that can be wrong is looked at before the model is loaded.

    Raises:
        JevmlxError: The input is at fault.
        typer.BadParameter: The options do not fit together.
    """
    file_format = format_of(source.file, source.file_format)
    _check(source, output, file_format, merge=merge)
    options = how.checked(given, merge=merge)
    if file_format in MANY:
        with opened(source.file, file_format, source.column) as rows:
            many.run(given, rows, model, output, options, merge=merge)
        return
    _one(given, context(source), output, model, options)


def context(source: Source) -> str:
    """The one text that was given.

    Raises:
        JevmlxError: ``input.file``, ``input.encoding``.
        typer.BadParameter: There is none, or there are two.
    """
    if source.text is not None and source.file is not None:
        raise typer.BadParameter("give the text or --file, not both")
    if source.text is not None:
        return source.text
    if source.file is not None and source.file != STDIN:
        return read_text(Path(source.file), "text")
    if source.file is None and sys.stdin.isatty():
        raise typer.BadParameter("give a text, --file, or pipe a text in")
    return read_stdin()


def _check(source: Source, output: Output, file_format: str, *, merge: bool) -> None:
    if file_format not in FORMATS:
        raise typer.BadParameter(f"--format is {file_format!r}; allowed are {', '.join(FORMATS)}")
    if output.as_json and output.as_jsonl:
        raise typer.BadParameter("give --json or --jsonl, not both")
    if file_format in MANY:
        _check_many(source, output)
        return
    # Options that would have no effect are refused, so that nobody counts on one.
    given = {"--out": output.out, "--column": source.column, "--merge": merge}
    for name, value in given.items():
        if value:
            raise typer.BadParameter(f"{name} is for many contexts: --file with .jsonl, .csv or .parquet")
    if output.resume:
        raise typer.BadParameter("--resume goes on with --out; name the file")


def _check_many(source: Source, output: Output) -> None:
    if source.text is not None:
        raise typer.BadParameter("give the text or --file, not both")
    if output.as_json:
        raise typer.BadParameter("--json prints one decision; take --jsonl for many")
    if output.out is None:
        if output.resume:
            raise typer.BadParameter("--resume goes on with --out; name the file")
    elif output.out.exists() and not output.resume:
        raise typer.BadParameter(f"{output.out} exists; pass --resume to go on with it, or name another file")


def _one(given: SchemaInput, text: str, output: Output, model: Model, options: dict[str, Any]) -> None:
    import hashlib

    from . import show
    from .records import line, record

    engine = model.load()
    with bar("reading") as update:
        decision = engine.decide(given, text, progress=update, **options)
    if output.as_json:
        typer.echo(decision.to_json(indent=2))
    elif output.as_jsonl:
        row = Row(0, hashlib.sha256(text.encode()).hexdigest())
        typer.echo(line(record(row, decision, timings=output.timings)), nl=False)
    else:
        show.decision(decision)
