"""One forward pass over part of a prompt and a forest, through unmodified mlx-lm model classes.

Two things make a forest possible. The cache object builds the mask: a node sees the prompt and the nodes above it. And each
layer's rotary embedding is wrapped: forest nodes are rotated by their own positions, which restart at the prompt's end. The
cache appends to the state before it without writing into it, so a prefix can be shared; sliding-window layers keep the whole
state and leave the window to the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ModelError
from .forest import TokenForest
from .mlx_load import mx, nn

KeyValues = list[tuple[mx.array, mx.array]]


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
            return self.inner(x, offset=offset, **kwargs)
        nodes = x[:, :, offset.chain :].swapaxes(0, 2)
        # With the nodes as the batch, each one has an offset of its own.
        nodes = self.inner(nodes, offset=offset.positions, **kwargs).swapaxes(0, 2)
        if offset.chain == 0:
            return nodes
        chain = self.inner(x[:, :, : offset.chain], offset=int(offset), **kwargs)
        return mx.concatenate([chain, nodes], axis=2)


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
        """The attention mask for layers of a window: bool, shape (tokens, start + tokens), or ``"causal"``."""
        if not self.nodes and window is None and not as_array:
            # One token sees all there is.
            return None if self.chain == 1 else "causal"
        if window not in self._masks:
            self._masks[window] = mx.array(self._mask(window))
        return self._masks[window]

    def _mask(self, window: int | None) -> np.ndarray:
        end = self.start + self.chain
        mask = np.zeros((self.chain + self.nodes, end + self.nodes), bool)
        mask[: self.chain] = np.tri(self.chain, end + self.nodes, self.start, bool)
        if self.forest is not None and self.nodes:
            mask[self.chain :, :end] = True
            mask[self.chain :, end:] = self.forest.ancestors
        if window is not None:
            own = np.arange(self.start, end, dtype=np.int32)
            depths = self.forest.depths + end if self.forest is not None else own[:0]
            queries = np.concatenate([own, depths])
            keys = np.concatenate([np.arange(end, dtype=np.int32), depths])
            mask &= queries[:, None] - keys[None, :] < window
        return mask


class LayerCache:
    """One layer's keys and values in a pass; what mlx-lm's models expect of a cache."""

    def __init__(self, shared: Pass, before: tuple[mx.array, mx.array] | None) -> None:
        self._shared = shared
        self._before = before
        self.after: tuple[mx.array, mx.array] | None = None

    @property
    def offset(self) -> int:
        """Tokens held before this pass."""
        return self._shared.offset

    def make_mask(self, n: int, return_array: bool = False, window_size: int | None = None) -> Any:
        """The pass's mask; models ask for it with the number of tokens."""
        return self._shared.mask(window_size, return_array)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Keys and values of everything this pass sees, shape (1, heads, tokens, dims)."""
        if self._before is not None:
            keys = mx.concatenate([self._before[0], keys], axis=2)
            values = mx.concatenate([self._before[1], values], axis=2)
        self.after = (keys, values)
        return keys, values


def forward(
    body: Any, layers: int, tokens: Sequence[int], forest: TokenForest | None, before: KeyValues | None
) -> tuple[mx.array, list[LayerCache]]:
    """Hidden states of one pass; nothing is computed until it is evaluated.

    Args:
        body: The model without its output head.
        layers: Number of caches it takes.
        tokens: Prompt tokens of this pass.
        forest: What follows them, if anything.
        before: Keys and values of the tokens before, one pair per layer.

    Returns:
        Hidden states, shape (1, tokens + nodes, dims), and the caches.
    """
    start = 0 if before is None else before[0][0].shape[2]
    shared = Pass(start, len(tokens), forest)
    caches = [LayerCache(shared, None if before is None else before[layer]) for layer in range(layers)]
    ids = np.asarray(tokens, np.int32)
    if forest is not None:
        ids = np.concatenate([ids, forest.tokens])
    return body(mx.array(ids)[None], cache=caches), caches


def kept(caches: Sequence[LayerCache], tokens: int) -> KeyValues:
    """Keys and values of the first ``tokens`` tokens, as arrays of their own."""
    out: KeyValues = []
    for cache in caches:
        if cache.after is None:
            raise ModelError("model.unsupported", "a layer of this model keeps no keys and values")
        keys, values = cache.after
        if keys.shape[2] > tokens:
            keys, values = mx.contiguous(keys[:, :, :tokens]), mx.contiguous(values[:, :, :tokens])
        out.append((keys, values))
    return out
