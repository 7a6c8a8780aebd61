"""From branch logits to log scores: plain double arithmetic, the same for every face and every backend.

The numbers are few (the allowed tokens of one question), so Python floats are as fast here as arrays and easier to follow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ._core import Field, Layout


@dataclass(frozen=True)
class Paths:
    """How branch logits add up to candidates.

    Attributes:
        branches: Per branch, the range of its entries among the allowed tokens.
        branch_of: Per allowed token, its branch.
        rows: Per row, per candidate, the allowed tokens it passes.
    """

    branches: tuple[range, ...]
    branch_of: tuple[int, ...]
    rows: tuple[tuple[tuple[int, ...], ...], ...]

    @classmethod
    def of(cls, layout: Layout) -> Paths:
        """The paths of a plan's layout."""
        offsets = _ints(layout.branch_offsets)
        branches = tuple(range(a, b) for a, b in itertools.pairwise(offsets))
        branch_of = tuple(index for index, entries in enumerate(branches) for _ in entries)
        steps, step_offsets, row_offsets = _ints(layout.steps), _ints(layout.step_offsets), _ints(layout.row_offsets)
        candidates = [tuple(steps[a:b]) for a, b in itertools.pairwise(step_offsets)]
        rows = tuple(tuple(candidates[a:b]) for a, b in itertools.pairwise(row_offsets))
        return cls(branches, branch_of, rows)


def _ints(data: bytes) -> list[int]:
    return memoryview(data).cast("i").tolist()


@dataclass(frozen=True)
class RowScores:
    """One row, per candidate in choice order.

    Attributes:
        log_scores: Log scores in nats; a proper distribution.
        legal_mass: Mass of the allowed tokens along the candidate's path, under the whole vocabulary; empty if not asked for.
        min_legal_mass: The least of them; empty if not asked for.
    """

    log_scores: list[float]
    legal_mass: list[float]
    min_legal_mass: list[float]


def row_scores(paths: Paths, logits: Sequence[float], log_z: Sequence[float] | None) -> list[RowScores]:
    """Log scores of every row's candidates.

    Args:
        paths: The plan's paths.
        logits: Logit of each allowed token.
        log_z: Log-sum-exp over the whole vocabulary per branch, or ``None``.

    Returns:
        One entry per row, in plan order.
    """
    branch_of = paths.branch_of
    log_allowed = [_log_sum_exp(logits[entries.start : entries.stop]) for entries in paths.branches]
    log_p = [logit - log_allowed[branch] for logit, branch in zip(logits, branch_of, strict=True)]
    # Rounding can put the allowed tokens above the whole vocabulary by an ulp.
    legal = None if log_z is None else [min(a - z, 0.0) for a, z in zip(log_allowed, log_z, strict=True)]
    scores = []
    for candidates in paths.rows:
        log_scores = [sum(log_p[step] for step in steps) for steps in candidates]
        mass: list[float] = []
        least: list[float] = []
        if legal is not None:
            for steps in candidates:
                logs = [legal[branch_of[step]] for step in steps]
                mass.append(math.exp(sum(logs)))
                least.append(math.exp(min(logs, default=0.0)))
        scores.append(RowScores(log_scores, mass, least))
    return scores


def _log_sum_exp(values: Sequence[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def softmax(log_scores: Sequence[float], temperature: float) -> list[float]:
    """Probabilities of candidates: softmax of log scores ÷ temperature.

    Example:
        >>> softmax([0.0, 0.0], 1.0)
        [0.5, 0.5]
    """
    top = max(log_scores)
    weights = [math.exp((score - top) / temperature) for score in log_scores]
    total = sum(weights)
    return [weight / total for weight in weights]


def reordered(rows: Sequence[RowScores], shown: Sequence[str], spec: Field) -> list[RowScores]:
    """A field's rows with its choices in the caller's order.

    Args:
        rows: As scored.
        shown: The choices in the order they were shown in.
        spec: The caller's field.
    """
    if tuple(shown) == spec.choices:
        return list(rows)
    place = {choice: index for index, choice in enumerate(shown)}
    order = [place[choice] for choice in spec.choices]
    if spec.type == "multi":
        # An option is a row; the count row has no order.
        return [*(rows[index] for index in order), rows[-1]]
    return [RowScores(*([values[index] for index in order] if values else [] for values in _columns(rows[0])))]


def _columns(row: RowScores) -> tuple[list[float], list[float], list[float]]:
    return row.log_scores, row.legal_mass, row.min_legal_mass


def combined(
    rotations: Sequence[tuple[int, Sequence[RowScores]]], prior: Sequence[RowScores] | None
) -> list[RowScores]:
    """One field's rows from all prompts that asked for them, a distribution again.

    Args:
        rotations: Weight and rows of the question itself, then of its rotations, choices in the same order.
        prior: Rows about a text without content, whose log scores are subtracted.

    Returns:
        Average log scores less the prior's; legal mass is the question's own.
    """
    first = rotations[0][1]
    if len(rotations) == 1 and prior is None:
        return list(first)
    total = sum(weight for weight, _ in rotations)
    found = []
    for index, row in enumerate(first):
        scores = [0.0] * len(row.log_scores)
        for weight, rows in rotations:
            for at, score in enumerate(rows[index].log_scores):
                scores[at] += weight / total * score
        if prior is not None:
            scores = [score - less for score, less in zip(scores, prior[index].log_scores, strict=True)]
        norm = _log_sum_exp(scores)
        found.append(replace(row, log_scores=[score - norm for score in scores]))
    return found
