"""Constraints between fields: against enumeration, on closed forms at full size, at their limits, and every mistake."""

import itertools
import json
import os
import random
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jevmlx.constraints import MICRO_LIMIT, CaseProgram, micro_nats
from jevmlx.errors import ConstraintError
from reference import constraints as reference

BOOLEAN = (True, False)


def typed(fields):
    """Fields as a program takes them: name, type and values."""
    return [(name, "boolean" if values == BOOLEAN else "enum", values) for name, values in fields.items()]


@st.composite
def rule(draw, fields):
    kind = draw(st.sampled_from(["implies", "requires_parent", "excludes", "exclusivity"]))
    order = draw(st.permutations(list(fields)))

    def pair(name):
        return {"field": name, "value": draw(st.sampled_from(fields[name]))}

    if kind == "implies":
        return {"type": kind, "if": pair(order[0]), "then": pair(order[1])}
    if kind == "requires_parent":
        some = st.lists(st.sampled_from(fields[order[1]]), min_size=1, max_size=3, unique=True)
        return {"type": kind, **pair(order[0]), "parent": order[1], "parent_values": draw(some)}
    if kind == "excludes":
        return {"type": kind, "pairs": [pair(order[0]), pair(order[1])]}
    every = [{"field": name, "value": value} for name, values in fields.items() for value in values]
    chosen = draw(st.lists(st.sampled_from(range(len(every))), min_size=2, max_size=5, unique=True))
    return {"type": kind, "pairs": [every[index] for index in chosen]}


@st.composite
def problems(draw, rules_most=12):
    """Rules, fields, scores of some of them, and which of these are frozen where."""
    domain = st.sampled_from([BOOLEAN, ("x",), ("x", "y"), ("x", "y", None), ("x", "y", "z", "w")])
    fields = {f"f{index}": draw(domain) for index in range(draw(st.integers(2, 5)))}
    rules = draw(st.lists(rule(fields), min_size=2, max_size=rules_most))
    # Few distinct numbers, so that sums tie often; the extremes, so that sums are large.
    number = st.one_of(st.integers(-2, 2), st.sampled_from([-MICRO_LIMIT, MICRO_LIMIT]))
    scored = [name for name in fields if draw(st.integers(0, 7))]
    scores = {name: draw(st.lists(number, min_size=len(fields[name]), max_size=len(fields[name]))) for name in scored}
    frozen = {name: draw(st.integers(0, len(fields[name]) - 1)) for name in scored if not draw(st.integers(0, 3))}
    return rules, fields, scores, frozen


def check_conflict(message, active, fields, frozen):
    """What the error names conflicts, and nothing of it can be dropped."""
    core = {int(index): active[int(index)] for index in re.findall(r"constraints\[(\d+)\]", message)}
    final = {name: frozen[name] for name in re.findall(r'"(f\d)" was final', message)}

    def feasible(rules, at):
        return next(reference.assignments(rules, fields, at), None) is not None

    assert core
    assert not feasible(list(core.values()), final)
    for index in core:
        assert feasible([other for at, other in core.items() if at != index], final)
    for name in final:
        assert feasible(list(core.values()), {other: at for other, at in final.items() if other != name})


@settings(max_examples=300, deadline=None)
@given(problems())
def test_enumeration_agrees(problem):
    rules, fields, scores, frozen = problem
    program = CaseProgram.of(rules, typed(fields))
    known = {name: fields[name] for name in fields if name in scores}
    # A constraint waits until all the fields it mentions have scores.
    active = {index: one for index, one in enumerate(rules) if known.keys() >= set(reference.mentions(one))}
    expected = reference.best_assignment(list(active.values()), known, scores, frozen)
    if expected is None:
        with pytest.raises(ConstraintError) as caught:
            program.solve(scores, frozen)
        assert (caught.value.code, caught.value.path) == ("constraints.infeasible", "constraints")
        check_conflict(caught.value.message, active, known, frozen)
        return
    solution = program.solve(scores, frozen)
    assert list(solution.chosen.items()) == list(expected.items())
    best = {name: frozen.get(name, numbers.index(max(numbers))) for name, numbers in scores.items()}
    assert solution.costs == {name: scores[name][best[name]] - scores[name][at] for name, at in expected.items()}
    assert solution.cost == sum(solution.costs.values())
    moved = [name for name in known if expected[name] != best[name]]
    assert solution.overridden == {name: reference.blamed(active, known, best, frozen, name) for name in moved}


