"""The part of a prompt that is the same for every context: what a cache may hold, and where a prompt is split.

Tokens merge across the place where the context's nonce begins, so the place cannot be read off the text. It is found from
data: prompts for contexts with every first nonce digit are rendered, and what their token ids share is the prefix. A prompt that
starts otherwise all the same is split where it departs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ._core import context_nonce

_HEX = "0123456789abcdef"


@cache
def sample_contexts() -> tuple[str, ...]:
    """One context for each first hex digit of the nonce, which tokens may merge with."""
    found: dict[str, str] = {}
    number = 0
    while len(found) < len(_HEX):
        found.setdefault(context_nonce(str(number))[1], str(number))
        number += 1
    return tuple(found.values())


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
