"""The alias codebook: what a set of codes costs, and three ways to look for the cheapest set.

A candidate is ``(code, token ids)``. `brute_force` enumerates, `exact` finds the same set without enumeration, and `bounded`
is a backtracking search under a visit cap, kept so that benchmarks can compare costs. All three answer for one pool:
a list of candidates of distinct codes, in priority order; `choose` applies one of them to the pools.
"""

from __future__ import annotations

import itertools
import string
from collections import defaultdict
from collections.abc import Callable, Sequence

from .trie import Trie, best_selection

Candidate = tuple[str, tuple[int, ...]]
Search = Callable[[Sequence[Candidate], int], "list[Candidate] | None"]


def pools() -> list[list[str]]:
    """The codes, in pools of falling priority."""
    letters, digits = list(string.ascii_uppercase), list(string.digits)
    single = letters + digits
    return [letters, digits, single, [a + b for a in single for b in single]]


def common_prefix(sequences: Sequence[Sequence[int]]) -> list[int]:
    """The longest prefix that all sequences share."""
    prefix: list[int] = []
    for column in zip(*sequences, strict=False):
        if len(set(column)) > 1:
            break
        prefix.append(column[0])
    return prefix


def branch_depths(sequences: Sequence[Sequence[int]]) -> list[int]:
    """Depth of every branch node in the trie of remainders (the sequences without their common prefix)."""
    shared = len(common_prefix(sequences))
    next_tokens: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for ids in sequences:
        for depth in range(shared, len(ids)):
            next_tokens[tuple(ids[:depth])].add(ids[depth])
    return [len(path) - shared for path, tokens in next_tokens.items() if len(tokens) >= 2]


def cost(candidates: Sequence[Candidate]) -> tuple[int, int, int, int, int]:
    """Branch nodes, deepest of them, longest candidate, variance of lengths × n², longest code."""
    sequences = [ids for _, ids in candidates]
    depths = branch_depths(sequences)
    lengths = [len(ids) for ids in sequences]
    spread = len(lengths) * sum(length * length for length in lengths) - sum(lengths) ** 2
    return len(depths), max(depths, default=0), max(lengths), spread, max(len(code) for code, _ in candidates)


def conflict(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether one is a prefix of the other (equality included)."""
    short = min(len(a), len(b))
    return tuple(a[:short]) == tuple(b[:short])


def choose(candidate_pools: Sequence[Sequence[Candidate]], n: int, search: Search) -> list[Candidate] | None:
    """The first pool that reaches one branch node, else the best over all pools; None if no pool has *n* codes."""
    best: list[Candidate] | None = None
    for pool in candidate_pools:
        found = search(pool, n)
        if found is None:
            continue
        if cost(found)[0] == 1:
            return found
        if best is None or cost(found) < cost(best):
            best = found
    return best


def brute_force(pool: Sequence[Candidate], n: int) -> list[Candidate] | None:
    """The cheapest of all sets; `itertools.combinations` yields them in the order that breaks ties."""
    legal = (
        list(chosen)
        for chosen in itertools.combinations(pool, n)
        if not any(conflict(a, b) for (_, a), (_, b) in itertools.combinations(chosen, 2))
    )
    return min(legal, key=cost, default=None)


def exact(pool: Sequence[Candidate], n: int) -> list[Candidate] | None:
    """As `brute_force`, by dynamic programming over the trie; codes of one pool have equal numbers of characters."""
    if n == 1:
        return [min(pool, key=lambda candidate: len(candidate[1]))] if pool else None
    if len(pool) < n:
        return None
    indices = best_selection(Trie([ids for _, ids in pool]), n)
    return None if indices is None else [pool[i] for i in indices]


def bounded(pool: Sequence[Candidate], n: int, visit_cap: int = 20_000) -> list[Candidate] | None:
    """Backtracking in pool order that gives up after *visit_cap* steps and keeps the best set seen by then.

    A partial set that already has more branch nodes than the best one is dropped: adding codes never removes a node.
    """
    best: list[Candidate] | None = None
    visits = 0

    def extend(start: int, chosen: list[Candidate]) -> None:
        nonlocal best, visits
        if len(chosen) == n:
            if best is None or cost(chosen) < cost(best):
                best = list(chosen)
            return
        for i in range(start, len(pool) - (n - len(chosen)) + 1):
            visits += 1
            if visits > visit_cap:
                return
            if any(conflict(pool[i][1], ids) for _, ids in chosen):
                continue
            extended = [*chosen, pool[i]]
            if best is None or cost(extended)[0] <= cost(best)[0]:
                extend(i + 1, extended)

    extend(0, [])
    return best