@settings(max_examples=150, deadline=None)
@given(problems(rules_most=5), st.randoms())
def test_the_order_of_constraints_and_of_scores_does_not_matter(problem, shuffler):
    rules, fields, scores, frozen = problem
    known = {name: fields[name] for name in fields if name in scores}
    active = [one for one in rules if known.keys() >= set(reference.mentions(one))]
    if reference.best_assignment(active, known, scores, frozen) is None:
        return
    expected = CaseProgram.of(rules, typed(fields)).solve(scores, frozen)
    names, shuffled = list(scores), list(rules)
    shuffler.shuffle(names)
    shuffler.shuffle(shuffled)
    found = CaseProgram.of(shuffled, typed(fields)).solve({name: scores[name] for name in names}, frozen)
    assert (list(found.chosen.items()), found.cost) == (list(expected.chosen.items()), expected.cost)


TWENTY = {f"f{index}": tuple(f"v{at}" for at in range(10)) for index in range(20)}


def exclusive(fields):
    return {"type": "exclusivity", "pairs": [{"field": name, "value": values[0]} for name, values in fields.items()]}


@pytest.mark.parametrize("seed", range(4))
def test_of_twenty_first_values_the_one_that_is_missed_most_stays(seed):
    draw = random.Random(seed)
    # Few distinct gaps, so that the earliest of several decides.
    gaps = {name: draw.randint(1, 3) for name in TWENTY}
    scores = {name: [0, *(-gap - at for at in range(9))] for name, gap in gaps.items()}
    keeps = next(name for name in TWENTY if gaps[name] == max(gaps.values()))
    solution = CaseProgram.of([exclusive(TWENTY)], typed(TWENTY)).solve(scores)
    assert solution.chosen == {name: int(name != keeps) for name in TWENTY}
    assert solution.cost == sum(gaps.values()) - gaps[keeps]
    assert solution.overridden == {name: [0] for name in TWENTY if name != keeps}


def test_a_chain_over_sixty_booleans_keeps_the_best_tail():
    fields = {f"f{index}": BOOLEAN for index in range(60)}
    names = list(fields)
    rules = [
        {"type": "implies", "if": {"field": one, "value": True}, "then": {"field": other, "value": True}}
        for one, other in itertools.pairwise(names)
    ]
    draw = random.Random(5)
    scores = {name: [micro_nats(draw.gauss(0, 3)), 0] for name in names}
    solution = CaseProgram.of(rules, typed(fields)).solve(scores)
    best = max(range(61), key=lambda start: sum(scores[name][0] for name in names[start:]))
    assert list(solution.chosen.values()) == [1] * best + [0] * (60 - best)


def test_where_all_is_equal_the_earlier_choices_of_earlier_fields_win():
    """Nothing but the last criterion decides, over more choices than one objective can rank."""
    solution = CaseProgram.of([exclusive(TWENTY)], typed(TWENTY)).solve({name: [7] * 10 for name in TWENTY})
    assert solution.chosen == {name: int(name != "f0") for name in TWENTY}
    assert solution.cost == 0


FIELDS = {"team": ("sales", "support", None), "angry": BOOLEAN, "level": ("low", "mid", "high")}
TYPED = [*typed(FIELDS), ("tags", "multi", ("a", "b"))]
IMPLIES = {"type": "implies", "if": {"field": "team", "value": None}, "then": {"field": "angry", "value": "false"}}
PARENT = {"type": "requires_parent", "field": "level", "value": "high", "parent": "team", "parent_values": ["sales"]}
PAIRS = [{"field": "team", "value": "sales"}, {"field": "angry", "value": True}]


def test_none_of_the_above_is_a_value_like_any_other_and_booleans_may_be_text():
    program = CaseProgram.of([IMPLIES], TYPED)
    scores = {"team": [-900, -800, -100], "angry": [-1, -300]}
    solution = program.solve(scores)
    assert (dict(solution.chosen), dict(solution.overridden), solution.cost) == (
        {"team": 2, "angry": 1},
        {"angry": [0]},
        299,
    )


def test_what_waits_for_a_field_without_scores_does_not_hold_yet():
    program = CaseProgram.of([PARENT], TYPED)
    assert program.solve({"level": [-3, -2, -1]}).chosen == {"level": 2}
    assert program.solve({"level": [-3, -2, -1], "team": [-9, -1, -9]}).chosen == {"team": 1, "level": 1}
    assert program.solve({}).chosen == {}


