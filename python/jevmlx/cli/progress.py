"""A progress bar on standard error, and nothing where that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Update = Callable[[int, int | None], None]


@contextmanager
def bar(what: str, *, beside_stdout: bool = False, in_bytes: bool = False) -> Iterator[Update]:
    """Shows a bar while the block runs.

    Args:
        what: What is being done, in one word or a few.
        beside_stdout: Whether the block prints to standard output; on a terminal that shows progress enough.
        in_bytes: Whether it is bytes that are counted.

    Yields:
        What takes how much is done, and of how much, which may be unknown.
    """
    if not sys.stderr.isatty() or (beside_stdout and sys.stdout.isatty()):
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn(what, markup=False), BarColumn(), count, TimeRemainingColumn())
    # What the block prints is not for standard error, where the bar would take it.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)
