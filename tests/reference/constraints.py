"""Constraints by enumeration: every selection, every assignment, straight from the definitions."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

Rule = Mapping[str, Any]
# Field name → its values, in schema order.
Fields = Mapping[str, Sequence[object]]


def set_holds(rule: Rule, options: Sequence[str], selected: Collection[int]) -> bool:
    """Whether selected options (indices) satisfy one constraint of a multi field."""
    names = {options[index] for index in selected}
    kind = rule["type"]
    if kind == "implies":
        return rule["if_option"] not in names or rule["then_option"] in names
    count = len(names.intersection(rule["options"]))
    if kind in ("mutually_exclusive", "at_most_one"):
        return count <= 1
    if kind == "at_least_one":
        return count >= 1
    if kind == "at_most_k":
        return count <= rule["k"]
    if kind == "at_least_k":
        return count >= rule["k"]
    assert kind == "exact_k"
    return count == rule["k"]


def selections(rules: Sequence[Rule], options: Sequence[str]) -> Iterator[frozenset[int]]:
    """Every selection that satisfies all rules."""
    for bits in itertools.product((True, False), repeat=len(options)):
        selected = frozenset(index for index, bit in enumerate(bits) if bit)
        if all(set_holds(rule, options, selected) for rule in rules):
            yield selected


def best_selection(
    rules: Sequence[Rule], options: Sequence[str], micro: Sequence[int], proposal: Collection[int]
) -> frozenset[int]:
    """The proposal, if it may stand; else most log-odds, then nearest to the proposal, then the earlier options."""
    if all(set_holds(rule, options, proposal) for rule in rules):
        return frozenset(proposal)

    def rank(selected: frozenset[int]) -> tuple[int, int, list[bool]]:
        earlier = [index in selected for index in range(len(options))]
        return sum(micro[index] for index in selected), -len(selected.symmetric_difference(proposal)), earlier

    return max(selections(rules, options), key=rank)


def mentions(rule: Rule) -> list[str]:
    """The fields that a constraint between fields mentions."""
    if rule["type"] == "implies":
        return [rule["if"]["field"], rule["then"]["field"]]
    if rule["type"] == "requires_parent":
        return [rule["field"], rule["parent"]]
    return [pair["field"] for pair in rule["pairs"]]


def case_holds(rule: Rule, values: Mapping[str, object]) -> bool:
    """Whether the fields' values satisfy one constraint between fields."""

    def true(pair: Mapping[str, object]) -> bool:
        return values[str(pair["field"])] == pair["value"]

    kind = rule["type"]
    if kind == "implies":
        return not true(rule["if"]) or true(rule["then"])
    if kind == "requires_parent":
        return not true(rule) or values[rule["parent"]] in rule["parent_values"]
    if kind == "excludes":
        first, second = rule["pairs"]
        return not (true(first) and true(second))
    assert kind == "exclusivity"
    return sum(map(true, rule["pairs"])) <= 1


def assignments(rules: Sequence[Rule], fields: Fields, frozen: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Every assignment (field → index of its value) that satisfies all rules; the earlier choices first."""
    domains = [[frozen[name]] if name in frozen else range(len(values)) for name, values in fields.items()]
    for indices in itertools.product(*domains):
        chosen = dict(zip(fields, indices, strict=True))
        if all(case_holds(rule, {name: fields[name][at] for name, at in chosen.items()}) for rule in rules):
            yield chosen


def best_assignment(
    rules: Sequence[Rule], fields: Fields, scores: Mapping[str, Sequence[int]], frozen: Mapping[str, int]
) -> dict[str, int] | None:
    """The assignment of highest total; `max` keeps the first of equals. None where no assignment satisfies the rules."""
    return max(
        assignments(rules, fields, frozen),
        key=lambda chosen: sum(scores[name][at] for name, at in chosen.items()),
        default=None,
    )


def blamed(
    rules: Mapping[int, Rule], fields: Fields, best: Mapping[str, int], frozen: Collection[str], moved: str
) -> list[int]:
    """Which rules moved a field from its best value: the broken ones that mention it, or else all it is connected with."""
    values = {name: fields[name][at] for name, at in best.items()}
    near = [index for index, rule in rules.items() if moved in mentions(rule) and not case_holds(rule, values)]
    if near:
        return near
    reached, before = {moved}, 0
    while len(reached) > before:
        before = len(reached)
        for rule in rules.values():
            free = set(mentions(rule)) - set(frozen)
            reached |= free if free & reached else set()
    return [index for index, rule in rules.items() if reached & set(mentions(rule))]
