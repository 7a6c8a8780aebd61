"""Following one decision while it is computed: how far it is, what is settled, and whether anyone still waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .results import FieldResult


class StoppedError(Exception):
    """Nobody waits for the decision any more; it reaches nobody."""


@dataclass
class Watch:
    """Who follows a decision. All of it is called from the device's thread.

    Attributes:
        progress: Told (tokens computed, tokens to compute) while a long prompt is computed.
        on_field: Told each field's result once, as soon as nothing can change it.
        stopped: Set from any thread to end the computation at its next step.
    """

    progress: Callable[[int, int], None] | None = None
    on_field: Callable[[FieldResult], None] | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    _told: set[str] = field(default_factory=set)

    def step(self, done: int = 0, total: int = 0) -> None:
        """Between two parts of the work.

        Raises:
            StoppedError: It was stopped.
        """
        if self.stopped.is_set():
            raise StoppedError
        if self.progress is not None and total:
            self.progress(done, total)

    def tell(self, settled: Callable[[], Mapping[str, FieldResult]]) -> None:
        """Hands out what is settled and was not told yet; it is not asked for where nobody listens."""
        if self.on_field is None:
            return
        for name, result in settled().items():
            if name not in self._told:
                self._told.add(name)
                self.on_field(result)
