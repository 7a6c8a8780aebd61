"""Held-out examples, chosen by what the texts say, so that near-duplicates never stand on both sides."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from math import ceil

from ..checks import is_number
from ..errors import CalibrationError
from .data import Example

# Texts whose sets of shingles are this alike (Jaccard index) count as near-duplicates.
SIMILAR = 0.8
# Characters per shingle: long enough to tell words apart, short enough for texts of a few words in any script.
SHINGLE = 3
# Share of examples that are held out by default.
HELD_OUT = 0.3


def normalised(text: str) -> str:
    """A text without what makes no difference: width, case, digits, punctuation, symbols and the amount of white space.

    Example:
        >>> normalised("Refund ORDER #4711,  please!")
        'refund order please'
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(character for character in folded if unicodedata.category(character)[0] not in "NPS")
    return " ".join(kept.split())


def shingles(text: str) -> frozenset[str]:
    """All runs of :data:`SHINGLE` characters of a normalised text; the text itself where it is shorter."""
    return frozenset(text[start : start + SHINGLE] for start in range(max(1, len(text) - SHINGLE + 1)))


def split(examples: Sequence[Example], held_out: float = HELD_OUT) -> tuple[list[Example], list[Example]]:
    """Parts examples into those to fit on and those to report on.

    Texts that are near-duplicates, directly or through others, form a group, and a group goes to one side as a whole: held out
    where the least SHA-256 of its normalised texts, as a fraction of all hashes, is below ``held_out``. So the order of the
    examples plays no part, and an example that is added moves only near-duplicates of its own.

    Args:
        examples: The examples.
        held_out: The share to hold out, in expectation: more than 0 and less than 1.

    Returns:
        To fit on, and held out; each in an order of its own that does not depend on that of ``examples``.

    Raises:
        CalibrationError: ``calibration.split``: the share is out of range, or one side would be empty.

    Example:
        >>> texts = ["Where is order 17?", "where is ORDER 18", "Reset my password", "Close my account", "Hi there"]
        >>> fitted, held = split([Example(text, {"urgent": False}) for text in texts], 0.8)
        >>> len(fitted) + len(held)
        5
    """
    if not is_number(held_out) or not 0 < held_out < 1:
        message = f"held_out is {held_out!r}; a share of more than 0 and less than 1 is needed"
        raise CalibrationError("calibration.split", message, "held_out")
    texts = [normalised(example.context) for example in examples]
    group = _groups(sorted(set(texts)))
    ordered = sorted(zip(texts, examples, strict=True), key=lambda pair: (_hash(pair[0]), pair[1].canonical))
    parts: tuple[list[Example], list[Example]] = ([], [])
    for text, example in ordered:
        parts[int(group[text], 16) < held_out * 2**256].append(example)
    if not parts[0] or not parts[1]:
        side = "held out" if not parts[1] else "left to fit on"
        message = (
            f"no example would be {side}: {len(examples)} examples are {len(set(group.values()))} texts that differ; "
            "add examples or change held_out"
        )
        raise CalibrationError("calibration.split", message, "held_out")
    return parts


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _groups(texts: Sequence[str]) -> dict[str, str]:
    """Normalised text → the least hash of its group."""
    from scipy.cluster.hierarchy import DisjointSet  # type: ignore[import-untyped]

    sets = DisjointSet(range(len(texts)))
    for one, other in _similar([shingles(text) for text in texts]):
        sets.merge(one, other)
    names = {}
    for members in sets.subsets():
        least = min(_hash(texts[member]) for member in members)
        names.update({texts[member]: least for member in members})
    return names


def _similar(sets: Sequence[frozenset[str]]) -> list[tuple[int, int]]:
    """All pairs of sets whose Jaccard index is :data:`SIMILAR` or more.

    Exact: two such sets share one of the first ``n − ceil(SIMILAR·n) + 1`` of their ``n`` elements, rarest first (prefix
    filtering), so only sets that do are compared.
    """
    counts: defaultdict[str, int] = defaultdict(int)
    for elements in sets:
        for element in elements:
            counts[element] += 1
    found = []
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for index, elements in enumerate(sets):
        ranked = sorted(elements, key=lambda element: (counts[element], element))
        prefix = ranked[: len(ranked) - ceil(SIMILAR * len(ranked)) + 1]
        near = {other for element in prefix for other in holders[element]}
        for other in near:
            shared = len(elements & sets[other])
            if shared >= SIMILAR * (len(elements) + len(sets[other]) - shared):
                found.append((other, index))
        for element in prefix:
            holders[element].append(index)
    return found
