"""Constraints between fields, solved exactly: the joint assignment of highest total score that satisfies them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import ConstraintError
from .micro import checked
from .parse import CaseConstraint, CaseField, case_fields, parse, shown
from .rows import Row, components, minimal_conflict
from .solver import WORK_LIMIT, Tie, select

_NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class CaseSolution:
    """A joint assignment of the fields decided so far.

    Attributes:
        chosen: Field → index of its value, in schema order.
        overridden: Field → indices of the constraints that moved it from its best value: those that mention it and that the
            best values break; where there is none, all those it is connected with. Only fields that were moved.
        cost: What the constraints cost in total, in micro-nats: score of the best values minus score of the chosen ones.
        costs: Field → its part of the cost; all fields of ``chosen``.
    """

    chosen: Mapping[str, int]
    overridden: Mapping[str, list[int]]
    cost: int
    costs: Mapping[str, int]


@dataclass(frozen=True)
class CaseProgram:
    """A call's constraints between fields, checked.

    Attributes:
        fields: All fields of the schema, in its order.
        constraints: The constraints, in the order given.
    """

    fields: tuple[CaseField, ...]
    constraints: tuple[CaseConstraint, ...]

    @classmethod
    def of(
        cls, constraints: Sequence[Mapping[str, object]], fields: Sequence[tuple[str, str, tuple[object, ...]]]
    ) -> CaseProgram:
        """The program of a call's ``constraints``.

        Args:
            constraints: Objects of type ``implies``, ``requires_parent``, ``excludes`` or ``exclusivity``.
            fields: Per field of the schema, in its order: name, type and what its value may be (True and False, or the
                choices, and ``None`` for none of the above).

        Raises:
            ConstraintError: ``constraints.type``, ``constraints.key``, ``constraints.field`` or ``constraints.value``.

        Example:
            >>> rule = {"type": "implies", "if": {"field": "team", "value": "sales"},
            ...     "then": {"field": "angry", "value": False}}
            >>> program = CaseProgram.of([rule], [("team", "enum", ("sales", "support")),
            ...     ("angry", "boolean", (True, False))])
            >>> solution = program.solve({"team": [-100, -2000], "angry": [-10, -900]})
            >>> dict(solution.chosen), dict(solution.overridden), solution.cost
            ({'team': 0, 'angry': 1}, {'angry': [0]}, 890)
        """
        known = case_fields(fields)
        return cls(known, parse(constraints, known))

    def solve(
        self, scores: Mapping[str, Sequence[int]], frozen: Mapping[str, int] = _NOTHING, limit: float = WORK_LIMIT
    ) -> CaseSolution:
        """The assignment of highest total score; of equal totals, the one with the earlier value in the first field to differ.

        Args:
            scores: Field → micro-nats per value, for every field decided so far. Constraints that mention another field
                are left out.
            frozen: Field → index of the value it must keep; these fields have scores too.
            limit: Work allowed to each connected part, in the solver's deterministic seconds.

        Raises:
            ConstraintError: ``constraints.infeasible``, whose message names conflicting constraints of which none can be
                dropped and the final fields they meet; ``constraints.limit``; ``constraints.scores``.
        """
        case = _case(self, scores, frozen, limit)
        chosen = dict(case.best)
        for part in case.parts():
            found = case.solve_part(part)
            if found is None:
                raise _infeasible(case)
            chosen |= found
        costs = {name: case.scores[name][case.best[name]] - case.scores[name][at] for name, at in chosen.items()}
        return CaseSolution(
            MappingProxyType(chosen),
            MappingProxyType(case.explained(chosen)),
            sum(costs.values()),
            MappingProxyType(costs),
        )


@dataclass(frozen=True)
class _Case:
    """One solve: the fields decided so far and the constraints between them.

    Attributes:
        fields: Field → field, in schema order.
        scores: Field → micro-nats per value.
        frozen: Field → index of the value it keeps.
        best: Field → index of its first best value, or of the value it keeps.
        active: Index → constraint.
        limit: Work allowed to each connected part.
    """

    fields: Mapping[str, CaseField]
    scores: Mapping[str, Sequence[int]]
    frozen: Mapping[str, int]
    best: Mapping[str, int]
    active: Mapping[int, CaseConstraint]
    limit: float

    def broken(self) -> list[int]:
        """The constraints that the best values break."""
        items = {self.fields[name].first + at for name, at in self.best.items()}
        return [index for index, constraint in self.active.items() if not constraint.row.holds(items)]

    def parts(self) -> list[list[int]]:
        """Constraints in connected parts, those of one part sharing fields that may still change.

        A constraint whose fields are all frozen is a part of its own.
        """
        order = list(self.fields)
        free = {order.index(name) for name in self.fields if name not in self.frozen}
        groups = {
            index: [order.index(name) for name in constraint.fields if name not in self.frozen]
            for index, constraint in self.active.items()
        }
        by_part: dict[int, list[int]] = {}
        part_of = {at: part[0] for part in components(groups.values(), free) for at in part}
        for index, group in groups.items():
            by_part.setdefault(part_of[group[0]] if group else -1 - index, []).append(index)
        return list(by_part.values())

    def explained(self, chosen: Mapping[str, int]) -> dict[str, list[int]]:
        """Why each moved field was moved."""
        moved = [name for name, at in chosen.items() if at != self.best[name]]
        broken = self.broken() if moved else []
        parts = self.parts() if moved else []
        why = {}
        for name in moved:
            near = [index for index in broken if name in self.active[index].fields]
            # A field that was moved is free, and so in one part only.
            why[name] = near or next(part for part in parts if name in self._names(part))
        return why

    def _names(self, part: Sequence[int]) -> list[str]:
        mentioned = {name for index in part for name in self.active[index].fields}
        return [name for name in self.fields if name in mentioned]

    def solve_part(self, part: Sequence[int], best: bool = True) -> dict[str, int] | None:
        """The best values of the fields of some constraints, or any with ``best=False``; ``None`` where there are none.

        Each field brings the values that the constraints mention and the first best of the others: another value could only
        be worse, or equal and later.
        """
        rows = [self.active[index].row for index in part]
        items = {self.fields[name].first + at for name, at in self.best.items()}
        if all(row.holds(items) for row in rows):
            return {}
        names = self._names(part)
        mentioned = {item for row in rows for item in row.items}
        kept = {name: self._kept(name, mentioned) for name in names}
        place = {item: at for at, item in enumerate(item for name in names for item in kept[name])}
        ones = [Row(tuple(place[item] for item in kept[name]), least=1, most=1) for name in names]
        moved = [
            Row(
                tuple(place[item] for item in row.plus if item in place),
                tuple(place[item] for item in row.minus if item in place),
                row.least,
                row.most,
            )
            for row in rows
        ]
        score, ties = self._goals(kept, place) if best else ([0] * len(place), [])
        selected = select(len(place), ones + moved, score, ties, self.limit, "constraints")
        if selected is None:
            return None
        return {
            name: item - self.fields[name].first for name in names for item in kept[name] if place[item] in selected
        }

    def _kept(self, name: str, mentioned: set[int]) -> list[int]:
        field, scores = self.fields[name], self.scores[name]
        if name in self.frozen:
            return [field.first + self.frozen[name]]
        others = [item for item in field.items if item not in mentioned]
        first_best = max(others, key=lambda item: scores[item - field.first], default=None)
        return [item for item in field.items if item in mentioned or item == first_best]

    def _goals(self, kept: Mapping[str, Sequence[int]], place: Mapping[int, int]) -> tuple[list[int], list[Tie]]:
        score = [0] * len(place)
        ties = []
        for name, items in kept.items():
            values = [self.scores[name][item - self.fields[name].first] for item in items]
            rank = [0] * len(place)
            for at, item in enumerate(items):
                # Only differences within a field count, and small numbers are easier to bound.
                score[place[item]] = values[at] - max(values)
                rank[place[item]] = -at
            ties.append(Tie(tuple(rank), len(items) - 1))
        return score, ties


def _case(program: CaseProgram, scores: Mapping[str, Sequence[int]], frozen: Mapping[str, int], limit: float) -> _Case:
    """Checks what a solve is given.

    Raises:
        ConstraintError: ``constraints.scores``.
    """
    known = {field.name: field for field in program.fields if field.type != "multi"}
    for name in scores:
        if name not in known:
            raise ConstraintError("constraints.scores", f"{shown(name)} is no boolean or enum field", str(name))
    fields = {name: field for name, field in known.items() if name in scores}
    numbers = {name: checked(scores[name], len(field.values), name) for name, field in fields.items()}
    for name, at in frozen.items():
        if name not in fields or not isinstance(at, int) or not 0 <= at < len(fields[name].values):
            message = f"{shown(name)} cannot be frozen at {shown(at)}: it needs scores, and the index of one of them"
            raise ConstraintError("constraints.scores", message, str(name))
    best = {name: frozen.get(name, values.index(max(values))) for name, values in numbers.items()}
    active = {index: one for index, one in enumerate(program.constraints) if one.fields <= fields.keys()}
    return _Case(fields, numbers, dict(frozen), best, active, limit)


def _infeasible(case: _Case) -> ConstraintError:
    """The error that names what conflicts: constraints first, then the frozen fields without which they would not."""

    def conflicts(some: Sequence[int], frozen: Mapping[str, int]) -> bool:
        values = {name: frozen.get(name, case.best[name]) for name in case.fields}
        active = {index: case.active[index] for index in some}
        part = _Case(case.fields, case.scores, frozen, values, active, case.limit)
        return any(part.solve_part(one, best=False) is None for one in part.parts())

    everything = list(case.active)
    # Where the constraints conflict by themselves, no frozen field is to blame.
    frozen = {} if conflicts(everything, _NOTHING) else case.frozen
    guilty = minimal_conflict(everything, lambda some: conflicts(some, frozen))
    order = [name for name in case.fields if name in frozen]
    at = minimal_conflict(
        range(len(order)), lambda some: conflicts(guilty, {order[index]: frozen[order[index]] for index in some})
    )
    named = "; ".join(case.active[index].text for index in guilty)
    message = f"no answer satisfies these together: {named}"
    for name in (order[index] for index in at):
        value = shown(case.fields[name].values[frozen[name]])
        message += f"; {shown(name)} was final at {value} because another field was conditioned on it"
    return ConstraintError("constraints.infeasible", f"{message}; drop or relax one of them", "constraints")
