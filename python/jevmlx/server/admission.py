"""Who gets in: a bounded number of requests, and for each a deadline."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .errors import RequestError


class Admission:
    """Places for requests; used from one event loop.

    Args:
        places: Requests that may be in work or wait.
        deadline_s: Seconds each has.
    """

    def __init__(self, places: int, deadline_s: float) -> None:
        self._places = places
        self._deadline = deadline_s
        self._mean_s = 1.0
        self.taken = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place, for as long as the block runs.

        Raises:
            RequestError: ``server.busy`` (429): there is none; ``server.deadline`` (504): the time was up.
        """
        if self.taken >= self._places:
            raise RequestError(
                "server.busy",
                f"{self.taken} requests are in work or wait; try again later",
                headers={"Retry-After": str(self._retry_after())},
            )
        self.taken += 1
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline):
                yield
        except TimeoutError as error:
            message = f"no answer within {self._deadline:g} s; ask less at once, or try again when there is less to do"
            raise RequestError("server.deadline", message) from error
        finally:
            self.taken -= 1
            # Recent requests count most.
            self._mean_s += 0.1 * (time.monotonic() - started - self._mean_s)

    def _retry_after(self) -> int:
        """Whole seconds until a place should be free: how long one takes from getting in to its answer, over all places."""
        return max(1, min(60, math.ceil(self._mean_s / self._places)))
