"""How long do exact constraints take at full size, and how does that compare with another exact solver on the same problems?

The peer, HiGHS through ``scipy.optimize.milp``, finds one best answer; it does not decide between equal ones.
"""

import itertools
import random
import statistics
import time

import numpy as np
import pytest
from scipy import optimize, sparse

import jevmlx
from jevmlx.constraints import CaseProgram, SetProgram, micro_nats

INSTANCES = 40
OPTIONS = [f"option_{index:02}" for index in range(64)]
FIELDS = {f"field_{index:02}": tuple(f"value_{at}" for at in range(10)) for index in range(20)}


def set_problem(seed, levels=None):
    """64 connected options; log-odds in whole multiples of 1/``levels`` nats, where many tie, or any."""
    draw = random.Random(seed)  # noqa: S311
    rules = [
        {"type": "at_most_k", "options": OPTIONS, "k": 12},
        {"type": "exact_k", "options": draw.sample(OPTIONS, 24), "k": 5},
    ]
    chain = draw.sample(OPTIONS, 20)
    rules += [{"type": "implies", "if_option": a, "then_option": b} for a, b in itertools.pairwise(chain)]
    odds = [draw.gauss(0, 3) for _ in OPTIONS]
    micro = [micro_nats(x if levels is None else round(x * levels) / levels) for x in odds]
    proposal = {index for index, weight in enumerate(micro) if weight > 0}
    schema = jevmlx.Schema({"m": {"type": "multi", "choices": OPTIONS, "set_constraints": rules}})
    return SetProgram.of(schema.fields[0]), micro, proposal


def case_problem(seed):
    """20 fields of 10 choices and 30 constraints, mostly on best values, so that some are broken."""
    draw = random.Random(seed)  # noqa: S311
    scores = {name: [micro_nats(draw.gauss(0, 3)) for _ in values] for name, values in FIELDS.items()}

    def pair(name):
        values, numbers = FIELDS[name], scores[name]
        best = values[numbers.index(max(numbers))]
        return {"field": name, "value": best if draw.random() < 0.7 else draw.choice(values)}

    def rule(kind):
        some = draw.sample(list(FIELDS), 5)
        if kind == "implies":
            return {
                "type": kind,
                "if": pair(some[0]),
                "then": {"field": some[1], "value": draw.choice(FIELDS[some[1]])},
            }
        if kind == "requires_parent":
            parents = draw.sample(FIELDS[some[1]], 3)
            return {"type": kind, **pair(some[0]), "parent": some[1], "parent_values": parents}
        return {"type": kind, "pairs": [pair(name) for name in (some[:2] if kind == "excludes" else some)]}

    kinds = ("implies", "requires_parent", "excludes", "exclusivity")
    rules = [rule(draw.choice(kinds)) for _ in range(30)]
    return CaseProgram.of(rules, [(name, "enum", values) for name, values in FIELDS.items()]), scores


def milp(rows, scores, groups=()):
    """Seconds and the best total by HiGHS, for rows over items of which each group holds exactly one."""
    start = time.perf_counter()
    matrix = np.zeros((len(rows) + len(groups), len(scores)))
    lower, upper = np.full(matrix.shape[0], -np.inf), np.full(matrix.shape[0], np.inf)
    for at, row in enumerate(rows):
        matrix[at, list(row.plus)] = 1
        matrix[at, list(row.minus)] = -1
        lower[at] = -np.inf if row.least is None else row.least
        upper[at] = np.inf if row.most is None else row.most
    for at, group in enumerate(groups, len(rows)):
        matrix[at, list(group)] = 1
        lower[at] = upper[at] = 1
    found = optimize.milp(
        -np.array(scores, float),
        integrality=np.ones(len(scores)),
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(sparse.csr_array(matrix), lower, upper),
        options={"mip_rel_gap": 0},
    )
    seconds = time.perf_counter() - start
    assert found.success
    return seconds, round(sum(score for score, taken in zip(scores, found.x, strict=True) if taken > 0.5))


def timed(call):
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def report(figure, what, to_reach, ours, peer):
    """Median and worst of our times against the peer's."""
    for name, of in (("median", statistics.median), ("worst", max)):
        held = f"HiGHS {of(peer) * 1e3:.1f} ms (no tie-breaking)"
        figure(f"{what}, {name} of {len(ours)}", of(ours) * 1e3, "ms", to_reach if name == "median" else "–", held)


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Both solvers are imported before anything is timed."""
    program, micro, proposal = set_problem(0)
    program.solve(micro, proposal)
    milp(program.rows, micro)


@pytest.mark.parametrize("levels", [None, 1], ids=["any", "tied"])
def test_64_options(benchmark, figure, levels):
    ours, peer = [], []
    for seed in range(INSTANCES):
        program, micro, proposal = set_problem(seed, levels)
        assert len(program.parts) == 1
        assert program.broken(proposal)
        seconds, selected = timed(lambda p=program, m=micro, q=proposal: p.solve(m, q))
        ours.append(seconds)
        seconds, total = milp(program.rows, micro)
        peer.append(seconds)
        assert sum(micro[index] for index in selected) == total
    program, micro, proposal = set_problem(0, levels)
    benchmark(program.solve, micro, proposal)
    scores = "whole nats, which tie" if levels else "random scores"
    report(figure, f"64 connected options, 21 constraints, {scores}", "≤ 10 ms", ours, peer)


def test_20_fields(benchmark, figure):
    ours, peer, moved = [], [], []
    for seed in range(INSTANCES):
        program, scores = case_problem(seed)
        seconds, solution = timed(lambda p=program, s=scores: p.solve(s))
        ours.append(seconds)
        moved.append(len(solution.overridden))
        flat = [score for numbers in scores.values() for score in numbers]
        seconds, total = milp([one.row for one in program.constraints], flat, [list(f.items) for f in program.fields])
        peer.append(seconds)
        assert sum(scores[name][at] for name, at in solution.chosen.items()) == total
    assert min(moved) > 0
    benchmark(case_problem(0)[0].solve, case_problem(0)[1])
    report(figure, "20 fields of 10 choices, 30 constraints", "≤ 50 ms", ours, peer)
