"""How good probabilities are: accuracy, likelihood, Brier score, calibration error, each with a bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .bundle import Bin, Interval, Metrics
from .fit import log_softmax
from .observe import Floats, Ints

BINS = 15
# Bootstrap: resamples, their seed, and how many are held in memory at a time.
RESAMPLES = 1000
SEED = 0
_AT_A_TIME = 100
# The middle 95 % of the resamples.
_ENDS = (2.5, 97.5)


@dataclass(frozen=True)
class Outcomes:
    """Answers beside what was right; all of shape (answers,).

    Attributes:
        examples: Which example an answer belongs to; what is resampled.
        correct: Whether the likeliest answer was the right one, 0 or 1.
        nll: Negative log-likelihood of the right answer, in nats.
        brier: Squared distance of the probabilities from the right answer.
        stated: The probability that calibration is judged by: of the likeliest choice; for an option that it applies.
        right: Whether what it is the probability of is so, 0 or 1.
    """

    examples: Ints
    correct: Floats
    nll: Floats
    brier: Floats
    stated: Floats
    right: Floats


def choice_outcomes(examples: Ints, scores: Floats, truth: Ints, temperature: float) -> Outcomes:
    """Outcomes of boolean and enum fields.

    Args:
        examples: Shape (answers,).
        scores: Shape (answers, choices): log scores; −∞ where a field has fewer choices than others.
        truth: Shape (answers,): the right choices' places.
        temperature: What log scores are divided by.
    """
    rows = np.arange(len(truth))
    log_p = log_softmax(scores / temperature)
    p = np.exp(log_p)
    correct = (scores.argmax(axis=1) == truth).astype(np.float64)
    brier = (p**2).sum(axis=1) - 2 * p[rows, truth] + 1
    return Outcomes(examples, correct, -log_p[rows, truth], brier, p.max(axis=1), correct)


def option_outcomes(examples: Ints, log_odds: Floats, applies: Ints) -> Outcomes:
    """Outcomes of a multi field's options: one answer per option.

    Args:
        examples: Shape (answers,).
        log_odds: Shape (answers,): of "applies", calibrated, in nats.
        applies: Shape (answers,): 1 where the option applies.
    """
    p = 0.5 + 0.5 * np.tanh(log_odds / 2)
    nll = np.logaddexp(0.0, np.where(applies == 1, -log_odds, log_odds))
    correct = ((log_odds > 0) == (applies == 1)).astype(np.float64)
    return Outcomes(examples, correct, nll, (p - applies) ** 2, p, applies.astype(np.float64))


def width_bins(stated: Floats, bins: int = BINS) -> Ints:
    """Each probability's bin, of equal width; 1 falls into the last one."""
    return np.minimum((stated * bins).astype(np.int64), bins - 1)


def mass_bins(stated: Floats, bins: int = BINS) -> Ints:
    """Each probability's bin, by the share of probabilities below it; equal ones stay together."""
    below = np.searchsorted(np.sort(stated), stated, side="left")
    return below.astype(np.int64) * bins // max(len(stated), 1)


def diagram_bins(outcomes: Outcomes) -> tuple[Bin, ...]:
    """The bins of equal width that hold an answer."""
    where = width_bins(outcomes.stated)
    found = []
    for index in np.unique(where).tolist():
        held = where == index
        stated, right = float(outcomes.stated[held].mean()), float(outcomes.right[held].mean())
        found.append(Bin(index=index, count=int(held.sum()), stated=stated, right=right))
    return tuple(found)


def metrics(outcomes: Outcomes, resamples: int = RESAMPLES) -> Metrics:
    """All figures, each with the middle 95 % of its values over resampled examples.

    An example is drawn with all its answers. Bins are those of the examples themselves. The seed is fixed, so the same outcomes
    give the same intervals, and what is measured before and after a fit is measured on the same resamples.

    Args:
        outcomes: One answer or more.
        resamples: How often examples are drawn anew.
    """
    sums, count = _sums(outcomes)
    value = _figures(np.ones((1, sums.shape[0])), sums)
    rng = np.random.default_rng(SEED)
    drawn = []
    for start in range(0, resamples, _AT_A_TIME):
        times = rng.multinomial(count, np.full(count, 1 / count), size=min(_AT_A_TIME, resamples - start))
        drawn.append(_figures(times.astype(np.float64), sums))
    low, high = np.percentile(np.concatenate(drawn), _ENDS, axis=0)
    names = ("accuracy", "nll", "brier", "ece_width", "ece_mass")
    found = zip(names, value[0].tolist(), low.tolist(), high.tolist(), strict=True)
    return Metrics(**{name: Interval(value=v, low=a, high=b) for name, v, a, b in found})


def _sums(outcomes: Outcomes) -> tuple[Floats, int]:
    """Per example, what all figures are made of: answers, three sums, and the gap (right − stated) of every bin.

    Every figure of a resample then comes from one product of how often each example was drawn with these columns.
    """
    unique, example = np.unique(outcomes.examples, return_inverse=True)
    count = len(unique)

    def summed(values: Floats) -> Floats:
        return np.bincount(example, values, count)[:, None].astype(np.float64)

    gap = outcomes.right - outcomes.stated
    columns = [summed(np.ones(len(example))), summed(outcomes.correct), summed(outcomes.nll), summed(outcomes.brier)]
    for bins in (width_bins(outcomes.stated), mass_bins(outcomes.stated)):
        gaps = np.bincount(example * BINS + bins, gap, count * BINS)
        columns.append(gaps.reshape(count, BINS).astype(np.float64))
    return np.hstack(columns), count


def _figures(times: Floats, sums: Floats) -> Floats:
    """Shape (draws, 5): all figures, from how often each example was drawn, shape (draws, examples)."""
    total = times @ sums
    gaps = np.abs(total[:, 4:]).reshape(len(total), 2, BINS).sum(axis=2)
    return np.hstack([total[:, 1:4], gaps]) / total[:, :1]