def test_a_conflict_names_constraints_and_the_parent_that_was_final():
    hopeless = [{"type": "excludes", "pairs": [{"field": "level", "value": "low"}, PAIRS[1]]}, PARENT | {"name": "big"}]
    program = CaseProgram.of(hopeless, TYPED)
    with pytest.raises(ConstraintError) as caught:
        program.solve({"team": [0, 0, 0], "level": [0, 0, 0]}, {"team": 1, "level": 2})
    message = caught.value.message
    assert 'constraints[1] (big) {"type": "requires_parent", "field": "level"' in message
    assert '"team" was final at "support" because another field was conditioned on it' in message
    assert '"level" was final at "high"' in message
    assert "constraints[0]" not in message


def test_constraints_that_conflict_by_themselves_blame_no_parent():
    both = [
        {"type": "implies", "if": {"field": "angry", "value": value}, "then": {"field": "level", "value": level}}
        for value in BOOLEAN
        for level in ("low", "mid")
    ]
    with pytest.raises(ConstraintError) as caught:
        CaseProgram.of(both, TYPED).solve({"angry": [0, 0], "level": [0, 0, 0], "team": [0, 0, 0]}, {"level": 0})
    assert caught.value.code == "constraints.infeasible"
    assert all(f"constraints[{index}]" in caught.value.message for index in range(4))
    assert "final" not in caught.value.message


def test_work_beyond_the_limit_is_an_error():
    draw = random.Random(3)
    names = list(TWENTY)
    rules = [
        {"type": "excludes", "pairs": [{"field": name, "value": draw.choice(TWENTY[name])} for name in two]}
        for two in (draw.sample(names, 2) for _ in range(200))
    ]
    program = CaseProgram.of(rules, typed(TWENTY))
    scores = {name: [draw.randint(-(10**6), 0) for _ in range(10)] for name in names}
    with pytest.raises(ConstraintError) as caught:
        program.solve(scores, limit=1e-6)
    assert (caught.value.code, caught.value.path) == ("constraints.limit", "constraints")


@pytest.mark.parametrize(
    ("constraint", "code", "path"),
    [
        (5, "type", ""),
        ({}, "type", ".type"),
        ({"type": None}, "type", ".type"),
        ({"type": ["implies"]}, "type", ".type"),
        ({"type": "at_most_one"}, "type", ".type"),
        (IMPLIES | {"name": 5}, "type", ".name"),
        (IMPLIES | {"name": "\ud800"}, "value", ".name"),
        (IMPLIES | {"unless": 1}, "key", ".unless"),
        (IMPLIES | {"\ud800": 1}, "key", ".\\ud800"),
        (IMPLIES | {7: 1}, "key", ".7"),
        ({"type": "implies", "if": PAIRS[0]}, "key", ".then"),
        ({"type": "excludes"}, "key", ".pairs"),
        ({"type": "requires_parent", "field": "team", "value": "sales", "parent": "angry"}, "key", ".parent_values"),
        (IMPLIES | {"if": "team"}, "type", ".if"),
        (IMPLIES | {"if": {"field": "team"}}, "key", ".if.value"),
        (IMPLIES | {"if": PAIRS[0] | {"not": True}}, "key", ".if.not"),
        (IMPLIES | {"then": {"field": "mood", "value": 1}}, "field", ".then.field"),
        (IMPLIES | {"then": {"field": ["team"], "value": 1}}, "field", ".then.field"),
        (IMPLIES | {"then": {"field": "team", "value": "sales"}}, "field", ".then.field"),
        (IMPLIES | {"if": {"field": "tags", "value": "a"}}, "field", ".if.field"),
        (IMPLIES | {"if": {"field": "team", "value": "Sales"}}, "value", ".if.value"),
        (IMPLIES | {"if": {"field": "team", "value": ["sales"]}}, "value", ".if.value"),
        (IMPLIES | {"then": {"field": "angry", "value": 1}}, "value", ".then.value"),
        (IMPLIES | {"then": {"field": "angry", "value": None}}, "value", ".then.value"),
        (IMPLIES | {"then": {"field": "level", "value": None}}, "value", ".then.value"),
        (PARENT | {"field": "tags"}, "field", ".field"),
        (PARENT | {"value": 3}, "value", ".value"),
        (PARENT | {"parent": "tags"}, "field", ".parent"),
        (PARENT | {"parent": "level"}, "field", ".parent"),
        (PARENT | {"parent_values": "sales"}, "type", ".parent_values"),
        (PARENT | {"parent_values": []}, "value", ".parent_values"),
        (PARENT | {"parent_values": ["sales", "mars"]}, "value", ".parent_values[1]"),
        (PARENT | {"parent_values": ["sales", None, "sales"]}, "value", ".parent_values[2]"),
        ({"type": "excludes", "pairs": {}}, "type", ".pairs"),
        ({"type": "excludes", "pairs": [*PAIRS, {"field": "level", "value": "low"}]}, "value", ".pairs"),
        ({"type": "excludes", "pairs": [PAIRS[0], {"field": "team", "value": None}]}, "field", ".pairs[1].field"),
        ({"type": "exclusivity", "pairs": PAIRS[:1]}, "value", ".pairs"),
        ({"type": "exclusivity", "pairs": [*PAIRS, 1]}, "type", ".pairs[2]"),
        ({"type": "exclusivity", "pairs": [*PAIRS, PAIRS[0]]}, "value", ".pairs[2]"),
    ],
    ids=str,
)
def test_every_mistake_says_where_it_stands(constraint, code, path):
    with pytest.raises(ConstraintError) as caught:
        CaseProgram.of([PARENT, constraint], TYPED)
    assert (caught.value.code, caught.value.path) == (f"constraints.{code}", f"constraints[1]{path}")
    # Whatever was given, the message can be printed.
    assert str(caught.value).encode()


