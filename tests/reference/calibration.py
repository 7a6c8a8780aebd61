"""The figures of a calibration from their definitions, one answer at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence


def softmax(scores: Sequence[float], temperature: float) -> list[float]:
    weights = [math.exp(score / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def nll(rows: Sequence[Sequence[float]], truth: Sequence[int]) -> float:
    return sum(-math.log(p[right]) for p, right in zip(rows, truth, strict=True)) / len(truth)


def brier(rows: Sequence[Sequence[float]], truth: Sequence[int]) -> float:
    total = 0.0
    for p, right in zip(rows, truth, strict=True):
        total += sum((value - (index == right)) ** 2 for index, value in enumerate(p))
    return total / len(truth)


def accuracy(rows: Sequence[Sequence[float]], truth: Sequence[int]) -> float:
    return sum(list(p).index(max(p)) == right for p, right in zip(rows, truth, strict=True)) / len(truth)


def ece_width(stated: Sequence[float], right: Sequence[bool], bins: int) -> float:
    """Share of the answers in each bin, times the gap between what was stated and what was so."""
    total = 0.0
    for index in range(bins):
        low, high = index / bins, (index + 1) / bins
        held = [at for at, p in enumerate(stated) if low <= p < high or (index == bins - 1 and p == 1)]
        if held:
            gap = sum(right[at] for at in held) / len(held) - sum(stated[at] for at in held) / len(held)
            total += len(held) / len(stated) * abs(gap)
    return total


def ece_mass(stated: Sequence[float], right: Sequence[bool], bins: int) -> float:
    """The same over bins by rank; equal probabilities share the bin of the first of them."""
    held: dict[int, list[int]] = {}
    for at, p in enumerate(stated):
        below = sum(other < p for other in stated)
        held.setdefault(below * bins // len(stated), []).append(at)
    total = 0.0
    for members in held.values():
        gap = sum(right[at] - stated[at] for at in members)
        total += abs(gap) / len(stated)
    return total
