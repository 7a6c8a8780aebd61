"""The seam between deciding and computing: what a backend is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .forest import TokenForest


@dataclass(frozen=True)
class Stats:
    """What one scoring cost.

    Attributes:
        prefill_s: Seconds for the prompt's tokens.
        rows_s: Seconds for the forest, together with the last part of the prompt.
        projection_s: Seconds from hidden states at the branches to logits, the whole vocabulary's among them if asked for.
        cached_tokens: Prompt tokens whose KV state was held.
        computed_tokens: Prompt tokens computed.
        row_tokens: Forest tokens computed.
        padding: Tokens computed for nothing but shape.
        waves: Forward passes the forest was split into.
        halved: How often a wave was computed in smaller parts because memory ran out; last digits can differ where it is not 0.
        peak_bytes: The device library's peak memory; ``None`` where it does not tell.
    """

    prefill_s: float
    rows_s: float
    projection_s: float
    cached_tokens: int
    computed_tokens: int
    row_tokens: int
    padding: int
    waves: int
    halved: int
    peak_bytes: int | None

    @classmethod
    def nothing(cls) -> Stats:
        """The cost of what was not computed."""
        return cls(0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, None)

    def share(self, parts: int) -> Stats:
        """These costs shared out evenly."""
        return replace(
            self,
            prefill_s=self.prefill_s / parts,
            rows_s=self.rows_s / parts,
            projection_s=self.projection_s / parts,
            row_tokens=self.row_tokens // parts,
        )


@dataclass(frozen=True)
class BranchScores:
    """Logits where rows branch.

    Attributes:
        logits: Of the allowed tokens, as the model defines them (after its scaling and soft-capping), float32, shape (allowed,).
        log_z: Log-sum-exp of the whole vocabulary's logits per branch, float32, shape (branches,); ``None`` if not asked for.
        stats: What it cost.
        after: The backend's state after the prompt, for :meth:`Backend.score_more`; ``None`` unless it was asked to keep it.
    """

    logits: NDArray[np.float32]
    log_z: NDArray[np.float32] | None
    stats: Stats
    after: Any = None


class Backend(Protocol):
    """A loaded model that scores; its methods are called from one thread at a time."""

    @property
    def mode(self) -> str:
        """``"one-pass"`` or ``"per-path"``."""

    @property
    def reason(self) -> str:
        """Why the mode is not ``"one-pass"``; empty if it is."""

    @property
    def weights_bytes(self) -> int:
        """What the weights take in memory."""

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
        """Logits at the forest's branches after a prompt.

        Args:
            prompt_ids: Token ids of the prompt.
            split: How many of them are shared with other prompts; the computation is split there, cached or not.
            forest: What follows the prompt.
            legal_mass: Whether ``log_z`` is asked for.
            budget_bytes: Bound of the memory the forest's computation may take beside the prompt's KV state. It is always
                computed in parts of a fixed size, so a budget changes no number: one that is too small for a part is refused.
            progress: Told (prompt tokens computed, prompt tokens to compute) after each part of a prompt; tokens that are
                held count as neither.
            keep: Whether more forests will follow the same prompt; changes no number.

        Raises:
            ModelError: ``model.non_finite``, ``model.out_of_memory``.
            ConfigError: ``config.memory_budget``.
        """

    def score_more(
        self, after: Any, forest: TokenForest, *, legal_mass: bool = True, budget_bytes: int | None = None
    ) -> BranchScores:
        """Logits at the branches of another forest after the same prompt, of which nothing is computed again.

        Args:
            after: From the prompt's own scores, made with ``keep``.
            forest: What follows the prompt.
            legal_mass: See :meth:`score`.
            budget_bytes: See :meth:`score`.

        Raises:
            ModelError: ``model.non_finite``, ``model.out_of_memory``.
            ConfigError: ``config.memory_budget``.
        """
