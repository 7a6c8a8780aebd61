"""The tokens that follow a prompt, as a forest: beginnings that rows share are computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .._core import Layout

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class TokenForest:
    """Everything that follows the prompt; parents come before children.

    Attributes:
        tokens: Token id of each node, int32, shape (nodes,).
        parents: Index of each node's parent, int32, shape (nodes,); -1 is the prompt's last token.
        depths: Node ``i`` stands at position ``prompt length + depths[i]``; int32, shape (nodes,).
        branch_nodes: The node whose output each branch is read off, int32, shape (branches,); -1 as above.
        branch_offsets: Slices of ``branch_tokens``, int32, shape (branches + 1,).
        branch_tokens: Allowed next token ids, int32, shape (allowed,).
    """

    tokens: Ints
    parents: Ints
    depths: Ints
    branch_nodes: Ints
    branch_offsets: Ints
    branch_tokens: Ints

    @classmethod
    def of(cls, layout: Layout) -> TokenForest:
        """The forest of a plan's layout."""
        return cls(*(np.frombuffer(getattr(layout, name), np.int32) for name in cls.__dataclass_fields__))

    @cached_property
    def ancestors(self) -> NDArray[np.bool_]:
        """Whether node ``j`` is node ``i`` or above it, bool, shape (nodes, nodes)."""
        above = np.zeros((len(self.tokens), len(self.tokens)), bool)
        for node, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                above[node] = above[parent]
            above[node, node] = True
        return above

    @cached_property
    def branch_of(self) -> Ints:
        """The branch each allowed token belongs to, int32, shape (allowed,)."""
        return np.repeat(np.arange(len(self.branch_nodes), dtype=np.int32), np.diff(self.branch_offsets))

    @cached_property
    def _waves(self) -> dict[int, list[TokenForest]]:
        return {}

    def waves(self, most: int) -> list[TokenForest]:
        """Parts with at most ``most`` nodes each where a branch needs no more; places depend on the forest alone.

        Every branch is in exactly one part, in order; what leads to it is in that part too.
        """
        if len(self.tokens) <= most or len(self.branch_nodes) < 2:
            return [self]
        if most not in self._waves:
            self._waves[most] = self._split(most)
        return self._waves[most]

    def _split(self, most: int) -> list[TokenForest]:
        parts: list[TokenForest] = []
        first = 0
        needed: set[int] = set()
        for branch in range(len(self.branch_nodes)):
            path = set(self.path(int(self.branch_nodes[branch])))
            if branch > first and len(needed | path) > most:
                parts.append(self._part(first, branch, needed))
                first, needed = branch, set()
            needed |= path
        parts.append(self._part(first, len(self.branch_nodes), needed))
        return parts

    def path(self, node: int) -> list[int]:
        """The nodes that lead to a node, itself last; none for -1."""
        path = []
        while node >= 0:
            path.append(node)
            node = int(self.parents[node])
        return path[::-1]

    def _part(self, first: int, end: int, needed: set[int]) -> TokenForest:
        nodes = np.array(sorted(needed), np.int32)
        place = np.full(len(self.tokens) + 1, -1, np.int32)  # The last entry serves parent -1.
        place[nodes] = np.arange(len(nodes), dtype=np.int32)
        offsets = self.branch_offsets[first : end + 1]
        return TokenForest(
            tokens=self.tokens[nodes],
            parents=place[self.parents[nodes]],
            depths=self.depths[nodes],
            branch_nodes=place[self.branch_nodes[first:end]],
            branch_offsets=offsets - offsets[0],
            branch_tokens=self.branch_tokens[offsets[0] : offsets[-1]],
        )
