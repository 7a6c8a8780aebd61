"""A progress bar on standard error for work that takes a while, and nothing where that is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Update = Callable[[int, int | None], None]

# Seconds; what is done sooner needs no bar.
_PATIENCE_S = 0.5


@contextmanager
def bar(what: str, *, beside_stdout: bool = False, in_bytes: bool = False, at_once: bool = False) -> Iterator[Update]:
    """Shows a bar while the block runs.

    Args:
        what: What is being done, in one word or a few.
        beside_stdout: Whether the block prints to standard output; on a terminal that shows progress enough.
        in_bytes: Whether it is bytes that are counted.
        at_once: Whether to show it before anything is known to be done.

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
    shown = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    task = shown.add_task("", total=None)
    began = time.monotonic()

    def update(done: int, total: int | None) -> None:
        shown.update(task, completed=done, total=total)
        if time.monotonic() - began > _PATIENCE_S:
            shown.start()

    if at_once:
        shown.start()
    try:
        yield update
    finally:
        shown.stop()
