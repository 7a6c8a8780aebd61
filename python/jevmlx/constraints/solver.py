"""The exact solver: CP-SAT on whole numbers, one worker, one seed, limited by counted work and never by a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ConstraintError
from .rows import Row

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

# Work one question to the solver may take, in its deterministic seconds: each is one or two seconds of one core.
WORK_LIMIT = 10.0
# The magnitudes of a merged objective's coefficients sum to less than this: what the solver's linear bounds, which are computed in
# 64-bit floats, tell apart with room to spare. Near 2**60 some problems take a thousand times as long.
OBJECTIVE_CAP = 2**40


@dataclass(frozen=True)
class Tie:
    """What decides between equals: the higher sum of the selected items' coefficients.

    Attributes:
        coefficients: One per item.
        spread: No two selections that satisfy the rows differ by more than this.
    """

    coefficients: tuple[int, ...]
    spread: int


def select(
    count: int, rows: Sequence[Row], score: Sequence[int], ties: Sequence[Tie], limit: float, path: str
) -> set[int] | None:
    """The selection of items that satisfies every row and has the highest score; of equals the best by the first tie, and so on.

    Args:
        count: Number of items.
        rows: What must hold.
        score: What each item adds to the score.
        ties: The most important first.
        limit: Work allowed in all, in deterministic seconds.
        path: Where the constraints were given, for the error.

    Returns:
        The selected items, or ``None`` where no selection satisfies the rows.

    Raises:
        ConstraintError: ``constraints.limit``.

    Example:
        >>> select(2, [Row((0, 1), most=1)], (3, 3), [Tie((0, 1), 1)], WORK_LIMIT, "")
        {1}
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    items = [model.new_bool_var("") for _ in range(count)]
    for row in rows:
        _add(model, items, row)
    selected: set[int] = set()
    left = limit
    # The score stands alone: in one objective with the ties, its own small numbers would no longer bound the search.
    for coefficients in (score, *merged(ties)):
        total = cp_model.LinearExpr.weighted_sum(items, coefficients)
        model.maximize(total)
        solver = _solver(left)
        status = solver.solve(model)
        if status == cp_model.INFEASIBLE:
            return None
        if status != cp_model.OPTIMAL:
            raise ConstraintError(
                "constraints.limit",
                f"no proven answer within {limit:g} units of work for {count} connected choices, and an unproven one is never "
                "given; use fewer constraints, or make them connect fewer choices",
                path,
            )
        left = max(0.0, left - solver.response_proto.deterministic_time)
        selected = {item for item, value in enumerate(items) if solver.boolean_value(value)}
        # What comes next may not give up anything of this.
        model.add(total == sum(coefficients[item] for item in selected))
    return selected


def merged(ties: Sequence[Tie]) -> list[tuple[int, ...]]:
    """Fewer objectives that rank the same: neighbours as one weighted sum, as far as it stays below the cap.

    Returns:
        Coefficients per objective, the most important first.

    Example:
        >>> merged([Tie((5, -5), 10), Tie((1, 1), 2)])
        [(16, -14)]
    """
    objectives: list[tuple[int, ...]] = []
    for tie in ties:
        if objectives:
            weight = tie.spread + 1
            joined = tuple(a * weight + b for a, b in zip(objectives[-1], tie.coefficients, strict=True))
            if sum(map(abs, joined)) < OBJECTIVE_CAP:
                objectives[-1] = joined
                continue
        objectives.append(tie.coefficients)
    return objectives


def _add(model: cp_model.CpModel, items: Sequence[cp_model.IntVar], row: Row) -> None:
    """States a row; clauses as clauses, which the solver handles better than sums."""
    from ortools.sat.python import cp_model

    plus, minus = [items[item] for item in row.plus], [items[item] for item in row.minus]
    if row.least is None and row.most == 0 and len(plus) == 1:
        model.add_bool_or([~plus[0], *minus])
    elif row.least is None and row.most == 1 and not minus:
        model.add_at_most_one(plus)
    elif row.least == 1 and row.most is None and not minus:
        model.add_bool_or(plus)
    elif row.least == row.most == 1 and not minus:
        model.add_exactly_one(plus)
    else:
        least = -len(minus) if row.least is None else row.least
        most = len(plus) if row.most is None else row.most
        total = cp_model.LinearExpr.weighted_sum(plus + minus, [1] * len(plus) + [-1] * len(minus))
        model.add_linear_constraint(total, least, most)


def _solver(limit: float) -> cp_model.CpSolver:
    """A solver that gives the same answer every time."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = 1
    parameters.max_deterministic_time = limit
    parameters.absolute_gap_limit = 0.0
    # The models are small: presolve costs more than it saves, and strong linear bounds save most of the search.
    parameters.cp_model_presolve = False
    parameters.linearization_level = 2
    # The caller's handling of Ctrl-C stays in place.
    parameters.catch_sigint_signal = False
    return solver
