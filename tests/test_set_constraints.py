"""Constraints inside a multi field: against enumeration, on closed forms at full size, and at their limits."""

import itertools
import math
import random
import re
import string
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jevmlx
from jevmlx.constraints import MICRO_LIMIT, SetProgram, micro_nats
from reference import constraints as reference


def field(options, rules):
    schema = jevmlx.Schema({"m": {"type": "multi", "choices": list(options), "set_constraints": list(rules)}})
    return schema.fields[0]


@st.composite
def rule(draw, options):
    kind = draw(
        st.sampled_from(
            ["mutually_exclusive", "at_most_one", "at_least_one", "at_most_k", "at_least_k", "exact_k", "implies"]
        )
    )
    some = draw(st.lists(st.sampled_from(options), min_size=2, max_size=len(options), unique=True))
    if kind == "implies":
        return {"type": kind, "if_option": some[0], "then_option": some[1]}
    if kind.endswith("_k"):
        return {"type": kind, "options": some, "k": draw(st.integers(0, len(some)))}
    return {"type": kind, "options": some}


@st.composite
def problems(draw, most=7, rules_most=7):
    options = string.ascii_lowercase[: draw(st.integers(2, most))]
    rules = draw(st.lists(rule(options), min_size=1, max_size=rules_most))
    # Few distinct numbers, so that sums tie often; the extremes, so that sums are large.
    number = st.one_of(st.integers(-2, 2), st.sampled_from([-MICRO_LIMIT, MICRO_LIMIT, 0]))
    micro = draw(st.lists(number, min_size=len(options), max_size=len(options)))
    proposal = draw(st.sets(st.integers(0, len(options) - 1)))
    return options, rules, micro, proposal


def agrees(options, rules, micro, proposal):
    """Compares one problem with enumeration, satisfiable or not."""
    if next(reference.selections(rules, options), None) is None:
        with pytest.raises(jevmlx.SchemaError) as caught:
            SetProgram.of(field(options, rules))
        assert (caught.value.code, caught.value.path) == ("schema.set_constraints.unsatisfiable", "m.set_constraints")
        named = [int(index) for index in re.findall(r"set_constraints\[(\d+)\]", caught.value.message)]
        core = [rules[index] for index in named]
        assert next(reference.selections(core, options), None) is None
        for dropped in range(len(core)):
            assert next(reference.selections(core[:dropped] + core[dropped + 1 :], options), None) is not None
        return
    program = SetProgram.of(field(options, rules))
    broken = [index for index, one in enumerate(rules) if not reference.set_holds(one, options, proposal)]
    assert program.broken(proposal) == broken
    assert program.satisfied(proposal) is (not broken)
    assert program.solve(micro, proposal) == reference.best_selection(rules, options, micro, proposal)


@settings(max_examples=400, deadline=None)
@given(problems())
def test_enumeration_agrees(problem):
    agrees(*problem)


@settings(max_examples=12, deadline=None)
@given(problems(most=14, rules_most=5))
def test_enumeration_agrees_on_more_options(problem):
    agrees(*problem)


@settings(max_examples=150, deadline=None)
@given(problems(), st.randoms())
def test_the_order_of_constraints_does_not_matter(problem, shuffler):
    options, rules, micro, proposal = problem
    if next(reference.selections(rules, options), None) is None:
        return
    expected = SetProgram.of(field(options, rules)).solve(micro, proposal)
    shuffled = list(rules)
    shuffler.shuffle(shuffled)
    assert SetProgram.of(field(options, shuffled)).solve(micro, proposal) == expected


OPTIONS_64 = [f"o{index}" for index in range(64)]


@pytest.mark.parametrize("seed", range(6))
def test_exactly_k_of_64_are_the_k_best(seed):
    draw = random.Random(seed)
    # Few distinct values: the last places are shared out by nearness to the proposal, then by order.
    micro = [draw.randint(-3, 3) for _ in OPTIONS_64]
    proposal = {index for index in range(64) if draw.random() < 0.5}
    k = (len(proposal) + draw.randint(1, 20)) % 64
    program = SetProgram.of(field(OPTIONS_64, [{"type": "exact_k", "options": OPTIONS_64, "k": k}]))
    ranked = sorted(range(64), key=lambda index: (-micro[index], index not in proposal, index))
    assert program.solve(micro, proposal) == frozenset(ranked[:k])


def test_a_chain_of_64_keeps_the_best_tail():
    rules = [{"type": "implies", "if_option": a, "then_option": b} for a, b in itertools.pairwise(OPTIONS_64)]
    program = SetProgram.of(field(OPTIONS_64, rules))
    micro = [micro_nats(math.sin(index * 7) * 3) for index in range(64)]
    tails = [frozenset(range(start, 64)) for start in range(65)]
    assert program.solve(micro, {0}) == max(tails, key=lambda tail: sum(micro[index] for index in tail))


def test_of_64_equal_options_the_earliest_stays():
    """Nothing but the last criterion decides, over more options than one objective can rank."""
    rules = [{"type": "at_most_one", "options": OPTIONS_64}, {"type": "at_least_one", "options": OPTIONS_64}]
    program = SetProgram.of(field(OPTIONS_64, rules))
    assert program.solve([5] * 64, set(range(64))) == {0}
    assert program.solve([MICRO_LIMIT] * 64, {20, 63}) == {20}
    assert program.solve([-MICRO_LIMIT] * 64, {40, 50, 63}) == {40}


def test_pairs_of_equals_are_told_apart_over_all_64():
    rules = [{"type": "exact_k", "options": OPTIONS_64[at : at + 2], "k": 1} for at in range(0, 64, 2)]
    rules.append({"type": "at_least_one", "options": OPTIONS_64})
    program = SetProgram.of(field(OPTIONS_64, rules))
    # Every pair ties in its sum and in its distance; the first of each stands earlier.
    assert program.solve([7] * 64, set()) == set(range(0, 64, 2))


