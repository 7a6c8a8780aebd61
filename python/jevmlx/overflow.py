"""Contexts that do not fit the model: an error that says by how much, or a cut on a token boundary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .errors import ConfigError, PromptError
from .prompts import Prompt
from .tokenizers import TextTokenizer

ERROR, KEEP_HEAD, KEEP_TAIL = "error", "keep_head", "keep_tail"


@dataclass(frozen=True)
class Truncation:
    """What was left out of a context.

    Attributes:
        kept: ``"keep_head"`` or ``"keep_tail"``.
        context_tokens: Tokens of the whole context.
        kept_tokens: Tokens of what the model saw of it.
        kept_characters: Characters of what the model saw of it.
    """

    kept: str
    context_tokens: int
    kept_tokens: int
    kept_characters: int


def check_overflow(overflow: str) -> None:
    """Refuses anything that is not a way to handle overflow.

    Raises:
        ConfigError: ``config.overflow``.
    """
    if overflow not in (ERROR, KEEP_HEAD, KEEP_TAIL):
        raise ConfigError(
            "config.overflow",
            f"overflow is {overflow!r}; allowed are {ERROR!r}, {KEEP_HEAD!r} and {KEEP_TAIL!r}",
            "overflow",
        )


def refuse(tokens: int, room: int) -> PromptError:
    """The error for a prompt that does not fit."""
    return PromptError(
        "prompt.too_long",
        f"the prompt has {tokens} tokens and {room} fit into the model's context window beside the answers; shorten the "
        f"context by {tokens - room} tokens or more, or pass overflow={KEEP_HEAD!r} or {KEEP_TAIL!r}",
        "context",
    )


def cut(
    tokenizer: TextTokenizer, context: str, room: int, keep: str, render: Callable[[str], Prompt]
) -> tuple[Prompt, Truncation]:
    """The longest beginning or end of a context, on a token boundary, whose prompt fits.

    The fence stays whole: its nonce is that of the text it holds.

    Args:
        tokenizer: The model's tokenizer.
        context: The text.
        room: Tokens a prompt may have.
        keep: ``"keep_head"`` or ``"keep_tail"``.
        render: Text → its prompt.

    Raises:
        PromptError: Even an empty context does not fit, or the tokenizer does not say where its tokens are.
    """
    bounds = tokenizer.token_bounds(context)
    total = len(bounds) - 1

    def part(count: int) -> str:
        return context[: bounds[count]] if keep == KEEP_HEAD else context[bounds[total - count] :]

    low, high = 0, total
    prompt = render("")
    if len(prompt.ids) > room:
        raise refuse(len(prompt.ids), room)
    kept = ""
    while low < high:
        middle = (low + high + 1) // 2
        candidate = render(part(middle))
        if len(candidate.ids) <= room:
            low, prompt, kept = middle, candidate, part(middle)
        else:
            high = middle - 1
    return prompt, Truncation(keep, total, low, len(kept))
