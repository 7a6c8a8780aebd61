"""``jevmlx calibrate``: fit a calibration on labelled examples, and show what it does."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import CalibrationError
from .progress import bar
from .shared import Asked, Model, SchemaArgument

if TYPE_CHECKING:
    from ..calibration import Calibration, Interval

_FIGURES = ("accuracy", "nll", "brier", "ece_width", "ece_mass")


def calibrate(
    schema: SchemaArgument,
    data: Annotated[Path, typer.Argument(help='JSON Lines, one {"context": …, "labels": {field: value}} a line.')],
    out: Annotated[Path, typer.Option("--out", "-o", help="The calibration to write.")],
    model: Model,
    asked: Asked,
    held_out: Annotated[float, typer.Option(help="Share of the examples to report on, not to fit on.")] = 0.3,
    figure: Annotated[
        Path | None,
        typer.Option(help="Reliability diagrams: a .png, .svg or .pdf to write.", show_default=False),
    ] = None,
) -> None:
    """Fit temperatures on labelled examples, and report what they do on held-out ones."""
    from ..calibration import calibrate as fit
    from ..calibration import read_examples, reliability_figure
    from ..calibration.figure import check_figure
    from . import schemas

    # What would lose the work at its end is said at once.
    if not out.absolute().parent.is_dir():
        message = f"{str(out.parent)!r} is no folder; make it, or name another"
        raise CalibrationError("calibration.file", message, "out")
    if figure is not None:
        check_figure(figure)
    given = schemas.load(schema)
    # Known before the model is loaded.
    examples = read_examples(data, given.schema)
    engine = model.load()
    with bar("asking") as update:
        found = fit(engine, given, examples, held_out=held_out, progress=update, **asked.options())
    found.save(out)
    show(found)
    if figure is not None:
        reliability_figure(found, figure)
    typer.echo(f"written to {out}")


def show(calibration: Calibration) -> None:
    """Prints the figures on held-out examples, before and after, with 95 % intervals."""
    from rich.console import Console
    from rich.table import Table

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
