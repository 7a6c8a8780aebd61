"""The one form that every constraint takes: a bounded sum of yes/no items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """``least ≤ |selected ∩ plus| − |selected ∩ minus| ≤ most`` over items numbered from 0.

    Attributes:
        plus: Items that count up.
        minus: Items that count down.
        least: Lower bound; ``None`` for none.
        most: Upper bound; ``None`` for none.
    """

    plus: tuple[int, ...]
    minus: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None

    @property
    def items(self) -> tuple[int, ...]:
        """The items it speaks of."""
        return self.plus + self.minus

    def holds(self, selected: Collection[int]) -> bool:
        """Whether these selected items satisfy it.

        Example:
            >>> Row(plus=(0, 1), most=1).holds({0, 1})
            False
        """
        total = sum(item in selected for item in self.plus) - sum(item in selected for item in self.minus)
        return (self.least is None or total >= self.least) and (self.most is None or total <= self.most)


def components(groups: Iterable[Collection[int]], items: Iterable[int]) -> list[tuple[int, ...]]:
    """The items in connected parts: two are connected where a group holds both.

    Args:
        groups: What connects; items that are not among ``items`` connect nothing.
        items: All items.

    Returns:
        Each part in ascending order, the parts by their first item.

    Example:
        >>> components([(0, 2)], range(4))
        [(0, 2), (1,), (3,)]
    """
    parent = {item: item for item in items}

    def root(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    for group in groups:
        known = [item for item in group if item in parent]
        for item in known[1:]:
            a, b = root(known[0]), root(item)
            parent[max(a, b)] = min(a, b)
    parts: dict[int, list[int]] = {}
    for item in sorted(parent):
        parts.setdefault(root(item), []).append(item)
    return [tuple(part) for part in parts.values()]


def minimal_conflict(items: Sequence[int], conflicts: Callable[[Sequence[int]], bool]) -> list[int]:
    """A conflicting subset of which nothing can be dropped, by QuickXplain (Junker 2004).

    Args:
        items: Items that conflict together.
        conflicts: Whether some of them do; a set that holds a conflicting set conflicts too.

    Returns:
        The subset, in the order of ``items``; empty where nothing at all conflicts already.

    Example:
        >>> minimal_conflict([1, 2, 3, 4], lambda some: {2, 4} <= set(some))
        [2, 4]
    """

    def explain(ground: list[int], grown: bool, rest: list[int]) -> list[int]:
        if grown and conflicts(ground):
            return []
        if len(rest) == 1:
            return rest
        first, second = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        from_second = explain(ground + first, True, second)
        from_first = explain(ground + from_second, bool(from_second), first)
        return from_first + from_second

    if not items or conflicts([]):
        return []
    return explain([], False, list(items))
