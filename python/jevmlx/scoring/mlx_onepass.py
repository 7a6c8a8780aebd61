"""The one-pass way: the rest of the prompt and the forest go through the model together.

Passes have shapes that follow from positions and the forest alone (see :mod:`jevmlx.scoring.mlx`). On a CPU attention scores
are held whole, so a chunk far into a prompt is shorter: that, and not the prompt's length, bounds the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .forest import TokenForest
from .mlx_forward import State, added, forward, length
from .mlx_load import mx
from .mlx_memory import Needs, check_available, is_out_of_memory


@dataclass(frozen=True)
class Shapes:
    """The fixed sizes of passes.

    Attributes:
        wave: Forest nodes in one pass, unless one branch needs more.
        least: Prompt tokens in a chunk, at least.
        most: Prompt tokens in a chunk, at most.
        step: Chunks are shorter than ``most`` by multiples of this.
        scores: Tokens times attended tokens in a chunk, at most, where that leaves ``least``.
    """

    wave: int
    least: int
    most: int
    step: int
    scores: int

    def room(self, start: int) -> int:
        """Tokens of a pass that starts after ``start`` tokens."""
        tokens = self.most
        while tokens > self.least and tokens * (start + tokens) > self.scores:
            tokens -= self.step
        return tokens

    def ends(self, start: int, end: int) -> list[int]:
        """Where the chunks end that tokens ``start`` to ``end`` of a prompt are computed in."""
        ends = []
        while start < end:
            start = min(start + self.room(start), end)
            ends.append(start)
        return ends


# A CPU multiplies 128 rows nearly as fast as 2,000, and holds this many attention scores per head: 14 MB with nine heads. The
# products of a GPU want more rows, and its attention is one kernel.
CPU_SHAPES = Shapes(wave=128, least=128, most=576, step=64, scores=400_000)
GPU_SHAPES = Shapes(wave=1024, least=2048, most=2048, step=1, scores=2**62)


@dataclass
class Work:
    """What the last passes of a prompt amounted to: forest tokens computed, passes, and waves halved for lack of memory."""

    tokens: int = 0
    waves: int = 0
    halved: int = 0

    def count(self, wave: TokenForest) -> None:
        """Counts one pass."""
        self.tokens += len(wave.tokens)
        self.waves += 1


@dataclass(frozen=True)
class After:
    """Where a prompt ended, for forests that follow it later.

    Attributes:
        state: The whole prompt's state.
        last: The last token's hidden state, shape (1, dims).
        tokens: The prompt's tokens, as far as they are known.
    """

    state: Any
    last: mx.array
    tokens: int


class OnePass:
    """Runs prompts and forests through a model's body.

    Args:
        body: Token ids and caches to hidden states.
        windows: Per cache, the sliding window its layer has by itself.
        needs: What a pass takes.
        shapes: The sizes of passes.
    """

    empty: State = ()

    def __init__(self, body: Any, windows: Sequence[int | None], needs: Needs, shapes: Shapes) -> None:
        self._body = body
        self._windows = windows
        self._needs = needs
        self._shapes = shapes

    def ends(self, start: int, end: int) -> list[int]:
        """Where the chunks end that tokens ``start`` to ``end`` of a prompt are computed in."""
        return self._shapes.ends(start, end)

    def extend(self, state: State, ids: NDArray[np.int32]) -> State:
        """The state after more tokens of the prompt."""
        self._check(state, len(ids))
        _hidden, caches = forward(self._body, self._windows, ids, None, state)
        piece = added(caches, len(ids))
        mx.eval(piece)
        return (*state, piece)

    def size(self, state: State) -> int:
        """Bytes that a state holds."""
        return sum(array.nbytes for piece in state for pair in piece for array in pair)

    def needed(self, state: State, chain: int, forest: TokenForest) -> int:
        """An upper bound of the bytes :meth:`finish` takes beside the prompt's state."""
        start = length(state)
        waves = forest.waves(self._shapes.wave)
        together = self._together(start, chain, waves[0])
        passes = [(len(wave.tokens), chain + len(wave.tokens)) for wave in waves[together:]]
        first = chain + (len(waves[0].tokens) if together else 0)
        return max(self._needs.of_pass(tokens, start + keys) for tokens, keys in [*passes, (first, first)])

    def finish(
        self, state: State, ids: NDArray[np.int32], forest: TokenForest, *, keep: bool = False
    ) -> tuple[mx.array, Work, After | None]:
        """Runs the prompt's last chunk and the forest.

        Args:
            state: After what is before the chunk.
            ids: The chunk; may be empty if no branch is read off it.
            forest: What follows.
            keep: Whether other forests will follow; then there is a chunk.

        Returns:
            Hidden states at the branches, shape (branches, dims), computed; what was done; and, if kept, where the prompt ended.
        """
        work = Work()
        end = length(state) + len(ids)
        first, *rest = forest.waves(self._shapes.wave)
        if self._together(length(state), len(ids), first):
            try:
                last, rows, state = self._pass(state, ids, first, None, keep=keep or bool(rest))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                work.halved += 1
            else:
                work.count(first)
                hidden = mx.concatenate([rows, *self._waves(state, rest, last, work)])
                return hidden, work, After(state, last, end) if keep else None
        before: mx.array | None = None
        if len(ids):
            before, _, state = self._pass(state, ids, None, None, keep=True)
        hidden = mx.concatenate(self._waves(state, [first, *rest], before, work))
        return hidden, work, After(state, before, end) if keep and before is not None else None

    def more(self, after: After, forest: TokenForest) -> tuple[mx.array, Work]:
        """Runs another forest after a prompt: hidden states at its branches, and what was done."""
        work = Work()
        return mx.concatenate(self._waves(after.state, forest.waves(self._shapes.wave), after.last, work)), work

    def _together(self, start: int, chain: int, first: TokenForest) -> bool:
        return chain == 0 or chain + len(first.tokens) <= self._shapes.room(start)

    def _check(self, state: State, tokens: int) -> None:
        check_available(self._needs.of_pass(tokens, length(state) + tokens))

    def _waves(self, state: State, waves: Sequence[TokenForest], last: mx.array | None, work: Work) -> list[mx.array]:
        """Hidden states at the branches of one wave after the other; one for which memory runs out is halved."""
        rows = []
        for wave in waves:
            try:
                rows.append(self._pass(state, wave.tokens[:0], wave, last, keep=False)[1])
            except (RuntimeError, MemoryError) as error:
                halves = wave.waves(max(1, len(wave.tokens) // 2))
                if not is_out_of_memory(error) or len(halves) == 1:
                    raise
                work.halved += 1
                rows += self._waves(state, halves, last, work)
            else:
                work.count(wave)
        return rows

    def _pass(
        self, state: State, ids: NDArray[np.int32], forest: TokenForest | None, last: mx.array | None, *, keep: bool
    ) -> tuple[mx.array, mx.array, State]:
        """One pass, computed: the last prompt token's hidden state, those at the branches, and the state with ``ids``."""
        if forest is not None and not len(forest.tokens) and not len(ids) and last is not None:
            return last, last[mx.array(forest.branch_nodes + 1)], state
        chain = len(ids)
        self._check(state, chain + (0 if forest is None else len(forest.tokens)))
        hidden, caches = forward(self._body, self._windows, ids, forest, state)
        if chain:
            last = hidden[chain - 1 : chain]
        elif last is None:
            # No branch is read off the prompt's last token.
            last = hidden[:1]
        nodes = np.zeros(0, np.int32) if forest is None else forest.branch_nodes
        rows = mx.concatenate([last, hidden[chain:]])[mx.array(nodes + 1)]
        piece = added(caches, chain) if keep and chain else []
        mx.eval(last, rows, piece)
        return last, rows, (*state, piece) if piece else state
