"""The part of a prompt that is the same for every context: what a cache may hold, and where a prompt is split.

Tokens merge across the place where the context's nonce begins, so the place cannot be read off the text. It is found from
data: of many contexts, with nonces that start with every pair of hex digits, the two whose prompts part earliest are found once per
tokenizer; what the prompts for these two share is a plan's prefix. A prompt that departs earlier all the same is split there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from ._core import context_nonce

_HEX = "0123456789abcdef"
# Chat messages start with anything; what their prompts share is found from these.
MESSAGE_SAMPLES = ("a", "0", "\n", " x", "é", "-", "<", "{", "The")


@cache
def _sample_contexts() -> tuple[str, ...]:
    """One context for each pair of first hex digits of the nonce, which tokens may merge with."""
    found: dict[str, str] = {}
    number = 0
    while len(found) < len(_HEX) ** 2:
        found.setdefault(context_nonce(str(number))[1:3], str(number))
        number += 1
    return tuple(found.values())


def witnesses(encode: Callable[[Sequence[str]], list[list[int]]]) -> tuple[str, str]:
    """Two contexts whose prompts share no more than all contexts' prompts do.

    Args:
        encode: Data texts → token ids.
    """
    contexts = _sample_contexts()
    first, *others = encode([f"\n\n<<<CONTEXT:{context_nonce(context)}\n{context}" for context in contexts])
    lengths = [shared_length(first, other) for other in others]
    return contexts[0], contexts[1 + lengths.index(min(lengths))]


def shared_length(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading ids two sequences share.

    Example:
        >>> shared_length([1, 2, 3], [1, 2, 4, 5])
        2
    """
    length = min(len(a), len(b))
    if a[:length] == b[:length]:
        return length
    return next(index for index in range(length) if a[index] != b[index])
