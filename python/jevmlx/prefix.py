"""The part of a prompt that is the same for every context: what a cache may hold, and where a prompt is split.

Tokens merge across the place where the context's nonce begins, so the place cannot be read off the text. It is found from
data: prompts for contexts that differ in everything are rendered, and what their token ids share is the prefix. It is checked
against the ids at every use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ._core import context_nonce

_HEX = "0123456789abcdef"


def _sample_contexts() -> tuple[str, ...]:
    """One context for each first hex digit of the nonce, which tokens may merge with."""
    found: dict[str, str] = {}
    number = 0
    while len(found) < len(_HEX):
        found.setdefault(context_nonce(str(number))[1], str(number))
        number += 1
    return tuple(found.values())


def stable_prefix(render: Callable[[str], Sequence[int]]) -> list[int]:
    """The longest run of token ids that the sampled contexts' prompts start with.

    A prompt that starts otherwise all the same is split where it departs: see :func:`shared_length`.

    Args:
        render: Context → token ids of its prompt.
    """
    first, *others = _sample_contexts()
    shared = list(render(first))
    for context in others:
        shared = shared[: shared_length(shared, render(context))]
    return shared


def shared_length(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading ids two sequences share."""
    length = min(len(a), len(b))
    if list(a[:length]) == list(b[:length]):
        return length
    return next(index for index in range(length) if a[index] != b[index])
