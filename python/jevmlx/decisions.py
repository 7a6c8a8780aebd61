"""From branch logits to values: plain double arithmetic, the same for every face and every backend.

The numbers are few (the allowed tokens of one question), so Python floats are as fast here as arrays and easier to follow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ._core import Field, Layout
from .results import Choice, CountResult, FieldResult, OptionResult

# An option is selected when P(applies) reaches this.
SELECT_AT = 0.5
# The count row overrules the threshold from this top-two margin on, in nats.
COUNT_MARGIN = 0.7
# The count row's last answer means this many or more.
COUNT_CEILING = 4
COUNT_CODES = ("0", "1", "2", "3", "4")


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
    log_allowed = [_log_sum_exp([logits[entry] for entry in entries]) for entries in paths.branches]
    log_p = [logit - log_allowed[branch] for logit, branch in zip(logits, paths.branch_of, strict=True)]
    scores = []
    for candidates in paths.rows:
        log_scores = [sum(log_p[step] for step in steps) for steps in candidates]
        mass: list[float] = []
        least: list[float] = []
        if log_z is not None:
            for steps in candidates:
                # Rounding can put the allowed tokens above the whole vocabulary by an ulp.
                logs = [min(log_allowed[b] - log_z[b], 0.0) for b in (paths.branch_of[step] for step in steps)]
                mass.append(math.exp(sum(logs)))
                least.append(math.exp(min(logs, default=0.0)))
        scores.append(RowScores(log_scores, mass, least))
    return scores


def _log_sum_exp(values: list[float]) -> float:
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


def field_result(name: str, field: Field, rows: Sequence[RowScores], temperature: float) -> FieldResult:
    """The answer to one field.

    Args:
        name: What the caller calls it.
        field: The field.
        rows: Its rows: one for a boolean or enum; one per option and the count row for a multi field.
        temperature: What log scores are divided by.
    """
    if field.type == "multi":
        return _multi(name, field, rows, temperature)
    return _scalar(name, field, rows[0], temperature)


def _scalar(name: str, field: Field, row: RowScores, temperature: float) -> FieldResult:
    choices: tuple[Choice, ...] = (True, False) if field.type == "boolean" else field.choices
    p = softmax(row.log_scores, temperature)
    # The first of equals: ties go to the earlier choice.
    best = row.log_scores.index(max(row.log_scores))
    return FieldResult(
        name=name,
        type=field.type,
        value=choices[best],
        probability=p[best],
        probabilities=MappingProxyType(dict(zip(choices, p, strict=True))),
        log_scores=MappingProxyType(dict(zip(choices, row.log_scores, strict=True))),
        log_score_margin=_margin(row.log_scores),
        probability_margin=_margin(p),
        confidence=confidence(p, field.ordered),
        legal_mass=row.legal_mass[best] if row.legal_mass else None,
        min_legal_mass=row.min_legal_mass[best] if row.min_legal_mass else None,
    )


def _margin(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    first, second = sorted(values, reverse=True)[:2]
    return first - second


def confidence(p: Sequence[float], ordered: bool) -> float:
    """How far a distribution is from knowing nothing, 0–1; the public conformance suite's formulas.

    Args:
        p: Probabilities of the choices.
        ordered: Whether the choices are a scale.

    Example:
        >>> confidence([1.0, 0.0], ordered=False), confidence([0.5, 0.5], ordered=True)
        (1.0, 0.0)
    """
    n = len(p)
    if n == 1:
        return 1.0
    if not ordered:
        return (max(p) - 1 / n) / (1 - 1 / n)
    mode = max(range(n), key=p.__getitem__)
    uniform = sum(abs(level - (n - 1) / 2) for level in range(n)) / n
    spread = sum(probability * abs(level - mode) for level, probability in enumerate(p))
    return max(0.0, 1 - spread / uniform)


def _multi(name: str, field: Field, rows: Sequence[RowScores], temperature: float) -> FieldResult:
    options, count = rows[:-1], rows[-1]
    p = [softmax(row.log_scores, temperature)[0] for row in options]
    chosen, applied = _reconcile(p, count)
    results = {}
    for index, (choice, row) in enumerate(zip(field.choices, options, strict=True)):
        winner = row.log_scores.index(max(row.log_scores))
        results[choice] = OptionResult(
            selected=index in chosen,
            probability=p[index],
            log_score=row.log_scores[0],
            legal_mass=row.legal_mass[winner] if row.legal_mass else None,
            min_legal_mass=row.min_legal_mass[winner] if row.min_legal_mass else None,
        )
    return FieldResult(
        name=name,
        type=field.type,
        value=[choice for choice, result in results.items() if result.selected],
        probability=None,
        probabilities=MappingProxyType({choice: result.probability for choice, result in results.items()}),
        log_scores=MappingProxyType({choice: result.log_score for choice, result in results.items()}),
        log_score_margin=None,
        probability_margin=None,
        confidence=None,
        legal_mass=_least([result.legal_mass for result in results.values()]),
        min_legal_mass=_least([result.min_legal_mass for result in results.values()]),
        threshold_distance=min(abs(probability - SELECT_AT) for probability in p),
        options=MappingProxyType(results),
        count=CountResult(
            # The count row is judged at temperature 1, whatever the options' is.
            MappingProxyType(dict(zip(COUNT_CODES, softmax(count.log_scores, 1.0), strict=True))),
            _margin(count.log_scores) or 0.0,
            applied,
        ),
    )


def _least(values: Sequence[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _reconcile(p: Sequence[float], count: RowScores) -> tuple[set[int], bool]:
    """Threshold first; a sure count row then says how many of the likeliest options are taken."""
    chosen = {index for index, probability in enumerate(p) if probability >= SELECT_AT}
    if (_margin(count.log_scores) or 0.0) < COUNT_MARGIN:
        return chosen, False
    answer = count.log_scores.index(max(count.log_scores))
    if answer == COUNT_CEILING:
        answer = max(answer, len(chosen))
    k = min(answer, len(p))
    if k == len(chosen):
        return chosen, False
    # A stable sort keeps the earlier of equally likely options first.
    likeliest = sorted(range(len(p)), key=lambda index: -p[index])
    return set(likeliest[:k]), True
