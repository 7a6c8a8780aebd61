"""One decision in progress: scores come in wave by wave, and values go out.

A field that others depend on is final once they were conditioned on it, so no field is ever conditioned on a value that the answer
does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from .compiled import CompiledWave
from .constraints import CaseProgram, CaseSolution, micro_nats
from .decisions import Pick, Scale, likeliest, multi_result, scalar_result
from .options import Options
from .questions import Asked, Group
from .results import FieldResult, Overridden
from .rows import RowScores, combined, reordered, row_scores
from .scoring.backend import BranchScores, Stats

# Per question of a group: the rows that were scored (the plan's own, or a wave's) and the logits found.
Scored = Sequence[tuple[CompiledWave | None, BranchScores]]


class Deciding:
    """One decision in progress.

    Args:
        asked: What is asked.
        options: How.
        cases: The constraints between fields, if there are any.
        merged: How many contexts share the forward pass; 0 where it is this one's alone.

    Attributes:
        asked: As given.
        merged: As given.
        stats: What scoring cost so far.
        rows: Rows scored so far.
        depth: Later waves there are.
        waves: Per group and question, the hashes of its later waves' plans.
    """

    def __init__(self, asked: Asked, options: Options, cases: CaseProgram | None, merged: int = 0) -> None:
        self.asked = asked
        self.merged = merged
        self._options = options
        self._fields = {name: spec for group in asked.groups for name, spec in group.fields}
        self._rows: dict[str, list[RowScores]] = {}
        self._held: list[tuple[Group, Scored]] = []
        self._frozen: dict[str, int] = {}
        # Why a field that is final now is not at its likeliest value: what was decided later no longer says.
        self._why_frozen: dict[str, list[int]] = {}
        self._cases = cases
        self.stats: list[Stats] = []
        self.rows = 0
        depths = (depth for group in asked.groups for depth in group.questions[0].compiled.depths)
        self._depths = dict(zip(self._fields, depths, strict=True))
        self.depth = max(self._depths.values())
        self.waves: list[list[list[str]]] = [[[] for _ in group.questions] for group in asked.groups]

    def hold(self, at: int, scored: Scored) -> None:
        """Takes the scores of one wave of one group, one entry per question; they are read when they are needed."""
        group = self.asked.groups[at]
        self.stats += [found.stats for _, found in scored]
        for question, hashes, (wave, _) in zip(group.questions, self.waves[at], scored, strict=True):
            self.rows += len((wave or question.compiled).paths.rows)
            if wave is not None:
                hashes.append(wave.plan_hash)
        self._held.append((group, scored))

    def decided(self) -> dict[str, int]:
        """Field → index of the choice decided so far; fields that others depend on are final from now on.

        Raises:
            ConstraintError: No answer satisfies the constraints, given what is final.
        """
        solution = self._solution()
        parents = {spec.depends_on for spec in self._fields.values()}
        chosen = dict(solution.chosen) if solution else self._likeliest()
        for name in chosen.keys() & parents - self._frozen.keys():
            self._frozen[name] = chosen[name]
            self._why_frozen[name] = solution.overridden.get(name, []) if solution else []
        return chosen

    def results(self) -> dict[str, FieldResult]:
        """Every field's answer, in schema order.

        Raises:
            ConstraintError: No answer satisfies the constraints.
        """
        return self._results(self._solution())

    def settled(self) -> dict[str, FieldResult]:
        """The answers that nothing scored later can change: with constraints between fields, none before all are scored.

        Raises:
            ConstraintError: No answer satisfies the constraints.
        """
        self._read()
        if self._cases is not None and len(self._rows) < len(self._fields):
            return {}
        return self.results()

    def _results(self, solution: CaseSolution | None) -> dict[str, FieldResult]:
        """The answers to all fields that were scored."""
        scale = Scale(self._options.temperature or 1.0, self._options.calibration)
        found: dict[str, FieldResult] = {}
        for group in self.asked.groups:
            for (name, spec), program in zip(group.fields, group.questions[0].compiled.programs, strict=True):
                if name not in self._rows:
                    continue
                rows, thresholds = self._rows[name], self._options.thresholds.of_field(name)
                if spec.type == "multi":
                    found[name] = multi_result(name, spec, rows, scale, program, thresholds)
                else:
                    found[name] = scalar_result(name, spec, rows[0], scale, self._pick(name, solution), thresholds)
        return self._without_abstained_parents(found)

    def _read(self) -> None:
        """Turns held logits into rows."""
        for group, scored in self._held:
            rotations: list[tuple[int, dict[str, list[RowScores]]]] = []
            prior = None
            for question, (wave, scores) in zip(group.questions, scored, strict=True):
                shown = question.compiled.fields
                indices = (
                    wave.fields if wave else [at for at, depth in enumerate(question.compiled.depths) if not depth]
                )
                paths = wave.paths if wave else question.compiled.paths
                log_z = None if scores.log_z is None else scores.log_z.tolist()
                rows = iter(row_scores(paths, scores.logits.tolist(), log_z))
                found = {}
                for at in indices:
                    name, spec = group.fields[at]
                    count = len(spec.choices) + 1 if spec.type == "multi" else 1
                    found[name] = reordered([next(rows) for _ in range(count)], shown[at].choices, spec)
                if question.role == "prior":
                    prior = found
                else:
                    rotations.append((question.weight, found))
            for name in rotations[0][1]:
                parts = [(weight, rows[name]) for weight, rows in rotations]
                self._rows[name] = combined(parts, prior[name] if prior else None)
        self._held = []

    def _likeliest(self) -> dict[str, int]:
        return {
            name: likeliest(self._rows[name][0].log_scores)
            for name, spec in self._fields.items()
            if name in self._rows and spec.type != "multi"
        }

    def _solution(self) -> CaseSolution | None:
        self._read()
        if self._cases is None:
            return None
        scores = {name: [micro_nats(s) for s in self._rows[name][0].log_scores] for name in self._likeliest()}
        return self._cases.solve(scores, self._frozen)

    def _pick(self, name: str, solution: CaseSolution | None) -> Pick:
        row = self._rows[name][0]
        best = likeliest(row.log_scores)
        index = best if solution is None else solution.chosen[name]
        if index == best or solution is None:
            return Pick(best)
        why = self._why_frozen.get(name) or solution.overridden.get(name) or []
        by = tuple(_name(self._options, at) for at in why)
        return Pick(index, Overridden(by=by, cost=row.log_scores[best] - row.log_scores[index]))

    def _without_abstained_parents(self, found: dict[str, FieldResult]) -> dict[str, FieldResult]:
        """Where a field has no value, neither has what was asked given its value."""
        # Those above come first.
        for name in sorted(found, key=self._depths.__getitem__):
            parent = self._fields[name].depends_on
            if parent is not None and found[parent].status == "abstain" and found[name].status != "abstain":
                reason = f"{parent}, which it depends on, abstained"
                found[name] = found[name].model_copy(update={"value": None, "status": "abstain", "reason": reason})
        return found


def _name(options: Options, index: int) -> str:
    constraint = options.constraints[index]
    return str(constraint.get("name") or f"constraints[{index}]: {constraint['type']}")
