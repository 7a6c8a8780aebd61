"""Whether there are labels enough to fit to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import CalibrationError
from .observe import FieldTruth

# Labelled examples that a kind of field needs to be fitted on, and to be reported on.
LEAST_FITTED, LEAST_HELD_OUT = 20, 5


def check_enough(fitted: Sequence[FieldTruth], held: Sequence[FieldTruth]) -> None:
    """Refuses labels that nothing can be fitted to, kind by kind.

    Args:
        fitted: Labels to fit on.
        held: Labels to report on.

    Raises:
        CalibrationError: ``calibration.few`` or ``calibration.one_class``.
    """
    both = [*fitted, *held]
    if not both:
        message = "no field that has a label has more than one answer; label others"
        raise CalibrationError("calibration.few", message, "data")
    for kind in dict.fromkeys(field.kind for field in both):
        names = ", ".join(dict.fromkeys(repr(field.name) for field in both if field.kind == kind))
        own = [field for field in fitted if field.kind == kind]
        _check_count(own, LEAST_FITTED, f"to fit the {kind} fields ({names}) on")
        _check_count([field for field in held if field.kind == kind], LEAST_HELD_OUT, f"to test them on ({names})")
        if all(len(np.unique(field.truth)) == 1 for field in own):
            message = (
                f"all labels to fit the {kind} fields ({names}) on are the same, which says nothing about how sure to be; "
                "add examples of other answers, or leave these labels out"
            )
            raise CalibrationError("calibration.one_class", message, "data")


def _check_count(fields: Sequence[FieldTruth], least: int, what: str) -> None:
    examples = {example for field in fields for example in field.examples.tolist()}
    if len(examples) < least:
        message = (
            f"there are {len(examples)} labelled examples {what}, and {least} are needed: add some, change held_out, or leave "
            "their labels out"
        )
        raise CalibrationError("calibration.few", message, "data")
