"""Fitting: the temperature, or the line through log-odds, under which the right answers are likeliest."""

from __future__ import annotations

from math import exp, log

import numpy as np

from .bundle import Affine
from .observe import Floats, Ints

# Range of temperatures and slopes. Labels that a model never or always gets right ask for 0 or infinity; so few labels as people
# have are no reason to believe either.
LEAST, MOST = 0.05, 20.0
# Range of a multi field's offset, in nats.
MOST_OFFSET = 20.0
# A fit this close to an end of its range, in log or in nats, or within this of its loss, has run into it.
_AT_END = 1e-4
_SAME_LOSS = 1e-12


def log_softmax(scores: Floats) -> Floats:
    """Log-probabilities of each row's choices; entries of −∞ are no choices.

    Args:
        scores: Shape (answers, choices), in nats.
    """
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_p: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_p


def choice_nll(scores: Floats, truth: Ints, temperature: float) -> float:
    """Mean negative log-likelihood of the right choices, in nats.

    Args:
        scores: Shape (answers, choices): log scores.
        truth: Shape (answers,): the right choices' places.
        temperature: What log scores are divided by.
    """
    return -float(log_softmax(scores / temperature)[np.arange(len(truth)), truth].mean())


def option_nll(log_odds: Floats, applies: Ints) -> float:
    """Mean negative log-likelihood of what applies and what does not, in nats; arrays of one shape."""
    return float(np.logaddexp(0.0, np.where(applies == 1, -log_odds, log_odds)).mean())


def fit_temperature(scores: Floats, truth: Ints) -> tuple[float, bool]:
    """The temperature of least negative log-likelihood, within :data:`LEAST` … :data:`MOST`.

    Args:
        scores: Shape (answers, choices): log scores; −∞ where a field has fewer choices than others.
        truth: Shape (answers,): the right choices' places.

    Returns:
        The temperature, and whether it is an end of its range.

    Example:
        >>> scores = np.log([[0.9, 0.1]] * 4)  # says 90 %, and is right three times of four
        >>> round(fit_temperature(scores, np.array([0, 0, 0, 1]))[0], 2)
        2.0
    """
    from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

    def loss(log_t: float) -> float:
        return choice_nll(scores, truth, exp(log_t))

    found = minimize_scalar(loss, bounds=(log(LEAST), log(MOST)), method="bounded", options={"xatol": 1e-8})
    best = min((float(found.x), log(LEAST), log(MOST)), key=loss)
    # Scores that say the same at every temperature are left as they are.
    if loss(0.0) <= loss(best) + _SAME_LOSS:
        return 1.0, False
    return exp(best), min(best - log(LEAST), log(MOST) - best) < _AT_END


def fit_line(log_odds: Floats, applies: Ints) -> tuple[Affine, bool]:
    """The line of least negative log-likelihood; its slope is positive, since its logarithm is what is fitted.

    Args:
        log_odds: Of "applies", in nats, shape (answers,).
        applies: Shape (answers,): 1 where the option applies.

    Returns:
        The line, and whether its slope or offset is an end of its range.
    """
    from scipy.optimize import minimize

    def loss(at: Floats) -> tuple[float, Floats]:
        slope = exp(at[0])
        z = slope * log_odds + at[1]
        # Half the hyperbolic tangent is the logistic function without overflow.
        error = 0.5 + 0.5 * np.tanh(z / 2) - applies
        return option_nll(z, applies), np.array([(error * log_odds).mean() * slope, error.mean()])

    ends = np.array([[log(LEAST), log(MOST)], [-MOST_OFFSET, MOST_OFFSET]])
    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=ends, options={"ftol": 1e-14, "gtol": 1e-9})
    best = found.x
    if loss(np.zeros(2))[0] <= loss(best)[0] + _SAME_LOSS:
        return Affine(a=1.0, b=0.0), False
    at_bound = bool((np.abs(ends - best[:, None]) < _AT_END).any())
    return Affine(a=exp(best[0]), b=float(best[1])), at_bound