@pytest.mark.parametrize("constraints", [None, "implies", 5, {"type": "implies"}, iter([])])
def test_constraints_are_a_list(constraints):
    with pytest.raises(ConstraintError) as caught:
        CaseProgram.of(constraints, TYPED)
    assert (caught.value.code, caught.value.path) == ("constraints.type", "constraints")


def test_multi_fields_are_referred_to_set_constraints():
    with pytest.raises(ConstraintError, match='"tags" is a multi field; constrain its options with set_constraints'):
        CaseProgram.of([IMPLIES | {"if": {"field": "tags", "value": "a"}}], TYPED)


@pytest.mark.parametrize(
    ("scores", "frozen", "path"),
    [
        ({"mood": [1]}, {}, "mood"),
        ({"tags": [1, 2]}, {}, "tags"),
        ({"angry": [1]}, {}, "angry"),
        ({"angry": [1, 0.5]}, {}, "angry"),
        ({"angry": [1, None]}, {}, "angry"),
        ({"angry": None}, {}, "angry"),
        ({"angry": [1, MICRO_LIMIT + 1]}, {}, "angry"),
        ({"angry": [1, 2]}, {"team": 0}, "team"),
        ({"angry": [1, 2]}, {"angry": 2}, "angry"),
        ({"angry": [1, 2]}, {"angry": -1}, "angry"),
        ({"angry": [1, 2]}, {"angry": "x"}, "angry"),
    ],
)
def test_scores_that_do_not_fit_are_refused(scores, frozen, path):
    with pytest.raises(ConstraintError) as caught:
        CaseProgram.of([IMPLIES], TYPED).solve(scores, frozen)
    assert (caught.value.code, caught.value.path) == ("constraints.scores", path)


def answers():
    """The answers to problems full of ties, as text."""
    found = []
    for seed in range(10):
        draw = random.Random(seed)
        names = list(TWENTY)
        rules = [
            {"type": "exclusivity", "pairs": [{"field": name, "value": draw.choice(TWENTY[name])} for name in some]}
            for some in (draw.sample(names, 6) for _ in range(40))
        ]
        solution = CaseProgram.of(rules, typed(TWENTY)).solve(
            {name: [draw.randint(0, 1) for _ in range(10)] for name in names}
        )
        found.append([list(solution.chosen.items()), list(solution.overridden.items()), solution.cost])
    return json.dumps(found)


def test_the_same_answer_every_time_and_in_every_process():
    expected = answers()
    assert answers() == expected
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", "import test_case_constraints as t; print(t.answers())"]
        other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        assert other.stdout.strip() == expected


def test_the_solver_is_loaded_only_when_it_is_needed():
    code = """
import sys
from jevmlx.constraints import CaseProgram
rule = {"type": "excludes", "pairs": [{"field": "a", "value": True}, {"field": "b", "value": True}]}
program = CaseProgram.of([rule], [("a", "boolean", (True, False)), ("b", "boolean", (True, False))])
assert program.solve({"a": [1, 0], "b": [0, 0]}, {"b": 1}).chosen == {"a": 0, "b": 1}
assert "ortools" not in sys.modules
assert program.solve({"a": [1, 0], "b": [2, 0]}).chosen == {"a": 1, "b": 0}
assert "ortools" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
