"""The cheapest conflict-free selection of *n* token sequences, exactly, by dynamic programming over their trie.

The cost is lexicographic, so it is settled one part at a time. Fewest branch nodes, least depth and shortest longest
sequence need only counts: the most leaves that fit under those limits (dropping leaves never adds a branch node).
Under the three limits found, a second programme keeps, for every reachable (leaves, branch nodes, sum and sum of squares
of lengths), the first set in index order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

# (leaves, branch nodes) → (sum of lengths, sum of squared lengths) → set as a bit mask. Of two sets of one size, the
# one with the greater mask comes first in index order, because index 0 is the highest bit.
Table = dict[tuple[int, int], dict[tuple[int, int], int]]


class Node:
    """A trie node; ``leaf`` is the first index whose sequence ends here."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.children: dict[int, Node] = {}
        self.leaf: int | None = None

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children.values():
            yield from child.walk()


class Trie:
    """All sequences, from their first difference on."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self.lengths = [len(ids) for ids in sequences]
        shared = 0
        while len({tuple(ids[: shared + 1]) for ids in sequences}) == 1 and shared < min(self.lengths):
            shared += 1
        self.root = Node(0)
        for index, ids in enumerate(sequences):
            node = self.root
            for token in ids[shared:]:
                node = node.children.setdefault(token, Node(node.depth + 1))
            if node.leaf is None:
                node.leaf = index

    def mask(self, index: int) -> int:
        return 1 << (len(self.lengths) - 1 - index)

    def indices(self, mask: int) -> list[int]:
        return [index for index in range(len(self.lengths)) if mask & self.mask(index)]


class Limits:
    """What a selection may use: no branch node deeper than ``deepest``, no sequence longer than ``longest``."""

    def __init__(self, trie: Trie, deepest: float, longest: float, most_leaves: int) -> None:
        def leaf(node: Node) -> int | None:
            """The index that ends at *node*, if it is short enough."""
            return node.leaf if node.leaf is not None and trie.lengths[node.leaf] <= longest else None

        @cache
        def capacity(node: Node, nodes: int) -> int:
            """Most leaves below *node* with at most *nodes* branch nodes."""
            one_child = max((capacity(child, nodes) for child in node.children.values()), default=0)
            return max(int(leaf(node) is not None), one_child, branching_capacity(node, nodes))

        @cache
        def branching_capacity(node: Node, nodes: int) -> int:
            """The same where *node* itself branches; 0 where it cannot."""
            if nodes < 1 or node.depth > deepest:
                return 0
            children = [child for child in node.children.values() if capacity(child, 0)]
            if len(children) < 2:
                return 0
            most = [0] * nodes
            for child in children:
                most = [max(most[b - used] + capacity(child, used) for used in range(b + 1)) for b in range(nodes)]
            return most[-1]

        @cache
        def selections(node: Node, nodes: int) -> Table:
            """Every selection below *node* worth keeping."""
            table: Table = {}
            if (index := leaf(node)) is not None:
                length = trie.lengths[index]
                table[1, 0] = {(length, length * length): trie.mask(index)}
            for child in node.children.values():
                _keep_first(table, selections(child, nodes))
            _keep_first(table, branching_selections(node, nodes))
            return table

        def branching_selections(node: Node, nodes: int) -> Table:
            """The same where *node* itself branches."""
            if branching_capacity(node, nodes) == 0:
                return {}
            one: Table = {}
            several: Table = {}
            for child in node.children.values():
                table = selections(child, nodes - 1)
                for so_far in (
                    _join(several, table, most_leaves, nodes - 1),
                    _join(one, table, most_leaves, nodes - 1),
                ):
                    _keep_first(several, so_far)
                _keep_first(one, table)
            return {(leaves, used + 1): sums for (leaves, used), sums in several.items()}

        self.branching_capacity = branching_capacity
        self.branching_selections = branching_selections


def _keep_first(into: Table, other: Table) -> None:
    for key, sums in other.items():
        kept = into.setdefault(key, {})
        for lengths, mask in sums.items():
            kept[lengths] = max(mask, kept.get(lengths, 0))


def _join(a: Table, b: Table, most_leaves: int, most_nodes: int) -> Table:
    joined: Table = {}
    for (leaves_a, nodes_a), sums_a in a.items():
        for (leaves_b, nodes_b), sums_b in b.items():
            key = leaves_a + leaves_b, nodes_a + nodes_b
            if key[0] > most_leaves or key[1] > most_nodes:
                continue
            kept = joined.setdefault(key, {})
            for (sum_a, squares_a), mask_a in sums_a.items():
                for (sum_b, squares_b), mask_b in sums_b.items():
                    lengths = sum_a + sum_b, squares_a + squares_b
                    kept[lengths] = max(mask_a | mask_b, kept.get(lengths, 0))
    return joined


def best_selection(trie: Trie, n: int) -> list[int] | None:
    """Indices of the cheapest *n* ≥ 2 conflict-free sequences, ascending; None if there are not so many."""
    tops = [node for node in trie.root.walk() if len(node.children) >= 2]
    limits = cache(lambda deepest, longest: Limits(trie, deepest, longest, n))

    def fits(nodes: int, depth: float, longest: float) -> list[Node]:
        """The nodes that can be the first branch node of such a selection; depths count from there."""
        return [top for top in tops if limits(top.depth + depth, longest).branching_capacity(top, nodes) >= n]

    nodes = next((b for b in range(1, min(n - 1, len(tops)) + 1) if fits(b, math.inf, math.inf)), None)
    if nodes is None:
        return None
    depth = next(d for d in range(max(top.depth for top in tops) + 1) if fits(nodes, d, math.inf))
    longest = next(length for length in sorted(set(trie.lengths)) if fits(nodes, depth, length))
    found = [
        (n * squares - total * total, -mask)
        for top in fits(nodes, depth, longest)
        for (total, squares), mask in limits(top.depth + depth, longest)
        .branching_selections(top, nodes)[n, nodes]
        .items()
    ]
    return trie.indices(-min(found)[1])
