"""All answers to the fields of one kind, which share what is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .bundle import Affine, AnyKind
from .fit import fit_line, fit_temperature
from .metrics import Outcomes, choice_outcomes, option_outcomes
from .observe import FieldObservations, Floats, Ints

# What turns a kind's scores into probabilities: a temperature, or for a multi field's options a line.
Scale = float | Affine


@dataclass(frozen=True)
class Pool:
    """All answers to the fields of one kind.

    Attributes:
        kind: The kind.
        examples: Shape (answers,): which example an answer belongs to.
        scores: Shape (answers, most choices): log scores, −∞ where a field has fewer; for multi fields shape (answers,): the
            log-odds of every option.
        truth: Shape (answers,): the right choice's place; for multi fields 1 where the option applies.
    """

    kind: AnyKind
    examples: Ints
    scores: Floats
    truth: Ints

    @classmethod
    def of(cls, fields: Sequence[FieldObservations]) -> Pool:
        """The answers to one field or more, all of one kind."""
        kind = fields[0].labels.kind
        if kind == "multi":
            examples = [np.repeat(field.labels.examples, field.scores.shape[1]) for field in fields]
            scores = [field.scores.ravel() for field in fields]
            truth = [field.labels.truth.ravel() for field in fields]
        else:
            most = max(field.scores.shape[1] for field in fields)
            examples = [field.labels.examples for field in fields]
            scores = [_padded(field.scores, most) for field in fields]
            truth = [field.labels.truth for field in fields]
        return cls(kind, np.concatenate(examples), np.concatenate(scores), np.concatenate(truth))

    @property
    def unscaled(self) -> Scale:
        """What changes nothing."""
        return Affine(a=1.0, b=0.0) if self.kind == "multi" else 1.0

    def fit(self) -> tuple[Scale, bool]:
        """What makes the right answers likeliest, and whether it is an end of its range."""
        return fit_line(self.scores, self.truth) if self.kind == "multi" else fit_temperature(self.scores, self.truth)

    def outcomes(self, scale: Scale) -> Outcomes:
        """Answers beside what was right."""
        if isinstance(scale, Affine):
            return option_outcomes(self.examples, scale.a * self.scores + scale.b, self.truth)
        return choice_outcomes(self.examples, self.scores, self.truth, scale)


def _padded(scores: Floats, width: int) -> Floats:
    return np.pad(scores, ((0, 0), (0, width - scores.shape[1])), constant_values=-np.inf)
