"""What a number is, for arguments that a caller without a type checker may get wrong: ``True`` is none."""

from __future__ import annotations

import math
from typing import Any, TypeGuard


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a finite number and no bool.

    Example:
        >>> is_number(0.5), is_number(True), is_number(float("nan"))
        (True, False, False)
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        # A whole number larger than any float.
        return False


def is_whole(value: Any, least: int) -> TypeGuard[int]:
    """Whether a value is a whole number of ``least`` or more, and no bool.

    Example:
        >>> is_whole(1, 1), is_whole(True, 1), is_whole(1.0, 1)
        (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
