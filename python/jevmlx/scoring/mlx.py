"""Scoring with MLX: the backend that the engine calls.

What decides the bits of a result is the shape of every kernel call: with the libraries MLX computes with, a token's numbers
change in their last digits with the number of tokens beside it. So the shapes follow from the prompt's token ids, the split and
the forest alone. A prompt is computed in chunks whose ends depend on positions only; a forest in waves of a fixed size; what a
cache holds, how much memory is allowed, and what else is asked never move a boundary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, ModelError
from .backend import BranchScores, Stats
from .forest import TokenForest
from .mlx_load import mx, on_cpu, prepare_device
from .mlx_memory import is_out_of_memory
from .mlx_onepass import CPU_SHAPES, GPU_SHAPES, After, OnePass, Shapes
from .mlx_paths import PerPath
from .mlx_prefix import PrefixCache
from .mlx_probe import probe

# States of schema prefixes that are kept. One of 300 tokens takes 14 MB for a 135M model, 40 MB for one of 8B in 16 bits.
PREFIX_CACHE_BYTES = 2**30
# Positions projected on the vocabulary at a time: with 262,144 tokens their logits take 34 MB.
PROJECTED = 32


class MlxBackend:
    """Scores with an mlx-lm model.

    What a method returns or keeps is computed when it returns, so a backend may be used from any thread, one at a time. It must be
    made in the thread that the model was made in: MLX ties what is not computed yet (a model's rotary frequencies) to its thread.

    Args:
        model: An mlx-lm model with its weights loaded; its rotary embeddings are wrapped, which changes nothing else.
        prefix_cache_bytes: Bound of the states kept; by default ``PREFIX_CACHE_BYTES``.
        shapes: The sizes of passes; by default the device's. Other sizes give other last digits.

    Attributes:
        mode: ``"one-pass"``, or ``"per-path"`` for a model that cannot take a forest.
        reason: Why it cannot; empty in one-pass mode.
        prefixes: The states kept.
        weights_bytes: What the weights take.
    """

    def __init__(self, model: Any, *, prefix_cache_bytes: int | None = None, shapes: Shapes | None = None) -> None:
        from mlx.utils import tree_flatten

        prepare_device()
        able = probe(model)
        shapes = shapes or (CPU_SHAPES if on_cpu() else GPU_SHAPES)
        self.mode: str = "per-path" if able.windows is None else "one-pass"
        self.reason: str = able.reason
        self._head = able.head
        self._needs = able.needs
        self._runner: OnePass | PerPath
        if able.windows is None:
            self._runner = PerPath(model, able.head.body, shapes)
        else:
            self._runner = OnePass(able.head.body, able.windows, able.needs, shapes)
        self.weights_bytes = sum(weight.nbytes for _, weight in tree_flatten(model.parameters()))
        bound = PREFIX_CACHE_BYTES if prefix_cache_bytes is None else prefix_cache_bytes
        self.prefixes: PrefixCache[Any] = PrefixCache(bound)

    def score(
        self,
        prompt_ids: Sequence[int],
        split: int,
        forest: TokenForest,
        *,
        legal_mass: bool = True,
        budget_bytes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        keep: bool = False,
    ) -> BranchScores:
        """See :meth:`jevmlx.scoring.backend.Backend.score`."""
        ids = np.asarray(prompt_ids, np.int32)
        if not len(forest.branch_nodes) and not keep:
            return _nothing(legal_mass)
        if split == len(ids) and (keep or (forest.branch_nodes < 0).any()):
            # The first branch is read off the prompt's last token, which a kept state no longer shows.
            split -= 1
        with _memory_told(len(ids), len(forest.tokens)):
            return self._score(ids, split, forest, legal_mass, budget_bytes, progress or _quiet, keep)

    def score_more(
        self, after: After, forest: TokenForest, *, legal_mass: bool = True, budget_bytes: int | None = None
    ) -> BranchScores:
        """See :meth:`jevmlx.scoring.backend.Backend.score_more`."""
        if not len(forest.branch_nodes):
            return _nothing(legal_mass)
        with _memory_told(after.tokens, len(forest.tokens)):
            started = time.perf_counter()
            mx.reset_peak_memory()
            self._admit(after.state, 0, forest, legal_mass, budget_bytes)
            hidden, work = self._runner.more(after, forest)
            passed = time.perf_counter()
            logits, log_z = self._project(hidden, forest, legal_mass)
            stats = replace(
                Stats.nothing(),
                rows_s=passed - started,
                projection_s=time.perf_counter() - passed,
                row_tokens=work.tokens,
                waves=work.waves,
                halved=work.halved,
                peak_bytes=mx.get_peak_memory(),
            )
            return BranchScores(logits, log_z, stats)

    def _score(
        self,
        ids: NDArray[np.int32],
        split: int,
        forest: TokenForest,
        legal_mass: bool,
        budget: int | None,
        progress: Callable[[int, int], None],
        keep: bool,
    ) -> BranchScores:
        started = time.perf_counter()
        mx.reset_peak_memory()
        state = self.prefixes.get(ids[:split])
        cached = 0 if state is None else split
        total = len(ids) - cached

        def extend(state: Any, start: int, ends: Sequence[int]) -> Any:
            for end in ends:
                state = self._runner.extend(state, ids[start:end])
                progress(end - cached, total)
                start = end
            return state

        if state is None:
            state = extend(self._runner.empty, 0, self._runner.ends(0, split))
            if split:
                self.prefixes.put(ids[:split], state, self._runner.size(state))
        between = self._runner.ends(split, len(ids))[:-1]
        state = extend(state, split, between)
        last = ids[between[-1] if between else split :]
        self._admit(state, len(last), forest, legal_mass, budget)
        prefilled = time.perf_counter()
        hidden, work, after = self._runner.finish(state, last, forest, keep=keep)
        progress(total, total)
        passed = time.perf_counter()
        logits, log_z = self._project(hidden, forest, legal_mass)
        stats = Stats(
            prefill_s=prefilled - started,
            rows_s=passed - prefilled,
            projection_s=time.perf_counter() - passed,
            cached_tokens=cached,
            computed_tokens=total,
            row_tokens=work.tokens,
            padding=0,
            waves=work.waves,
            halved=work.halved,
            peak_bytes=mx.get_peak_memory(),
        )
        return BranchScores(logits, log_z, stats, after)

    def _admit(self, state: Any, chain: int, forest: TokenForest, legal_mass: bool, budget: int | None) -> None:
        """Refuses what a budget does not allow. It is not computed in smaller parts: that would change the numbers."""
        if budget is None:
            return
        needed = self._runner.needed(state, chain, forest)
        if legal_mass:
            needed = max(needed, self._needs.of_projection(min(PROJECTED, len(forest.branch_nodes))))
        if needed > budget:
            raise ConfigError(
                "config.memory_budget",
                f"answers after this prompt take up to {needed} bytes, {budget} are allowed; allow that many, or shorten "
                "the context" + (", or do without the legal mass" if legal_mass else ""),
                "memory_budget_bytes",
            )

    def _project(
        self, hidden: mx.array, forest: TokenForest, legal_mass: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Logits of the allowed tokens and, if asked for, the whole vocabulary's log-sum-exp; from hidden states."""
        if not len(forest.branch_nodes):
            none = np.zeros(0, np.float32)
            return none, none if legal_mass else None
        logits = self._head.logits(hidden[mx.array(forest.branch_of)], mx.array(forest.branch_tokens))
        found = np.array(logits.astype(mx.float32))
        if not np.isfinite(found).all():
            raise _non_finite()
        if not legal_mass:
            return found, None
        parts = []
        for start in range(0, len(hidden), PROJECTED):
            block = self._head.all_logits(hidden[start : start + PROJECTED]).astype(mx.float32)
            parts.append(np.array(mx.logsumexp(block, axis=-1)))
        log_z = np.concatenate(parts)
        if not np.isfinite(log_z).all():
            raise _non_finite()
        return found, log_z


def _quiet(_done: int, _total: int) -> None:
    pass


def _non_finite() -> ModelError:
    return ModelError(
        "model.non_finite",
        "the model gave logits that are NaN or infinite: its weights are damaged, or its numbers overflow this dtype; fetch "
        "it again, or load it with dtype='float32'",
    )


def _nothing(legal_mass: bool) -> BranchScores:
    """The answer where nothing is to be decided."""
    none = np.zeros(0, np.float32)
    return BranchScores(none, none if legal_mass else None, Stats.nothing())


@contextmanager
def _memory_told(prompt: int, answers: int) -> Iterator[None]:
    """Makes an error that says what to do of memory that runs out."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ModelError(
            "model.out_of_memory",
            f"{prompt} prompt tokens and {answers} tokens of answers do not fit into memory ({error}); "
            "shorten the context, ask fewer fields at once, or take a smaller model",
        ) from error
