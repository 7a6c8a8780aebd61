"""Reliability diagrams: what was stated against what was so."""

from __future__ import annotations

import importlib.util
from io import BytesIO
from pathlib import Path
from typing import Any

from ..disk import write_whole
from ..errors import CalibrationError
from .bundle import Bin, Calibration
from .metrics import BINS

SUFFIXES = (".pdf", ".png", ".svg")


def reliability_figure(calibration: Calibration, path: str | Path) -> None:
    """Draws a calibration's reliability diagrams on held-out examples, before and after, one row per kind of field.

    The nearer the bars come to the diagonal, the more a probability means what it says. Their width and the number below show how
    many answers a bar stands for.

    Args:
        calibration: What to draw.
        path: The file, ``.png``, ``.svg`` or ``.pdf``; written whole or not at all.

    Raises:
        CalibrationError: ``calibration.figures``: matplotlib is missing, or the file cannot be written.
    """
    check_figure(path)
    import matplotlib
    from matplotlib.figure import Figure

    kinds = list(calibration.diagrams)
    figure = Figure(figsize=(8, 4 * max(1, len(kinds))), layout="constrained")
    axes = figure.subplots(max(1, len(kinds)), 2, squeeze=False, sharex=True, sharey=True)
    for row, kind in enumerate(kinds):
        diagram, report = calibration.diagrams[kind], calibration.reports[kind]
        _panel(axes[row][0], diagram.before, f"{kind}, before: ECE {report.before.ece_width.value:.3f}")
        _panel(axes[row][1], diagram.after, f"{kind}, after: ECE {report.after.ece_width.value:.3f}")
    target, data = Path(path), BytesIO()
    # The same calibration gives the same file: no date in it, and no names drawn at random.
    dated = "CreationDate" if target.suffix.lower() == ".pdf" else "Date"
    metadata = {} if target.suffix.lower() == ".png" else {dated: None}
    with matplotlib.rc_context({"svg.hashsalt": "jevmlx"}):
        figure.savefig(data, format=target.suffix.lower()[1:], metadata=metadata)
    try:
        write_whole(target, data.getvalue())
    except (OSError, ValueError) as error:
        message = f"{str(path)!r} cannot be written: {getattr(error, 'strerror', None) or error}"
        raise CalibrationError("calibration.figures", message, "figure") from error


def check_figure(path: str | Path) -> None:
    """Refuses what could not be drawn, before what it would show is computed.

    Raises:
        CalibrationError: ``calibration.figures``.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        message = f"{target.name!r} names no kind of figure; end it in one of {', '.join(SUFFIXES)}"
        raise CalibrationError("calibration.figures", message, "figure")
    if importlib.util.find_spec("matplotlib") is None:
        raise CalibrationError("calibration.figures", "figures need matplotlib; install jevmlx[figures]", "figure")
    if not target.parent.is_dir():
        message = f"{str(target.parent)!r} is no folder; make it, or name another"
        raise CalibrationError("calibration.figures", message, "figure")


def _panel(axis: Any, bins: tuple[Bin, ...], title: str) -> None:
    most = max((found.count for found in bins), default=1)
    for found in bins:
        width = max(0.1, found.count / most) / BINS
        axis.bar((found.index + 0.5) / BINS, found.right, width, color="#4c78a8")
        axis.plot(found.stated, found.right, "o", color="#e45756", markersize=3)
        axis.annotate(str(found.count), ((found.index + 0.5) / BINS, 0.01), ha="center", fontsize=6)
    axis.plot([0, 1], [0, 1], "--", color="#888888", linewidth=1)

    axis.set(title=title, xlabel="stated probability", ylabel="share that is so", xlim=(0, 1), ylim=(0, 1))
