"""One forward pass over part of a prompt and a forest, through unmodified mlx-lm model classes.

Two things make a forest possible. The cache object builds the mask: a node sees the prompt and the nodes above it. And each
layer's rotary embedding is wrapped: forest nodes are rotated by their own positions, which restart at the prompt's end. The
cache never writes into the state before it, so a prefix can be shared; sliding-window layers keep the whole state and leave the
window to the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .forest import TokenForest
from .mlx_load import mx, nn

# Keys and values per layer, each of shape (1, heads, tokens, dims).
KeyValues = list[tuple[mx.array, mx.array]]
# A state is kept in the pieces it was computed in: joined layer by layer while it is read, it is never held twice.
State = tuple[KeyValues, ...]


class ForestOffset(int):
    """Where a pass starts, as models hand it to their rotary embedding, with what they do not know of.

    Attributes:
        chain: How many tokens of the pass stand one after the other, before the forest.
        positions: Absolute positions of the forest's nodes, int32, shape (nodes,).
    """

    chain: int
    positions: mx.array

    def __new__(cls, start: int, chain: int, positions: mx.array) -> ForestOffset:
        """Makes one from a start, the chain's length and the nodes' positions."""
        made = super().__new__(cls, start)
        made.chain = chain
        made.positions = positions
        return made


class ForestRotary(nn.Module):
    """A rotary embedding that knows forests; on plain offsets it is the one it wraps."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        # Not a submodule: it must not show among the model's parameters under another name.
        object.__setattr__(self, "inner", inner)

    def __call__(self, x: mx.array, offset: Any = 0, **kwargs: Any) -> mx.array:
        """Rotates ``x``, shape (1, heads, tokens, dims)."""
        if not isinstance(offset, ForestOffset):
            plain: mx.array = self.inner(x, offset=offset, **kwargs)
            return plain
        nodes = x[:, :, offset.chain :].swapaxes(0, 2)
        # With the nodes as the batch, each one has an offset of its own.
        nodes = self.inner(nodes, offset=offset.positions, **kwargs).swapaxes(0, 2)
        chain = [self.inner(x[:, :, : offset.chain], offset=int(offset), **kwargs)] if offset.chain else []
        return mx.concatenate([*chain, nodes], axis=2)


def wrap_rotary(model: Any) -> int:
    """Wraps every rotary embedding of a model that is not wrapped yet; says how many there are."""
    count = 0
    for module in model.modules():
        for name, child in list(module.children().items()):
            if isinstance(child, ForestRotary):
                count += 1
            elif isinstance(child, nn.Module) and ("rope" in name or "rotary" in name):
                setattr(module, name, ForestRotary(child))
                count += 1
    return count


class Pass:
    """The tokens of one forward pass: ``chain`` prompt tokens, then the forest's nodes, after ``start`` tokens held."""

    def __init__(self, start: int, chain: int, forest: TokenForest | None) -> None:
        self.start = start
        self.chain = chain
        self.forest = forest
        self.nodes = 0 if forest is None else len(forest.tokens)
        self.offset: int = start
        if forest is not None and self.nodes:
            self.offset = ForestOffset(start, chain, mx.array(forest.depths + (start + chain)))
        self._masks: dict[int | None, Any] = {}

    def mask(self, window: int | None, as_array: bool) -> Any:
        """The attention mask for layers of a window: bool, shape (tokens, start + tokens), or what stands for one."""
        if not self.nodes and window is None and not as_array:
            # One token sees all there is.
            return None if self.chain == 1 else "causal"
        if window not in self._masks:
            self._masks[window] = mx.array(self._mask(window))
        return self._masks[window]

    def _mask(self, window: int | None) -> NDArray[np.bool_]:
        end = self.start + self.chain
        mask = np.zeros((self.chain + self.nodes, end + self.nodes), bool)
        mask[: self.chain] = np.tri(self.chain, end + self.nodes, self.start, bool)
        depths = np.zeros(0, np.int32)
        if self.forest is not None and self.nodes:
            mask[self.chain :, :end] = True
            mask[self.chain :, end:] = self.forest.ancestors
            depths = self.forest.depths + end
        if window is not None:
            queries = np.concatenate([np.arange(self.start, end, dtype=np.int32), depths])
            keys = np.concatenate([np.arange(end, dtype=np.int32), depths])
            mask &= queries[:, None] - keys[None, :] < window
        return mask


class LayerCache:
    """One layer's keys and values in a pass; what mlx-lm's models expect of a cache."""

    def __init__(self, shared: Pass, before: KeyValues, window: int | None) -> None:
        self._shared = shared
        self._before = before
        self._window = window
        self.new: tuple[mx.array, mx.array] | None = None

    @property
    def offset(self) -> int:
        """Tokens held before this pass."""
        return self._shared.offset

    def make_mask(self, n: int, return_array: bool = False, window_size: int | None = None) -> Any:
        """The pass's mask; models ask for it with the number of tokens."""
        return self._shared.mask(window_size or self._window, return_array)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Keys and values of everything this pass sees, shape (1, heads, tokens, dims)."""
        self.new = (keys, values)
        if self._before:
            keys = mx.concatenate([*(piece[0] for piece in self._before), keys], axis=2)
            values = mx.concatenate([*(piece[1] for piece in self._before), values], axis=2)
        return keys, values


def forward(
    body: Any,
    windows: Sequence[int | None],
    tokens: NDArray[np.int32],
    forest: TokenForest | None,
    before: State,
) -> tuple[mx.array, list[LayerCache]]:
    """Hidden states of one pass; nothing is computed until it is evaluated.

    Args:
        body: The model without its output head.
        windows: Per cache that it takes, the sliding window its layer has by itself.
        tokens: Prompt tokens of this pass, shape (tokens,).
        forest: What follows them, if anything.
        before: The state after the tokens before.

    Returns:
        Hidden states, shape (tokens + nodes, dims), and the caches.
    """
    shared = Pass(length(before), len(tokens), forest)
    caches = [LayerCache(shared, [piece[layer] for piece in before], window) for layer, window in enumerate(windows)]
    ids = tokens if forest is None else np.concatenate([tokens, forest.tokens])
    return body(mx.array(ids)[None], cache=caches)[0], caches


def added(caches: Sequence[LayerCache], tokens: int) -> KeyValues:
    """Keys and values that a pass's first ``tokens`` tokens add to the state, as arrays of their own."""
    pairs = (cache.new for cache in caches if cache.new is not None)
    return [(mx.contiguous(keys[:, :, :tokens]), mx.contiguous(values[:, :, :tokens])) for keys, values in pairs]


def length(state: State) -> int:
    """Tokens a state holds."""
    return sum(piece[0][0].shape[2] for piece in state)
