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
from .constraints import SetProgram
from .frames import Frame, find_frame
from .lru import LruCache
from .prefix import MESSAGE_SAMPLES, shared_length
from .profiles import Profile
from .prompts import Prompt, conversation, encode_turns
from .rows import Paths
from .scoring.forest import TokenForest
from .tokenizers import TextTokenizer

# Compiled waves held per schema; each takes some kB.
_MAX_WAVES = 256


@dataclass(frozen=True)
class CompiledWave:
    """The rows of fields that depend on others, under what was decided.

    Attributes:
        plan_hash: Hash of the wave's plan.
        fields: Its fields, as indices into the schema's.
        forest: Its rows' tokens.
        paths: How branch logits add up to candidates.
    """

    plan_hash: str
    fields: tuple[int, ...]
    forest: TokenForest
    paths: Paths


@dataclass
class CompiledSchema:
    """A plan with its tokens laid out, and the prompts that lead to them.

    Attributes:
        plan: The plan.
        forest: Tokens of the rows of fields that depend on no other.
        paths: How branch logits add up to candidates.
        fields: The schema's fields.
        depths: Per field, how many others it depends on, directly or not.
        programs: Per field, the constraints on its options; ``None`` where it has none.
        row_depth: Tokens that the longest row adds to the prompt, its last answer included.
        tokenizer: The model's tokenizer.
        profile: The model's chat template profile.
    """

    plan: Plan
    forest: TokenForest
    paths: Paths
    fields: tuple[Field, ...]
    depths: tuple[int, ...]
    programs: tuple[SetProgram | None, ...]
    row_depth: int
    tokenizer: TextTokenizer
    profile: Profile
    _frame: list[Frame | None] = field(default_factory=list, repr=False)
    _prefixes: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _waves: LruCache[tuple[int, ...], CompiledWave] = field(default_factory=lambda: LruCache(_MAX_WAVES), repr=False)

    @classmethod
    def of(cls, plan: Plan, tokenizer: TextTokenizer, profile: Profile) -> CompiledSchema:
        """Lays a plan out.

        Raises:
            SchemaError: ``schema.set_constraints.unsatisfiable``.
        """
        layout = plan.root_layout()
        depths = plan.depths()
        # A later wave's row holds the answers above it too, none longer than the longest row there is.
        row = int(TokenForest.of(plan.layout()).depths.max(initial=-1)) + 2
        row_depth = row * (1 + max(depths))
        fields = plan.schema.fields
        programs = tuple(map(SetProgram.of, fields))
        return cls(
            plan, TokenForest.of(layout), Paths.of(layout), fields, depths, programs, row_depth, tokenizer, profile
        )

    @property
    def named_fields(self) -> tuple[tuple[str, Field], ...]:
        """Each field's name and spec."""
        return tuple((spec.name, spec) for spec in self.fields)

    def wave(self, depth: int, decided: Sequence[int]) -> CompiledWave:
        """The rows of the fields of one depth.

        Args:
            depth: See ``depths``; at least 1.
            decided: Per field, the index of the choice decided; what is not decided yet does not matter.

        Raises:
            CompileError: This tokenizer cannot tell the answers apart.
        """
        settled = (choice if at < depth else 0 for choice, at in zip(decided, self.depths, strict=True))
        key = (depth, *settled)
        held = self._waves.get(key)
        if held is not None:
            return held
        plan = self.plan.wave(depth, key[1:], self.tokenizer.encode_data)
        layout = plan.layout()
        wave = CompiledWave(plan.plan_hash, plan.fields, TokenForest.of(layout), Paths.of(layout))
        self._waves.put(key, wave)
        return wave

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
