"""From branch logits to values: pure arithmetic in float64, the same for every face and every backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ._core import Field, Layout
from .results import Choice, CountResult, FieldResult, OptionResult

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# An option is selected when P(applies) reaches this.
SELECT_AT = 0.5
# The count row overrules the threshold from this top-two margin on, in nats.
COUNT_MARGIN = 0.7
# The count row's last answer means this many or more.
COUNT_CEILING = 4
COUNT_CODES = ("0", "1", "2", "3", "4")


@dataclass(frozen=True)
class Paths:
    """How branch logits add up to candidates, as int32 arrays; see ``jevmlx_core::Layout``.

    Attributes:
        branch_offsets: Slices of the allowed tokens per branch, shape (branches + 1,).
        row_offsets: Slices of the candidates per row, shape (rows + 1,).
        step_offsets: Slices of ``steps`` per candidate, shape (candidates + 1,).
        steps: Indices into the allowed tokens, shape (steps,).
    """

    branch_offsets: Ints
    row_offsets: Ints
    step_offsets: Ints
    steps: Ints

    @classmethod
    def of(cls, layout: Layout) -> Paths:
        """The paths of a plan's layout."""
        names = ("branch_offsets", "row_offsets", "step_offsets", "steps")
        return cls(*(np.frombuffer(getattr(layout, name), np.int32) for name in names))


@dataclass(frozen=True)
class RowScores:
    """One row: its candidates' log scores in nats, and the legal mass along each one's path (``None`` if not asked for)."""

    log_scores: Floats
    legal_mass: Floats | None
    min_legal_mass: Floats | None


def row_scores(paths: Paths, logits: NDArray[np.float32], log_z: NDArray[np.float32] | None) -> list[RowScores]:
    """Log scores of every row's candidates.

    Args:
        paths: The plan's paths.
        logits: Logits of the allowed tokens, float32, shape (allowed,).
        log_z: Log-sum-exp over the whole vocabulary per branch, float32, shape (branches,), or ``None``.

    Returns:
        One entry per row, in plan order.
    """
    z = logits.astype(np.float64)
    starts = paths.branch_offsets[:-1]
    branch_of = np.repeat(np.arange(len(starts)), np.diff(paths.branch_offsets))
    if len(starts):
        top = np.maximum.reduceat(z, starts)
        total = np.add.reduceat(np.exp(z - top[branch_of]), starts)
        log_allowed = top + np.log(total)
    else:
        log_allowed = np.zeros(0)
    log_p = z - log_allowed[branch_of]
    scores = _along(paths, log_p[paths.steps], np.add, 0.0)
    mass = least = None
    if log_z is not None:
        # Rounding can put the allowed tokens above the whole vocabulary by an ulp.
        log_mass = np.minimum(log_allowed - log_z.astype(np.float64), 0.0)[branch_of[paths.steps]]
        mass = np.exp(_along(paths, log_mass, np.add, 0.0))
        least = np.exp(_along(paths, log_mass, np.minimum, 0.0))
    bounds = list(zip(paths.row_offsets[:-1].tolist(), paths.row_offsets[1:].tolist(), strict=True))
    return [
        RowScores(
            scores[a:b],
            None if mass is None else mass[a:b],
            None if least is None else least[a:b],
        )
        for a, b in bounds
    ]


def _along(paths: Paths, values: Floats, combine: np.ufunc, empty: float) -> Floats:
    """Combines the values of each candidate's steps; a candidate without steps gets ``empty``."""
    out = np.full(len(paths.step_offsets) - 1, empty)
    taken = np.diff(paths.step_offsets) > 0
    if taken.any():
        out[taken] = combine.reduceat(values, paths.step_offsets[:-1][taken])
    return out


def softmax(log_scores: Floats, temperature: float) -> Floats:
    """Probabilities of candidates: softmax of log scores ÷ temperature."""
    scaled = log_scores / temperature
    weights = np.exp(scaled - scaled.max())
    return np.asarray(weights / weights.sum(), np.float64)


