"""A schema compiled for a loaded model: the plan, and what is derived from it once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ._core import (
    PROMPT_VERSION,
    PROMPT_VERSION_KEYED,
    PROMPT_VERSION_MESSAGES,
    Field,
    Plan,
    token_ids_sha256,
)
from .decisions import Paths
from .frames import Frame, find_frame
from .prefix import MESSAGE_SAMPLES, shared_length
from .profiles import Profile
from .prompts import Prompt, conversation, encode_turns
from .scoring.forest import TokenForest
from .tokenizers import TextTokenizer


@dataclass
class CompiledSchema:
    """A plan with its tokens laid out, and the prompts that lead to them.

    Attributes:
        plan: The plan.
        forest: Its rows' tokens.
        paths: How branch logits add up to candidates.
        tokenizer: The model's tokenizer.
        profile: The model's chat template profile.
        fields: The schema's fields.
        row_depth: Tokens that the longest row adds to the prompt, its last answer included.
    """

    plan: Plan
    forest: TokenForest
    paths: Paths
    fields: tuple[Field, ...]
    row_depth: int
    tokenizer: TextTokenizer
    profile: Profile
    _frame: list[Frame | None] = field(default_factory=list, repr=False)
    _prefixes: dict[str, list[int]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, plan: Plan, tokenizer: TextTokenizer, profile: Profile) -> CompiledSchema:
        """Lays a plan out."""
        layout = plan.layout()
        forest = TokenForest.of(layout)
        depth = int(forest.depths.max(initial=-1)) + 2
        return cls(plan, forest, Paths.of(layout), plan.schema.fields, depth, tokenizer, profile)

    def prompt(
        self,
        context: str | None,
        messages: Sequence[Mapping[str, str]] | None = None,
        nonce_key: bytes | None = None,
    ) -> Prompt:
        """The prompt for a context, or for chat messages in its place.

        Raises:
            PromptError: The context or the messages are at fault.
            ConfigError: Neither or both are given.
        """
        if isinstance(context, str) and messages is None:
            frame = self._context_frame()
            if frame is not None:
                ids, text = frame.encode(self.tokenizer, self.plan.user_content(context, nonce_key))
                version = PROMPT_VERSION if nonce_key is None else PROMPT_VERSION_KEYED
                return Prompt(ids, text, token_ids_sha256(ids), version)
        turns, version = conversation(self.plan, context, messages, nonce_key, self.profile.supports_system)
        ids, text = encode_turns(self.tokenizer, turns, self.profile)
        return Prompt(ids, text, token_ids_sha256(ids), version)

    def isolated_prompt(self, context: str, nonce_key: bytes | None = None) -> Prompt:
        """The prompt that asks this plan's one field alone, after the context.

        Raises:
            PromptError: The context is at fault.
        """
        turns, version = conversation(self.plan, context, None, nonce_key, self.profile.supports_system, isolated=True)
        ids, text = encode_turns(self.tokenizer, turns, self.profile)
        return Prompt(ids, text, token_ids_sha256(ids), version)

    def _context_frame(self) -> Frame | None:
        if not self._frame:
            supports = self.profile.supports_system
            turns = self.plan.context_turns
            found = find_frame(self.tokenizer, self.profile, lambda c: turns(c, supports), self.plan.user_content)
            self._frame.append(found)
        return self._frame[0]

    def split(self, prompt: Prompt) -> int:
        """How many of the prompt's tokens are the same for every context; a function of plan and prompt alone.

        At least one token is left, since the first branch may be read off the prompt's last one.
        """
        kind = "messages" if prompt.version == PROMPT_VERSION_MESSAGES else "context"
        prefix = self._prefixes.get(kind)
        if prefix is None:
            prefix = self._prefixes[kind] = self._stable_prefix(kind)
        return min(shared_length(prefix, prompt.ids), len(prompt.ids) - 1)

    def _stable_prefix(self, kind: str) -> list[int]:
        if kind == "messages":
            prompts = [self.prompt(None, [{"role": "user", "content": sample}]) for sample in MESSAGE_SAMPLES]
        else:
            prompts = [self.prompt(sample) for sample in self.tokenizer.witnesses]
        shared, *others = (prompt.ids for prompt in prompts)
        for ids in others:
            shared = shared[: shared_length(shared, ids)]
        return shared
