"""From log scores to answers: values, probabilities and margins of one field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._core import Field
from .constraints import SetProgram, micro_nats
from .policy import Threshold
from .results import Choice, CountResult, FieldResult, LevelResult, OptionResult, Overridden
from .rows import RowScores, softmax

if TYPE_CHECKING:
    from .calibration import Calibration

# An option is selected when P(applies) reaches this.
SELECT_AT = 0.5
# The count row overrules the threshold from this top-two margin on, in nats.
COUNT_MARGIN = 0.7
# The count row's last answer means this many or more.
COUNT_CEILING = 4
COUNT_CODES = ("0", "1", "2", "3", "4")


@dataclass(frozen=True)
class Scale:
    """What becomes of log scores at the end: one division, or a calibration.

    Attributes:
        temperature: What log scores are divided by where there is no calibration.
        calibration: Temperatures per kind of field, and how a multi field's log-odds are mapped.
    """

    temperature: float
    calibration: Calibration | None = None

    def of_choices(self, spec: Field, log_scores: Sequence[float]) -> list[float]:
        """Probabilities of a boolean's or enum's choices."""
        if self.calibration is None:
            return softmax(log_scores, self.temperature)
        return softmax(log_scores, self.calibration.temperature("ordered" if spec.ordered else spec.type))

    def of_option(self, log_scores: Sequence[float]) -> tuple[float, float]:
        """P(applies) and its log-odds for an option's two answers."""
        applies, not_ = log_scores
        if self.calibration is None:
            return softmax(log_scores, self.temperature)[0], (applies - not_) / self.temperature
        log_odds = self.calibration.log_odds(applies - not_)
        return softmax((log_odds, 0.0), 1.0)[0], log_odds


@dataclass(frozen=True)
class Pick:
    """Which choice of a boolean or enum was taken.

    Attributes:
        index: The choice.
        overridden: Why it is not the likeliest one.
    """

    index: int
    overridden: Overridden | None = None


def choices_of(spec: Field) -> tuple[Choice, ...]:
    """What a field's probabilities are keyed by."""
    return (True, False) if spec.type == "boolean" else spec.choices


def value_of(spec: Field, index: int) -> bool | str | None:
    """The value that a choice stands for."""
    if spec.none_of_above and index == len(spec.choices) - 1:
        return None
    return choices_of(spec)[index]


def likeliest(log_scores: Sequence[float]) -> int:
    """The choice of the highest log score; of equals the earlier."""
    return log_scores.index(max(log_scores))


def scalar_result(
    name: str, spec: Field, row: RowScores, scale: Scale, pick: Pick, thresholds: Sequence[Threshold]
) -> FieldResult:
    """The answer to a boolean or enum field.

    Args:
        name: What the caller calls it.
        spec: The field.
        row: Its log scores.
        scale: What becomes of them.
        pick: Which choice was taken.
        thresholds: What the answer must reach.
    """
    p = scale.of_choices(spec, row.log_scores)
    index = pick.index
    others = [score for at, score in enumerate(row.log_scores) if at != index]
    margin = row.log_scores[index] - max(others) if others else math.inf
    status, reason = _judged(thresholds, p[index], margin)
    value = value_of(spec, index)
    choices = choices_of(spec)
    return FieldResult(
        name=name,
        type=spec.type,
        value=None if status == "abstain" else value,
        status=status,
        reason=reason,
        raw_value=value_of(spec, likeliest(row.log_scores)),
        overridden=pick.overridden,
        probability=p[index],
        probabilities=dict(zip(choices, p, strict=True)),
        log_scores=dict(zip(choices, row.log_scores, strict=True)),
        log_score_margin=_margin(row.log_scores),
        probability_margin=_margin(p),
        confidence=confidence(p, spec.ordered),
        legal_mass=row.legal_mass[index] if row.legal_mass else None,
        min_legal_mass=row.min_legal_mass[index] if row.min_legal_mass else None,
        level=_level(p, index) if spec.ordered else None,
    )


def _judged(thresholds: Sequence[Threshold], probability: float, margin: float) -> tuple[Any, str | None]:
    """The status and the reason for it."""
    for threshold in thresholds:
        reason = threshold.failed(probability, margin)
        if reason is not None:
            return threshold.otherwise, reason
    return "decided", None


