"""Constraints between the options of one multi field, solved exactly."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._core import Field
from ..errors import ConstraintError, SchemaError
from .micro import checked
from .rows import Row, components, minimal_conflict
from .solver import WORK_LIMIT, Tie, select

# Rows a search for any satisfying selection repairs, per option, before the solver is asked.
_REPAIRS = 8


@dataclass(frozen=True)
class SetProgram:
    """A multi field's constraints, compiled: they can be satisfied.

    Attributes:
        field: The field's name.
        options: Its choices, in schema order.
        rows: Per constraint, what it demands.
        parts: The options in connected parts, each in schema order.
    """

    field: str
    options: tuple[str, ...]
    rows: tuple[Row, ...]
    parts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, field: Field, limit: float = WORK_LIMIT) -> SetProgram | None:
        """The program of a field's ``set_constraints``; ``None`` where it has none.

        Args:
            field: A field of a checked schema.
            limit: Work allowed to each question to the solver, in the solver's deterministic seconds.

        Raises:
            SchemaError: ``schema.set_constraints.unsatisfiable``; the message names a conflicting subset of which nothing
                can be dropped.
            ConstraintError: ``constraints.limit``.

        Example:
            >>> import jevmlx
            >>> rule = {"type": "at_most_one", "options": ["red", "blue"]}
            >>> schema = jevmlx.Schema({"colours": {"type": "multi", "choices": ["red", "blue", "big"],
            ...     "set_constraints": [rule]}})
            >>> program = SetProgram.of(schema.fields[0])
            >>> sorted(program.solve([2_000_000, 1_500_000, 300_000], {0, 1, 2}))
            [0, 2]
        """
        given = field.set_constraints
        if not given:
            return None
        options = field.choices
        place = {option: index for index, option in enumerate(options)}
        rows = tuple(_row(constraint, place) for constraint in given)
        path = f"{field.name}.set_constraints"

        def conflicts(some: Sequence[int]) -> bool:
            return not _satisfiable(len(options), [rows[index] for index in some], limit, path)

        everything = range(len(rows))
        if conflicts(everything):
            named = "; ".join(
                f"set_constraints[{index}] {json.dumps(given[index], ensure_ascii=False)}"
                for index in minimal_conflict(everything, conflicts)
            )
            raise SchemaError(
                "schema.set_constraints.unsatisfiable",
                f"no selection of options satisfies these together: {named}; drop or relax one of them",
                path,
            )
        parts = components([row.items for row in rows], range(len(options)))
        return cls(field.name, options, rows, tuple(parts))

    def satisfied(self, selected: Collection[int]) -> bool:
        """Whether a selection, as indices of options, breaks nothing."""
        return all(row.holds(selected) for row in self.rows)

    def broken(self, selected: Collection[int]) -> list[int]:
        """The constraints that a selection breaks, by index, in schema order."""
        return [index for index, row in enumerate(self.rows) if not row.holds(selected)]

    def solve(self, micro: Sequence[int], proposal: Collection[int], limit: float = WORK_LIMIT) -> frozenset[int]:
        """The proposal if it satisfies everything; else the best selection that does.

        The best has the highest sum of its options' log-odds; of equal sums it is the one that differs from the proposal in
        fewest options; of those the one that holds the earliest option at which two differ.

        Args:
            micro: Per option, its log-odds in micro-nats (see :func:`micro_nats`).
            proposal: Indices of the options selected without constraints.
            limit: Work allowed to each connected part, in the solver's deterministic seconds.

        Returns:
            Indices of the selected options.

        Raises:
            ConstraintError: ``constraints.scores`` or ``constraints.limit``.
        """
        path = f"{self.field}.set_constraints"
        weights = checked(micro, len(self.options), path)
        proposed = frozenset(proposal)
        if not proposed <= set(range(len(weights))):
            message = f"the proposal {sorted(proposed)} names an option outside 0–{len(weights) - 1}"
            raise ConstraintError("constraints.scores", message, path)
        if self.satisfied(proposed):
            return proposed
        # The parts share no constraint and every criterion adds up over options, so each is solved alone.
        selected: set[int] = set()
        for part in self.parts:
            selected |= self._solve_part(part, weights, proposed, limit, path)
        return frozenset(selected)

    def _solve_part(
        self, part: Sequence[int], weights: Sequence[int], proposed: frozenset[int], limit: float, path: str
    ) -> set[int]:
        inside = set(part)
        rows = [row for row in self.rows if not inside.isdisjoint(row.items)]
        # The best selection with no constraint at all is unique; where it breaks none, it is the answer.
        free = {item for item in part if weights[item] > 0 or (weights[item] == 0 and item in proposed)}
        if all(row.holds(free) for row in rows):
            return free
        place = {item: index for index, item in enumerate(part)}
        count = len(part)
        ties = [
            Tie(tuple(1 if item in proposed else -1 for item in part), count),
            *(Tie(tuple(int(other == item) for other in range(count)), 1) for item in range(count)),
        ]
        score = [weights[item] for item in part]
        selected = select(count, [_moved(row, place) for row in rows], score, ties, limit, path)
        if selected is None:
            raise AssertionError("satisfiability was proven when the program was compiled")
        return {part[index] for index in selected}


def _row(constraint: Mapping[str, Any], place: Mapping[str, int]) -> Row:
    kind = constraint["type"]
    if kind == "implies":
        return Row(plus=(place[constraint["if_option"]],), minus=(place[constraint["then_option"]],), most=0)
    options = tuple(place[option] for option in constraint["options"])
    match kind:
        case "mutually_exclusive" | "at_most_one":
            return Row(options, most=1)
        case "at_least_one":
            return Row(options, least=1)
        case "at_most_k":
            return Row(options, most=constraint["k"])
        case "at_least_k":
            return Row(options, least=constraint["k"])
        case "exact_k":
            return Row(options, least=constraint["k"], most=constraint["k"])
    raise AssertionError(f"the schema lets {kind!r} through, which is not known here")


def _moved(row: Row, place: Mapping[int, int]) -> Row:
    return Row(tuple(place[item] for item in row.plus), tuple(place[item] for item in row.minus), row.least, row.most)


def _satisfiable(count: int, rows: Sequence[Row], limit: float, path: str) -> bool:
    """Whether any selection satisfies the rows; a witness spares loading the solver, which takes a second."""
    return _witness(count, rows) or select(count, rows, [0] * count, [], limit, path) is not None


def _witness(count: int, rows: Sequence[Row]) -> bool:
    """Whether repairing one broken row after the other, from no option selected, reaches a satisfying selection."""
    selected: set[int] = set()
    for _ in range(_REPAIRS * count):
        row = next((row for row in rows if not row.holds(selected)), None)
        if row is None:
            return True
        missing = [item for item in row.plus if item not in selected]
        if row.least is not None and missing and not Row(row.plus, row.minus, least=row.least).holds(selected):
            selected.add(missing[0])
        elif row.minus:
            selected.add(row.minus[0])
        else:
            selected.discard(next(item for item in row.plus if item in selected))
    return False
