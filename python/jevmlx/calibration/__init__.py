"""Calibration: temperatures fitted on labelled examples, so that a probability means what it says."""

from __future__ import annotations

from .bundle import Affine, Calibration, Diagram, Interval, Made, Metrics, Report
from .calibrate import calibrate, fit
from .data import Example, read_examples
from .figure import reliability_figure
from .observe import FieldObservations, FieldTruth, Observations, observe
from .split import split

__all__ = [
    "Affine",
    "Calibration",
    "Diagram",
    "Example",
    "FieldObservations",
    "FieldTruth",
    "Interval",
    "Made",
    "Metrics",
    "Observations",
    "Report",
    "calibrate",
    "fit",
    "observe",
    "read_examples",
    "reliability_figure",
    "split",
]