def test_a_proposal_that_satisfies_stands_though_another_scores_more():
    program = SetProgram.of(field("abc", [{"type": "at_most_one", "options": ["a", "b"]}]))
    assert program.solve([5, 9, 9], {0}) == {0}


def test_free_options_follow_their_log_odds_and_at_zero_the_proposal():
    program = SetProgram.of(field("abcdef", [{"type": "at_most_one", "options": ["a", "b"]}]))
    assert program.solve([1, 2, 5, -5, 0, 0], {0, 1, 3, 4}) == {1, 2, 4}


def test_without_constraints_there_is_no_program():
    assert SetProgram.of(jevmlx.Schema({"m": {"type": "multi", "choices": ["a", "b"]}}).fields[0]) is None
    assert SetProgram.of(field("ab", [])) is None


def test_a_conflict_is_named_with_its_content():
    rules = [
        {"type": "at_most_k", "options": ["c", "d"], "k": 1},
        {"type": "exact_k", "options": ["a", "b"], "k": 2},
        {"type": "mutually_exclusive", "options": ["b", "a"]},
    ]
    with pytest.raises(jevmlx.SchemaError) as caught:
        SetProgram.of(field("abcd", rules))
    message = caught.value.message
    assert 'set_constraints[1] {"type": "exact_k", "options": ["a", "b"], "k": 2}' in message
    assert 'set_constraints[2] {"type": "mutually_exclusive", "options": ["b", "a"]}' in message
    assert "set_constraints[0]" not in message


def test_work_beyond_the_limit_is_an_error():
    draw = random.Random(1)
    rules = [{"type": "at_most_k", "options": draw.sample(OPTIONS_64, 10), "k": 3} for _ in range(20)]
    program = SetProgram.of(field(OPTIONS_64, rules))
    micro = [micro_nats(abs(draw.gauss(0, 3))) for _ in OPTIONS_64]
    everything = set(range(64))
    with pytest.raises(jevmlx.errors.ConstraintError) as caught:
        program.solve(micro, everything, limit=1e-6)
    assert (caught.value.code, caught.value.path) == ("constraints.limit", "m.set_constraints")
    assert program.satisfied(program.solve(micro, everything))


def test_equal_scores_take_little_work():
    """Ties are decided apart from the score: together, the solver's linear bounds lose the score in their rounding."""
    draw = random.Random(0)
    order = draw.sample(OPTIONS_64, 8)
    rules = [
        {"type": "at_most_k", "options": OPTIONS_64, "k": 12},
        {"type": "exact_k", "options": draw.sample(OPTIONS_64, 24), "k": 5},
        *({"type": "implies", "if_option": a, "then_option": b} for a, b in itertools.pairwise(order)),
    ]
    program = SetProgram.of(field(OPTIONS_64, rules))
    selected = program.solve([10**6] * 64, set(range(64)), limit=0.1)
    assert len(selected) == 12
    assert program.satisfied(selected)


@pytest.mark.parametrize(
    ("micro", "proposal"),
    [([1], set()), ([1, 2, 3], set()), ([1, 2.5], set()), ([1, None], {0, 1}), (None, set())],
)
def test_scores_that_do_not_fit_are_refused(micro, proposal):
    refused(micro, proposal)


def test_numbers_beyond_the_limit_and_options_that_are_none_are_refused():
    refused([1, MICRO_LIMIT + 1], set())
    refused([1, 2], {2})
    refused([1, 2], {-1})


def refused(micro, proposal):
    program = SetProgram.of(field("ab", [{"type": "at_most_one", "options": ["a", "b"]}]))
    with pytest.raises(jevmlx.errors.ConstraintError) as caught:
        program.solve(micro, proposal)
    assert (caught.value.code, caught.value.path) == ("constraints.scores", "m.set_constraints")


def test_micro_nats():
    assert [micro_nats(x) for x in (0.5e-6, 1.5e-6, 2.5e-6, -0.5e-6, -1.5e-6)] == [0, 2, 2, 0, -2]
    assert [micro_nats(x) for x in (1000, 1000.1, 1e308, math.inf)] == [MICRO_LIMIT] * 4
    assert [micro_nats(x) for x in (-1000, -1000.1, -1e308, -math.inf)] == [-MICRO_LIMIT] * 4
    assert micro_nats(-1.25) == -1_250_000
    for wrong in (math.nan, None, "x"):
        with pytest.raises(jevmlx.errors.ConstraintError) as caught:
            micro_nats(wrong)
        assert caught.value.code == "constraints.scores"


@given(st.floats(-999, 999))
def test_micro_nats_is_within_half_a_unit(x):
    assert abs(micro_nats(x) - x * 1e6) <= 0.5
    assert type(micro_nats(x)) is int


def test_the_solver_is_loaded_only_when_it_is_needed():
    """Importing the package, compiling what can plainly be satisfied, and a proposal that stands do without it."""
    code = """
import sys, jevmlx
from jevmlx.constraints import SetProgram
rules = [{"type": "exact_k", "options": ["a", "b"], "k": 1}, {"type": "implies", "if_option": "a", "then_option": "c"}]
spec = {"type": "multi", "choices": ["a", "b", "c"], "set_constraints": rules}
program = SetProgram.of(jevmlx.Schema({"m": spec}).fields[0])
assert program.solve([1, 2, 3], {1}) == {1}
assert "ortools" not in sys.modules
assert program.solve([1, 2, 3], {0, 1}) == {1, 2}
assert "ortools" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
