"""Calibration: temperatures and thresholds fitted on labelled examples, so that a probability means what it says."""

from __future__ import annotations

from .bundle import Calibration
from .data import Example, read_examples
from .split import split

__all__ = ["Calibration", "Example", "read_examples", "split"]
