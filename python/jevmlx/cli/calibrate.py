"""``jevmlx calibrate``: fit a calibration on labelled examples, and show what it does."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..errors import CalibrationError

if TYPE_CHECKING:
    from ..calibration import Calibration, Interval

_FIGURES = ("accuracy", "nll", "brier", "ece_width", "ece_mass")


def run(
    schema: Path,
    data: Path,
    out: Path,
    *,
    model: str,
    revision: str | None,
    scoring: str,
    held_out: float,
    figure: Path | None,
) -> None:
    """Fits, writes the bundle and the figure, and prints a table.

    Raises:
        JevmlxError: Schema, data or options are at fault, or a file cannot be written.
    """
    from .. import load, schema_of
    from ..calibration import calibrate, read_examples, reliability_figure
    from ..calibration.figure import check_figure

    # What would lose the work at its end is said at once.
    if not out.parent.is_dir():
        message = f"{str(out.parent)!r} is no folder; make it, or name another"
        raise CalibrationError("calibration.file", message, "out")
    if figure is not None:
        check_figure(figure)
    given = schema_of(schema)
    # Known before the model is loaded.
    examples = read_examples(data, given.schema)
    engine = load(model, revision=revision)
    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=len(examples))
        found = calibrate(
            engine,
            given,
            examples,
            held_out=held_out,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
            scoring=scoring,
        )
    found.save(out)
    show(found)
    if figure is not None:
        reliability_figure(found, figure)
    Console(highlight=False).print(f"written to {out}", markup=False)


def show(calibration: Calibration) -> None:
    """Prints the figures on held-out examples, before and after, with 95 % intervals."""
    table = Table(box=None, pad_edge=False)
    for heading in ("kind", "figure", "before", "after"):
        table.add_column(heading)
    for kind, report in calibration.reports.items():
        if kind == "multi":
            line = calibration.multi
            fitted = "" if line is None else f"{line.a:.3g}·x {line.b:+.3g}"
        else:
            fitted = f"T = {calibration.temperature(kind):.3g}"
        bound = " (at its bound)" if report.at_bound else ""
        about = [kind, fitted + bound, f"fitted on {report.fitted_on}", f"held out {report.held_out}"]
        for name, note in zip_longest(_FIGURES, about, fillvalue=""):
            table.add_row(note, name, _shown(getattr(report.before, name)), _shown(getattr(report.after, name)))
        table.add_section()
    console = Console(highlight=False)
    console.print(table)
    for code, count in calibration.refused.items():
        console.print(f"{count} examples left out: {code}", markup=False)


def _shown(figure: Interval) -> str:
    return f"{figure.value:.3f} ({figure.low:.3f}–{figure.high:.3f})"
