"""Deciding many contexts: to standard output as they come, or into a file that an interrupted run can be resumed from."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import JevmlxError
from . import records
from .progress import bar
from .records import Resumed, record
from .rows import Row, Rows
from .shared import Model, Output

if TYPE_CHECKING:
    from .. import Engine
    from ..inputs import SchemaInput
    from ..results import Decision, DecisionError

Write = Callable[[Row, "Decision | DecisionError"], None]
Results = Iterator[tuple[Row, "Decision | DecisionError"]]


def run(given: SchemaInput, rows: Rows, model: Model, output: Output, options: dict[str, Any], *, merge: bool) -> None:
    """Decides every row, in order; a row that cannot be decided gives an error record.

    Raises:
        JevmlxError: A file cannot be used, or the output belongs to another input.
    """
    held = _held(output, rows)
    results = _checked(_results(model.load(), given, rows.rows, {**options, "merge": merge}), held)
    done, failed = held.records, 0
    with ExitStack() as stack:
        # Not before all else is known to be right, so that no empty file is left behind.
        write = _printed(output) if output.out is None else _written(output, output.out, held, stack)
        update = stack.enter_context(bar("deciding", beside_stdout=output.out is None))
        update(done, rows.total)
        try:
            for row, result in results:
                write(row, result)
                failed += hasattr(result, "code")
                done += 1
                update(done, rows.total)
        except KeyboardInterrupt:
            stack.close()
            if output.out is not None:
                typer.echo(f"{output.out} keeps what was decided; --resume goes on after it", err=True)
            raise
    where = "" if output.out is None else f" in {output.out}"
    kept = f"; {held.records} were there" if held.records else ""
    typer.echo(f"{done - held.records} decided, {failed} of them error records{where}{kept}", err=True)


def _results(engine: Engine, given: SchemaInput, rows: Iterator[Row], options: dict[str, Any]) -> Results:
    """A result for every row; those that could not be read are not asked about."""
    waiting: deque[Row] = deque()

    def contexts() -> Iterator[Any]:
        for row in rows:
            waiting.append(row)
            if row.error is None:
                yield row.context

    # What is wrong with the schema for this model is said now; contexts are taken as results are.
    return _matched(engine.decide_many(given, contexts(), **options), waiting)


def _matched(results: Iterator[Decision | DecisionError], waiting: deque[Row]) -> Results:
    """Each row with its result, and those that could not be read in their places."""
    from ..results import DecisionError

    def unreadable() -> Iterator[tuple[Row, DecisionError]]:
        while waiting and (error := waiting[0].error) is not None:
            row = waiting.popleft()
            yield row, DecisionError(index=row.number, code=error.code, message=error.message, path=error.path)

    for result in results:
        yield from unreadable()
        row = waiting.popleft()
        if isinstance(result, DecisionError):
            # Its place among all rows, not among those that were asked about in this run.
            result = result.model_copy(update={"index": row.number})
        yield row, result
    yield from unreadable()


def _checked(results: Results, held: Resumed) -> Results:
    """The same results, none of them given before a decision among them was seen to be made as those in the output were.

    Raises:
        JevmlxError: ``input.resume``.
    """
    first = []
    for item in results:
        first.append(item)
        if held.made_alike(item[1]):
            break
    yield from first
    yield from results


def _held(output: Output, rows: Rows) -> Resumed:
    """What the output holds already."""
    if output.out is None:
        return Resumed()
    if not output.out.absolute().parent.is_dir():
        message = f"{str(output.out.parent)!r} is no folder; make it, or name another"
        raise JevmlxError("input.file", message, str(output.out))
    if not output.resume or not output.out.exists():
        return Resumed()
    try:
        return records.resume(output.out, rows.rows)
    except OSError as error:
        raise _unusable(output.out, error) from error


def _written(output: Output, target: Path, held: Resumed, stack: ExitStack) -> Write:
    """What writes each result to the file."""
    try:
        # A new file is new, even where another process made it meanwhile.
        file = stack.enter_context(target.open("r+b" if output.resume and target.exists() else "xb"))
        file.truncate(held.end)
        file.seek(held.end)
    except OSError as error:
        raise _unusable(target, error) from error

    def write(row: Row, result: Decision | DecisionError) -> None:
        try:
            file.write(records.line(record(row, result, timings=output.timings)))
            # A line is whole or not there: what is written is worth keeping if the next one is interrupted.
            file.flush()
        except OSError as error:
            raise _unusable(target, error) from error

    return write


def _unusable(target: Path, error: OSError) -> JevmlxError:
    return JevmlxError("input.file", f"the output cannot be used: {error.strerror}", str(target))


def _printed(output: Output) -> Write:
    def write_line(row: Row, result: Decision | DecisionError) -> None:
        sys.stdout.write(records.line(record(row, result, timings=output.timings)).decode())
        sys.stdout.flush()

    def write_table(row: Row, result: Decision | DecisionError) -> None:
        from . import show

        show.numbered(row.number, result)
        sys.stdout.flush()

    return write_line if output.as_jsonl else write_table