def _level(p: Sequence[float], index: int) -> LevelResult:
    expected = sum(level * probability for level, probability in enumerate(p))
    variance = sum((level - expected) ** 2 * probability for level, probability in enumerate(p))
    return LevelResult(
        index=index,
        expected_index=expected,
        expected_fraction=expected / (len(p) - 1) if len(p) > 1 else 0.0,
        spread=math.sqrt(variance),
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


def multi_result(
    name: str,
    spec: Field,
    rows: Sequence[RowScores],
    scale: Scale,
    program: SetProgram | None,
    thresholds: Sequence[Threshold],
) -> FieldResult:
    """The answer to a multi field.

    Args:
        name: What the caller calls it.
        spec: The field.
        rows: One per option, then the count row.
        scale: What becomes of their log scores.
        program: Constraints on which options go together.
        thresholds: What the closest call must reach.

    Raises:
        ConstraintError: ``constraints.limit``.
    """
    options, count = rows[:-1], rows[-1]
    scaled = [scale.of_option(row.log_scores) for row in options]
    proposal, applied = _reconcile(scaled, count, calibrated=scale.calibration is not None)
    chosen, overridden = _constrained(spec, scaled, proposal, program)
    distance = min(abs(p - SELECT_AT) for p, _ in scaled)
    margin = min(abs(row.log_scores[0] - row.log_scores[1]) for row in options)
    status, reason = _judged(thresholds, SELECT_AT + distance, margin)
    results = {}
    for index, (choice, row) in enumerate(zip(spec.choices, options, strict=True)):
        answer = likeliest(row.log_scores)
        results[choice] = OptionResult(
            selected=index in chosen,
            probability=scaled[index][0],
            log_score=row.log_scores[0],
            log_odds=scaled[index][1],
            legal_mass=row.legal_mass[answer] if row.legal_mass else None,
            min_legal_mass=row.min_legal_mass[answer] if row.min_legal_mass else None,
        )
    return FieldResult(
        name=name,
        type="multi",
        value=None if status == "abstain" else _selection(spec, chosen),
        status=status,
        reason=reason,
        raw_value=_selection(spec, proposal),
        overridden=overridden,
        probability=None,
        probabilities={choice: result.probability for choice, result in results.items()},
        log_scores={choice: result.log_score for choice, result in results.items()},
        log_score_margin=None,
        probability_margin=None,
        confidence=None,
        legal_mass=_least([result.legal_mass for result in results.values()]),
        min_legal_mass=_least([result.min_legal_mass for result in results.values()]),
        threshold_distance=distance,
        options=results,
        count=CountResult(
            # The count row is judged at temperature 1, whatever the options' is.
            probabilities=dict(zip(COUNT_CODES, softmax(count.log_scores, 1.0), strict=True)),
            log_score_margin=_margin(count.log_scores) or 0.0,
            applied=applied,
        ),
    )


def _selection(spec: Field, chosen: set[int]) -> tuple[str, ...]:
    return tuple(choice for index, choice in enumerate(spec.choices) if index in chosen)


def _least(values: Sequence[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _reconcile(scaled: Sequence[tuple[float, float]], count: RowScores, *, calibrated: bool) -> tuple[set[int], bool]:
    """Threshold first; a sure count row then says how many of the likeliest options are taken."""
    chosen = {index for index, (p, odds) in enumerate(scaled) if (odds > 0 if calibrated else p >= SELECT_AT)}
    if (_margin(count.log_scores) or 0.0) < COUNT_MARGIN:
        return chosen, False
    answer = likeliest(count.log_scores)
    if answer == COUNT_CEILING:
        answer = max(answer, len(chosen))
    k = min(answer, len(scaled))
    if k == len(chosen):
        return chosen, False
    # A stable sort keeps the earlier of equally likely options first.
    ranked = sorted(range(len(scaled)), key=lambda index: -scaled[index][0])
    return set(ranked[:k]), True


def _constrained(
    spec: Field, scaled: Sequence[tuple[float, float]], proposal: set[int], program: SetProgram | None
) -> tuple[set[int], Overridden | None]:
    """The proposal, or the best selection that the constraints allow."""
    if program is None or not (broken := program.broken(proposal)):
        return proposal, None
    odds = [log_odds for _, log_odds in scaled]
    chosen = set(program.solve([micro_nats(value) for value in odds], proposal))
    cost = math.fsum(odds[index] for index in proposal) - math.fsum(odds[index] for index in chosen)
    by = tuple(f"set_constraints[{index}]: {spec.set_constraints[index]['type']}" for index in broken)
    return chosen, Overridden(by=by, cost=cost)
