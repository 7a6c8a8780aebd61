"""What ``validate`` found: a measured fact that may harm decisions, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        kind: A stable name, such as ``"near-duplicate"``.
        level: ``"warning"`` for what makes answers worse, ``"advice"`` for what may.
        path: Field and key, as in errors; empty for the whole schema.
        message: What is so, why it matters, what to do.
    """

    kind: str
    level: Literal["warning", "advice"]
    path: str
    message: str
