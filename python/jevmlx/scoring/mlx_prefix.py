"""The prefix cache: KV state of prompt beginnings, by their token ids, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from .mlx_forward import KeyValues


class PrefixCache:
    """Holds KV states up to a bound in bytes.

    Attributes:
        most_bytes: The bound; a state larger than that is not held.
        held_bytes: What is held now.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self._states: OrderedDict[bytes, tuple[KeyValues, int]] = OrderedDict()

    def get(self, ids: Sequence[int]) -> KeyValues | None:
        """The state after exactly these tokens, if it is held."""
        key = _key(ids)
        if key not in self._states:
            return None
        self._states.move_to_end(key)
        return self._states[key][0]

    def put(self, ids: Sequence[int], state: KeyValues) -> None:
        """Holds a state; what was used longest ago makes room."""
        size = sum(keys.nbytes + values.nbytes for keys, values in state)
        key = _key(ids)
        if size > self.most_bytes or key in self._states:
            return
        self._states[key] = (state, size)
        self.held_bytes += size
        while self.held_bytes > self.most_bytes:
            _, (_, freed) = self._states.popitem(last=False)
            self.held_bytes -= freed


def _key(ids: Sequence[int]) -> bytes:
    return np.asarray(ids, np.int32).tobytes()
