"""What a model said about labelled examples: log scores beside the places of the right answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import Field, Schema
from ..errors import CalibrationError
from ..results import Decision, DecisionError, FieldResult
from .bundle import AnyKind, Made
from .data import Example, target

if TYPE_CHECKING:
    from ..engine import Engine

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FieldTruth:
    """The right answers to one field.

    Attributes:
        name: The field.
        kind: ``"boolean"``, ``"enum"``, ``"ordered"`` or ``"multi"``.
        examples: Shape (n,): which example each answer belongs to.
        truth: Shape (n,), the right choice's place (a boolean's are true, false); for a multi field shape (n, options), 1 where an
            option applies.
    """

    name: str
    kind: AnyKind
    examples: Ints
    truth: Ints

    def at(self, rows: Sequence[int] | Ints) -> FieldTruth:
        """The right answers at these places only."""
        return FieldTruth(self.name, self.kind, self.examples[rows], self.truth[rows])


@dataclass(frozen=True)
class FieldObservations:
    """What the model said about one field, and what is right.

    Attributes:
        labels: The right answers, n of them.
        scores: Shape (n, choices): log scores before any temperature, in nats; for a multi field shape (n, options): log-odds of
            "applies".

    Raises:
        CalibrationError: ``calibration.observations``: shapes do not fit, or a number is out of its range.
    """

    labels: FieldTruth
    scores: Floats

    def __post_init__(self) -> None:
        shape, truth = self.scores.shape, self.labels.truth
        multi = self.labels.kind == "multi"
        fits = len(shape) == 2 and truth.shape == (shape if multi else shape[:1])
        if not fits or not np.isfinite(self.scores).all():
            message = f"log scores are finite numbers, one row per answer and one column per choice; given are {shape}"
            raise CalibrationError("calibration.observations", message, self.labels.name)
        most = 1 if multi else shape[1] - 1
        if truth.size and not (truth.min() >= 0 and truth.max() <= most):
            message = f"right answers are places from 0 to {most}; given are {truth.min()} to {truth.max()}"
            raise CalibrationError("calibration.observations", message, self.labels.name)


@dataclass(frozen=True)
class Observations:
    """What the model said about labelled examples.

    Attributes:
        made_for: What was asked, and how.
        fields: Every field that has labels and more than one answer.
        refused: What could not be decided; such examples are in no field.
    """

    made_for: Made
    fields: tuple[FieldObservations, ...]
    refused: tuple[DecisionError, ...] = ()


def truths(schema: Schema, examples: Sequence[Example]) -> list[FieldTruth]:
    """The right answers to every field that has labels and more than one answer.

    Example:
        >>> schema = Schema({"urgent": {"type": "boolean"}, "team": {"choices": ["sales", "billing"]}})
        >>> found = truths(schema, [Example("a", {"urgent": False}), Example("b", {"urgent": True, "team": "sales"})])
        >>> [(field.name, field.examples.tolist(), field.truth.tolist()) for field in found]
        [('urgent', [0, 1], [1, 0]), ('team', [1], [0])]
    """
    found = []
    for spec in schema.fields:
        held = [index for index, example in enumerate(examples) if spec.name in example.labels]
        # With one answer there is nothing to be right or wrong about.
        if held and len(spec.choices) != 1:
            answers = [target(spec, examples[index].labels[spec.name]) for index in held]
            found.append(FieldTruth(spec.name, _kind(spec), np.array(held, np.int64), np.array(answers, np.int64)))
    return found


def observe(
    engine: Engine,
    schema: Schema,
    examples: Sequence[Example],
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Observations:
    """Has a model answer labelled examples.

    Args:
        engine: The model.
        schema: What is asked.
        examples: Checked examples, from :func:`jevmlx.calibration.read_examples` or :func:`jevmlx.calibration.checked_examples`.
        progress: Told (examples answered, examples) after each.
        **options: For ``Engine.decide_many``; neither a temperature nor a calibration.

    Raises:
        CalibrationError: ``calibration.option``: a temperature or a calibration was given; ``calibration.refused``: no example
            could be decided.
        JevmlxError: Schema or options are at fault.
    """
    given = [name for name in ("temperature", "calibration") if options.get(name) is not None]
    if given:
        message = f"{given[0]} is what is fitted; leave it out"
        raise CalibrationError("calibration.option", message, given[0])
    # Scores do not depend on it, and it costs a projection on the vocabulary.
    options.setdefault("legal_mass", False)
    decisions: dict[int, Decision] = {}
    refused = []
    results = engine.decide_many(schema, (example.context for example in examples), **options)
    for index, result in enumerate(results):
        if isinstance(result, Decision):
            decisions[index] = result
        else:
            refused.append(result)
        if progress is not None:
            progress(index + 1, len(examples))
    if not decisions:
        why = f"; the first: {refused[0].message} [{refused[0].code}]" if refused else ""
        message = f"none of {len(examples)} examples could be decided{why}"
        raise CalibrationError("calibration.refused", message, "data")
    observed = (_observed(field, decisions) for field in truths(schema, examples))
    fields = tuple(field for field in observed if len(field.scores))
    return Observations(_made_for(next(iter(decisions.values()))), fields, tuple(refused))


def _kind(spec: Field) -> AnyKind:
    return "ordered" if spec.ordered else spec.type


def _observed(labels: FieldTruth, decisions: Mapping[int, Decision]) -> FieldObservations:
    rows = [row for row, index in enumerate(labels.examples.tolist()) if index in decisions]
    kept = labels.at(rows)
    scores = [_scores(decisions[index][labels.name]) for index in kept.examples.tolist()]
    return FieldObservations(kept, np.array(scores, np.float64).reshape(len(rows), -1))


def _scores(result: FieldResult) -> list[float]:
    if result.options is not None:
        return [option.log_odds for option in result.options.values()]
    return list(result.log_scores.values())


def _made_for(decision: Decision) -> Made:
    made = decision.provenance
    return Made(**{name: getattr(made, name) for name in Made.model_fields})
