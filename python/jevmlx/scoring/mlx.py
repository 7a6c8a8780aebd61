"""Scoring on MLX: one forward pass for the end of a prompt and everything that may follow it.

A result depends on the prompt's ids, the split and the forest alone. The computation is cut at places that these fix: the prefix
is computed on its own whether it is held or not, the rest of a long prompt in chunks counted from the split, the forest in waves
counted from its first branch. One question never shares a pass with another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ModelError
from .backend import BranchScores, Stats
from .forest import TokenForest
from .mlx_forward import KeyValues, forward, kept, wrap_rotary
from .mlx_head import OutputHead
from .mlx_load import mx
from .mlx_paths import PathScorer
from .mlx_prefix import PrefixCache

# Long enough that matrix products run at full speed, short enough that attention scores stay small.
CHUNK_TOKENS = 512
# Query tokens × key tokens of one pass: bounds the attention scores of long prompts, 1 MB per head in float32.
CHUNK_CELLS = 1 << 18
# Forest nodes of one pass.
WAVE_NODES = 512
# 100 prefixes of 100 tokens of the embedded model; some 8 prefixes of a 4-billion one.
PREFIX_CACHE_BYTES = 512 << 20

# One-pass logits of the probe may differ from separate passes' by this times their spread; wrong masks or positions differ by
# tenths. 16-bit types carry 3 digits.
_PROBE_TOLERANCE = {mx.float32: 1e-3, mx.float16: 2e-2, mx.bfloat16: 1e-1}

Progress = Callable[[int, int], None]


@dataclass
class _Meter:
    """What a scoring has cost so far."""

    prefill_s: float = 0.0
    rows_s: float = 0.0
    projection_s: float = 0.0
    cached: int = 0
    computed: int = 0
    nodes: int = 0
    waves: int = 0
    halved: int = 0
    logits: list[Any] = field(default_factory=list)
    log_z: list[Any] = field(default_factory=list)

    def stats(self) -> Stats:
        return Stats(
            self.prefill_s,
            self.rows_s,
            self.projection_s,
            self.cached,
            self.computed,
            self.nodes,
            0,
            self.waves,
            self.halved,
            int(mx.get_peak_memory()),
        )


class MlxBackend:
    """A loaded mlx-lm model that scores. All calls must come from the thread it was made in.

    Attributes:
        mode: ``"one-pass"``, or ``"per-path"`` for models whose layers keep something else than keys and values.
        reason: Why the mode is what it is.
    """

    def __init__(self, model: Any, *, prefix_cache_bytes: int | None = None) -> None:
        self._model = model
        self._prefixes = PrefixCache(PREFIX_CACHE_BYTES if prefix_cache_bytes is None else prefix_cache_bytes)
        self._paths = PathScorer(model)
        self.mode, self.reason = self._choose_mode()

    def _choose_mode(self) -> tuple[str, str]:
        text = _text_model(self._model)
        if text is None:
            return "per-path", "the model has no body and head that can be run apart"
        if not _keeps_keys_and_values(self._model):
            return "per-path", "the model has recurrent or hybrid layers"
        if wrap_rotary(text.model) == 0:
            return "per-path", "the model has no rotary embedding that could give forest tokens their positions"
        self._body = text.model
        self._layers = len(_caches(self._model))
        self._head = OutputHead(text)
        try:
            error = self._probe()
        except Exception as failed:  # Whatever the class's own code raises on what it does not expect.
            return "per-path", f"the model's class does not take a forest: {type(failed).__name__}: {failed}"
        if error is not None:
            return "per-path", error
        return "one-pass", "one pass equals separate passes on a probe"

    def _probe(self) -> str | None:
        """Compares a small forest in one pass with separate passes."""
        forest = TokenForest(
            *(np.array(values, np.int32) for values in ([3, 5, 7, 9], [-1, 0, 0, -1], [0, 1, 1, 0], [-1, 1, 2, 3])),
            np.array([0, 3, 6, 9, 12], np.int32),
            np.array([1, 2, 4] * 4, np.int32),
        )
        prompt = [2, 4, 6, 8, 10, 12, 14]
        ours = self.score(prompt, 3, forest)
        theirs = self._paths.score(prompt, forest, True)
        hidden, _ = forward(self._body, self._layers, prompt[:1], None, None)
        bound = _PROBE_TOLERANCE.get(hidden.dtype, 1e-1)
        scale = max(float(np.abs(theirs.logits).max()), 1.0)
        worst = float(np.abs(ours.logits - theirs.logits).max())
        if ours.log_z is not None and theirs.log_z is not None:
            worst = max(worst, float(np.abs(ours.log_z - theirs.log_z).max()))
        if worst <= bound * scale:
            return None
        return f"one pass differs from separate passes by {worst:.2g} on a probe"

    def score(
        self,
        prompt_ids: Sequence[int],
        split: int,
        forest: TokenForest,
        *,
        legal_mass: bool = True,
        budget_bytes: int | None = None,
        progress: Progress | None = None,
    ) -> BranchScores:
        """See :class:`jevmlx.scoring.backend.Backend`."""
        mx.reset_peak_memory()
        if len(forest.branch_nodes) == 0:
            # Nothing is in question, so nothing is computed.
            return BranchScores(
                np.zeros(0, np.float32), np.zeros(0, np.float32) if legal_mass else None, _Meter().stats()
            )
        if getattr(self, "mode", "one-pass") == "per-path":
            return _checked(self._paths.score(prompt_ids, forest, legal_mass))
        meter = _Meter()
        state = self._prefix(prompt_ids[:split], meter, progress, len(prompt_ids))
        rest, state = self._chunks(prompt_ids, split, state, meter, progress)
        self._waves(rest, state, forest, legal_mass, budget_bytes, meter)
        if progress is not None:
            progress(len(prompt_ids), len(prompt_ids))
        log_z = np.concatenate([np.asarray(part) for part in meter.log_z]) if legal_mass else None
        logits = np.concatenate([np.asarray(part) for part in meter.logits])
        return _checked(BranchScores(logits, log_z, meter.stats()))

    def _prefix(self, ids: Sequence[int], meter: _Meter, progress: Progress | None, total: int) -> KeyValues | None:
        """KV state of the shared beginning, held or computed."""
        if not ids:
            return None
        held = self._prefixes.get(ids)
        if held is not None:
            meter.cached = len(ids)
            return held
        state: KeyValues | None = None
        done = 0
        while done < len(ids):
            size = min(_chunk_size(done), len(ids) - done)
            state = self._chunk(ids[done : done + size], state, meter)
            done += size
            if progress is not None:
                progress(done, total)
        assert state is not None  # noqa: S101 - ids is not empty
        self._prefixes.put(ids, state)
        return state

    def _chunks(
        self, ids: Sequence[int], split: int, state: KeyValues | None, meter: _Meter, progress: Progress | None
    ) -> tuple[Sequence[int], KeyValues | None]:
        """Computes all but the last chunk of what follows the split; the last one goes with the forest."""
        done = split
        while len(ids) - done > _chunk_size(len(ids)):
            size = _chunk_size(len(ids))
            state = self._chunk(ids[done : done + size], state, meter)
            done += size
            if progress is not None:
                progress(done, len(ids))
        return ids[done:], state

    def _chunk(self, ids: Sequence[int], state: KeyValues | None, meter: _Meter) -> KeyValues:
        started = time.perf_counter()
        _, caches = forward(self._body, self._layers, ids, None, state)
        after = kept(caches, 1 << 30)
        mx.eval(after)
        meter.computed += len(ids)
        meter.prefill_s += time.perf_counter() - started
        return after

    def _waves(
        self,
        rest: Sequence[int],
        state: KeyValues | None,
        forest: TokenForest,
        legal_mass: bool,
        budget_bytes: int | None,
        meter: _Meter,
    ) -> None:
        waves = forest.waves(WAVE_NODES)
        meter.computed += len(rest)
        last: Any = None
        for index, wave in enumerate(waves):
            keep = index == 0 and len(waves) > 1
            last, after = self._wave(rest if index == 0 else (), state, wave, legal_mass, meter, last, keep)
            if keep:
                state = after

    def _wave(
        self,
        rest: Sequence[int],
        state: KeyValues | None,
        wave: TokenForest,
        legal_mass: bool,
        meter: _Meter,
        last: Any,
        keep: bool,
    ) -> tuple[Any, KeyValues | None]:
        """One pass over ``rest`` and a wave; gives the prompt's last hidden state and, to keep, the prompt's KV state."""
        started = time.perf_counter()
        hidden, caches = forward(self._body, self._layers, rest, wave, state)
        hidden = hidden[0]
        if rest:
            last = hidden[len(rest) - 1]
        nodes = wave.branch_nodes + len(rest)
        at = hidden[mx.array(np.maximum(nodes, 0))]
        if (wave.branch_nodes < 0).any() and last is not None:
            at = mx.where(mx.array(wave.branch_nodes < 0)[:, None], last[None], at)
        after = kept(caches, len(rest) + (state[0][0].shape[2] if state else 0)) if keep else None
        mx.eval(at, last, after)
        meter.rows_s += time.perf_counter() - started
        self._project(at, wave, legal_mass, meter)
        meter.waves += 1
        meter.nodes += len(wave.tokens)
        return last, after

    def _project(self, at: Any, wave: TokenForest, legal_mass: bool, meter: _Meter) -> None:
        started = time.perf_counter()
        logits = self._head.logits(at[mx.array(wave.branch_of)], mx.array(wave.branch_tokens)).astype(mx.float32)
        # Evaluated by itself, so that asking for the legal mass changes nothing about it.
        mx.eval(logits)
        meter.logits.append(logits)
        if legal_mass:
            log_z = mx.logsumexp(self._head.all_logits(at).astype(mx.float32), axis=-1)
            mx.eval(log_z)
            meter.log_z.append(log_z)
        meter.projection_s += time.perf_counter() - started


def _chunk_size(keys: int) -> int:
    """Tokens of a chunk of a prompt of ``keys`` tokens."""
    return max(64, min(CHUNK_TOKENS, CHUNK_CELLS // max(keys, 1) // 32 * 32))


def _text_model(model: Any) -> Any:
    """The part of a model that has a body (``model``) with token embeddings and returns logits."""
    for candidate in (model, getattr(model, "language_model", None)):
        if hasattr(getattr(candidate, "model", None), "embed_tokens"):
            return candidate
    return None


def _caches(model: Any) -> list[Any]:
    from mlx_lm.models.cache import make_prompt_cache

    return list(make_prompt_cache(model))


def _keeps_keys_and_values(model: Any) -> bool:
    from mlx_lm.models.cache import KVCache, RotatingKVCache

    return all(type(cache) in (KVCache, RotatingKVCache) for cache in _caches(model))


def _checked(scores: BranchScores) -> BranchScores:
    finite = np.isfinite(scores.logits).all() and (scores.log_z is None or np.isfinite(scores.log_z).all())
    if finite:
        return scores
    raise ModelError(
        "model.non_finite",
        "the model gave logits that are not finite numbers; its weights are damaged, or it needs a wider type: "
        "load it again with dtype='float32'",
    )
