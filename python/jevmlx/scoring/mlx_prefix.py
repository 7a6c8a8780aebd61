"""The prefix cache: the state after prompt beginnings, by their token ids, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S")


class PrefixCache(Generic[S]):
    """Holds states up to a bound in bytes.

    Attributes:
        most_bytes: The bound; a state larger than that is not held.
        held_bytes: What is held now.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self._states: OrderedDict[bytes, tuple[S, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def get(self, ids: NDArray[np.int32]) -> S | None:
        """The state after exactly these tokens, if it is held."""
        key = ids.tobytes()
        if key not in self._states:
            return None
        self._states.move_to_end(key)
        return self._states[key][0]

    def put(self, ids: NDArray[np.int32], state: S, size: int) -> None:
        """Holds a state of ``size`` bytes; what was used longest ago makes room."""
        key = ids.tobytes()
        if size > self.most_bytes or key in self._states:
            return
        while self.held_bytes + size > self.most_bytes:
            _, (_, freed) = self._states.popitem(last=False)
            self.held_bytes -= freed
        self._states[key] = (state, size)
        self.held_bytes += size
