"""The fallback for models that cannot take a forest: the prompt first, then each path to a branch on a copy of its state."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .backend import BranchScores, Stats
from .forest import TokenForest
from .mlx_load import mx


class PathScorer:
    """Scores with the model as it is."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def score(self, prompt_ids: Sequence[int], forest: TokenForest, legal_mass: bool) -> BranchScores:
        """Logits at the forest's branches; see :class:`jevmlx.scoring.backend.Backend`."""
        from mlx_lm.models.cache import make_prompt_cache

        started = time.perf_counter()
        state = make_prompt_cache(self._model)
        at_end = self._last_logits(prompt_ids, state)
        mx.eval(at_end)
        prefilled = time.perf_counter()
        logits: list[np.ndarray] = []
        log_z: list[float] = []
        computed = 0
        for branch, node in enumerate(forest.branch_nodes.tolist()):
            path = _path(forest, node)
            computed += len(path)
            at = self._last_logits(path, copy.deepcopy(state)) if path else at_end
            at = at.astype(mx.float32)
            allowed = forest.branch_tokens[forest.branch_offsets[branch] : forest.branch_offsets[branch + 1]]
            logits.append(np.asarray(at[mx.array(allowed)]))
            if legal_mass:
                log_z.append(mx.logsumexp(at).item())
        rows_s = time.perf_counter() - prefilled
        branches = len(forest.branch_nodes)
        return BranchScores(
            np.concatenate(logits).astype(np.float32),
            np.array(log_z, np.float32) if legal_mass else None,
            Stats(
                prefilled - started,
                rows_s,
                0.0,
                0,
                len(prompt_ids),
                computed,
                0,
                branches,
                0,
                int(mx.get_peak_memory()),
            ),
        )

    def _last_logits(self, ids: Sequence[int], state: Any) -> mx.array:
        return self._model(mx.array(np.asarray(ids, np.int32))[None], cache=state)[0, -1]


def _path(forest: TokenForest, node: int) -> list[int]:
    path: list[int] = []
    while node >= 0:
        path.append(int(forest.tokens[node]))
        node = int(forest.parents[node])
    return path[::-1]
