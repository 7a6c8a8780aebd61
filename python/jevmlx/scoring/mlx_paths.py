"""The fallback for models that cannot take a forest: the prompt first, then the way to each branch on a copy of the cache.

It asks nothing of a model but what mlx-lm's generation asks, so recurrent and hybrid models are served too.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from mlx_lm.models.cache import make_prompt_cache
from numpy.typing import NDArray

from .forest import TokenForest
from .mlx_load import mx, tree_flatten
from .mlx_onepass import After, Shapes, Work

Caches = list[Any]


class PerPath:
    """Runs prompts and the paths of a forest through a model's body.

    Args:
        model: An mlx-lm model, asked for its caches.
        body: Token ids and caches to hidden states.
        shapes: The sizes of the prompt's chunks.
    """

    def __init__(self, model: Any, body: Any, shapes: Shapes) -> None:
        self._body = body
        self._shapes = shapes
        self.empty: Caches = make_prompt_cache(model)

    def ends(self, start: int, end: int) -> list[int]:
        """Where the chunks end that tokens ``start`` to ``end`` of a prompt are computed in."""
        return self._shapes.ends(start, end)

    def extend(self, state: Caches, ids: NDArray[np.int32]) -> Caches:
        """The state after more tokens of the prompt."""
        return self._run(state, ids)[1]

    def size(self, state: Caches) -> int:
        """Bytes that a state holds."""
        return sum(array.nbytes for array in _arrays(state))

    def needed(self, state: Caches, chain: int, forest: TokenForest) -> int:
        """What :meth:`finish` takes beside the prompt's state, in bytes: a copy of it."""
        return self.size(state)

    def finish(
        self, state: Caches, ids: NDArray[np.int32], forest: TokenForest, *, keep: bool = False
    ) -> tuple[mx.array, Work, After | None]:
        """Runs the prompt's last chunk and the path to each branch.

        Args:
            state: After what is before the chunk.
            ids: The chunk; may be empty if no branch is read off it.
            forest: What follows.
            keep: Whether other forests will follow; then there is a chunk.

        Returns:
            Hidden states at the branches, shape (branches, dims), computed; what was done; and, if kept, where the prompt ended.
        """
        last = mx.zeros((1, 1))  # Read only if there is a chunk.
        if len(ids):
            last, state = self._run(state, ids)
        after = After(state, last, len(ids))
        return (*self.more(after, forest), after if keep else None)

    def more(self, after: After, forest: TokenForest) -> tuple[mx.array, Work]:
        """Runs the paths of another forest after a prompt: hidden states at its branches, and what was done."""
        work = Work()
        rows = []
        for node in forest.branch_nodes.tolist():
            path = forest.tokens[forest.path(node)]
            rows.append(self._run(after.state, path)[0] if len(path) else after.last)
            work.tokens += len(path)
            work.waves += 1
        return mx.concatenate(rows) if rows else after.last[:0], work

    def _run(self, state: Caches, ids: NDArray[np.int32]) -> tuple[mx.array, Caches]:
        """Tokens on a copy of the caches: the last one's hidden state, shape (1, dims), and the copy, computed."""
        state = copy.deepcopy(state)
        hidden = self._body(mx.array(ids)[None], cache=state)[0, -1:]
        mx.eval(hidden, _arrays(state))
        return hidden, state


def _arrays(caches: Caches) -> list[mx.array]:
    return [array for _name, array in tree_flatten([_parts(cache) for cache in caches]) if isinstance(array, mx.array)]


def _parts(cache: Any) -> Any:
    """What a cache holds, without the errors that some raise for a state that is empty."""
    inner = getattr(cache, "caches", None)
    return [_parts(part) for part in inner] if inner is not None else vars(cache)