def field_result(field: Field, rows: Sequence[RowScores], temperature: float) -> FieldResult:
    """The answer to one field.

    Args:
        field: The field.
        rows: Its rows: one for a boolean or enum; one per option and the count row for a multi field.
        temperature: What log scores are divided by.
    """
    if field.type == "multi":
        return _multi(field, rows, temperature)
    return _scalar(field, rows[0], temperature)


def _scalar(field: Field, row: RowScores, temperature: float) -> FieldResult:
    choices: tuple[Choice, ...] = (True, False) if field.type == "boolean" else field.choices
    p = softmax(row.log_scores, temperature)
    # argmax takes the first of equals: ties go to the earlier choice.
    best = int(row.log_scores.argmax())
    margin, p_margin = _margin(row.log_scores), _margin(p)
    return FieldResult(
        name=field.name,
        type=field.type,
        value=choices[best],
        probability=float(p[best]),
        probabilities=MappingProxyType(dict(zip(choices, p.tolist(), strict=True))),
        log_scores=MappingProxyType(dict(zip(choices, row.log_scores.tolist(), strict=True))),
        log_score_margin=margin,
        probability_margin=p_margin,
        confidence=confidence(p, field.ordered),
        legal_mass=_pick(row.legal_mass, best),
        min_legal_mass=_pick(row.min_legal_mass, best),
    )


def _margin(values: Floats) -> float | None:
    if len(values) < 2:
        return None
    second, first = np.partition(values, -2)[-2:]
    return float(first - second)


def _pick(values: Floats | None, index: int) -> float | None:
    return None if values is None else float(values[index])


def confidence(p: Floats, ordered: bool) -> float:
    """How far a distribution is from knowing nothing, 0–1; the public conformance suite's formulas.

    Args:
        p: Probabilities, shape (n,).
        ordered: Whether the choices are a scale.
    """
    n = len(p)
    if n == 1:
        return 1.0
    if not ordered:
        return float((p.max() - 1 / n) / (1 - 1 / n))
    levels = np.arange(n)
    uniform = np.abs(levels - (n - 1) / 2).sum() / n
    return float(max(0.0, 1 - (p * np.abs(levels - p.argmax())).sum() / uniform))


def _multi(field: Field, rows: Sequence[RowScores], temperature: float) -> FieldResult:
    options, count = rows[:-1], rows[-1]
    p = np.array([softmax(row.log_scores, temperature)[0] for row in options])
    chosen, applied = _reconcile(p, count)
    results = {}
    for index, (choice, row) in enumerate(zip(field.choices, options, strict=True)):
        winner = int(row.log_scores.argmax())
        results[choice] = OptionResult(
            selected=bool(chosen[index]),
            probability=float(p[index]),
            log_score=float(row.log_scores[0]),
            legal_mass=_pick(row.legal_mass, winner),
            min_legal_mass=_pick(row.min_legal_mass, winner),
        )
    count_p = softmax(count.log_scores, 1.0)
    return FieldResult(
        name=field.name,
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
        threshold_distance=float(np.abs(p - SELECT_AT).min()),
        options=MappingProxyType(results),
        count=CountResult(
            MappingProxyType(dict(zip(COUNT_CODES, count_p.tolist(), strict=True))),
            _margin(count.log_scores) or 0.0,
            applied,
        ),
    )


def _least(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def _reconcile(p: Floats, count: RowScores) -> tuple[NDArray[np.bool_], bool]:
    """Threshold first; a sure count row then says how many of the likeliest options are taken."""
    chosen = p >= SELECT_AT
    selected = int(chosen.sum())
    answer = int(count.log_scores.argmax())
    if (_margin(count.log_scores) or 0.0) < COUNT_MARGIN:
        return chosen, False
    if answer == COUNT_CEILING:
        answer = max(answer, selected)
    k = min(answer, len(p))
    if k == selected:
        return chosen, False
    taken = np.zeros(len(p), bool)
    # A stable sort keeps the earlier of equally likely options first.
    taken[np.argsort(-p, kind="stable")[:k]] = True
    return taken, True
