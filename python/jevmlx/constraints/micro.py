"""Log scores as whole micro-nats, so that "exact" and "tie" mean something."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index

from ..errors import ConstraintError

# Micro-nats in one nat.
MICRO = 1_000_000
# A thousand nats: beyond it one score is as certain as another.
MICRO_LIMIT = 10**9


def micro_nats(x: float) -> int:
    """A log score in whole micro-nats: x·10⁶ rounded half to even, clamped to ±10⁹.

    Args:
        x: Log score or log-odds in nats; infinities clamp.

    Returns:
        Micro-nats, from −10⁹ to 10⁹.

    Raises:
        ConstraintError: ``constraints.scores``: NaN, or no number.

    Example:
        >>> micro_nats(0.25), micro_nats(2.5e-6), micro_nats(float("-inf"))
        (250000, 2, -1000000000)
    """
    try:
        scaled = float(x) * MICRO
    except (TypeError, ValueError, OverflowError):
        scaled = math.nan
    if math.isnan(scaled):
        raise ConstraintError("constraints.scores", f"a score is {x!r}; a number is needed, infinities included")
    return round(max(-MICRO_LIMIT, min(MICRO_LIMIT, scaled)))


def checked(values: Sequence[int], count: int, path: str) -> list[int]:
    """Scores as plain whole numbers.

    Args:
        values: Micro-nats.
        count: How many are needed.
        path: Whose they are.

    Raises:
        ConstraintError: ``constraints.scores``.
    """
    try:
        scores = [index(value) for value in values]
    except TypeError:
        raise ConstraintError(
            "constraints.scores", "scores are a list of whole micro-nats; convert nats with micro_nats", path
        ) from None
    if len(scores) != count:
        raise ConstraintError("constraints.scores", f"{len(scores)} scores for {count} choices; give one each", path)
    for score in scores:
        if abs(score) > MICRO_LIMIT:
            message = f"the score {score} is outside ±{MICRO_LIMIT} micro-nats; convert nats with micro_nats"
            raise ConstraintError("constraints.scores", message, path)
    return scores
