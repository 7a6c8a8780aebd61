"""Scoring one question on the device, wave by wave, without computing its prompt twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from .compiled import CompiledWave
from .lru import LruCache
from .options import Options
from .questions import Group, Question
from .scoring.backend import Backend, BranchScores, Stats

PriorCache = LruCache[tuple[str, ...], BranchScores]

# Priors held; each takes some kB.
_MAX_PRIORS = 1024


def prior_cache() -> PriorCache:
    """Scores of questions about no content, by everything they depend on."""
    return LruCache(_MAX_PRIORS)


class QuestionScorer:
    """One question on the device.

    Args:
        backend: What computes.
        group: The fields it answers, choices in the caller's order.
        question: The question.
        options: How it is asked.
        budget: Bound of the memory its rows may take, in bytes.
        priors: Scores held for questions about no content.
    """

    def __init__(
        self,
        backend: Backend,
        group: Group,
        question: Question,
        options: Options,
        budget: int | None,
        priors: PriorCache,
    ) -> None:
        self._backend = backend
        self._group = group
        self._question = question
        self._legal_mass = options.legal_mass and question.role == "question"
        self._budget = budget
        self._priors = priors if question.role == "prior" else None
        self._after: Any = None

    def first(self, progress: Callable[[int, int], None] | None, *, keep: bool) -> BranchScores:
        """Scores of the fields that depend on no other.

        Raises:
            ModelError: The model gave logits that are no numbers, or ran out of memory.
            ConfigError: The memory budget is too small.
        """
        return self._held_or("", lambda: self._prompt(progress, keep=keep))

    def wave(self, depth: int, decided: Mapping[str, int]) -> tuple[CompiledWave, BranchScores]:
        """Scores of the fields of one depth, given what was decided.

        Args:
            depth: The wave.
            decided: Field → index of its choice in the caller's order.

        Raises:
            CompileError: This tokenizer cannot tell the answers apart.
            ModelError: The model gave logits that are no numbers, or ran out of memory.
            ConfigError: The memory budget is too small.
        """
        compiled = self._question.compiled
        indices = []
        for (name, spec), own in zip(self._group.fields, compiled.fields, strict=True):
            choice = decided.get(name)
            indices.append(0 if choice is None else own.choices.index(spec.choices[choice]))
        wave = compiled.wave(depth, indices)
        return wave, self._held_or(wave.plan_hash, lambda: self._more(wave))

    def _prompt(self, progress: Callable[[int, int], None] | None, *, keep: bool) -> BranchScores:
        asked = self._question
        scores = self._backend.score(
            asked.prompt.ids,
            asked.split,
            asked.compiled.forest,
            legal_mass=self._legal_mass,
            budget_bytes=self._budget,
            progress=progress,
            keep=keep,
        )
        self._after = scores.after
        return replace(scores, after=None) if keep else scores

    def _more(self, wave: CompiledWave) -> BranchScores:
        if self._after is None:
            # The prior's own scores were held, its state was not.
            self._prompt(None, keep=True)
        return self._backend.score_more(
            self._after, wave.forest, legal_mass=self._legal_mass, budget_bytes=self._budget
        )

    def _held_or(self, wave: str, compute: Callable[[], BranchScores]) -> BranchScores:
        if self._priors is None:
            return compute()
        key = (self._question.prompt.sha256, self._question.compiled.plan.plan_hash, wave)
        found = self._priors.get(key)
        if found is None:
            found = compute()
            # Without what it cost, which is paid once, and without the state it was computed with.
            self._priors.put(key, replace(found, stats=Stats.nothing(), after=None))
        return found
