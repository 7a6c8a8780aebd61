"""A bounded number of things held, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Holds at most ``most`` values; not safe under threads by itself.

    Example:
        >>> held = LruCache[str, int](1)
        >>> held.put("a", 1); held.put("b", 2)
        >>> held.get("a"), held.get("b")
        (None, 2)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, if it is held; it is the last to go then."""
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return self._held[key]

    def put(self, key: K, value: V) -> None:
        """Holds a value; what was used longest ago makes room."""
        self._held[key] = value
        while len(self._held) > self._most:
            self._held.popitem(last=False)
