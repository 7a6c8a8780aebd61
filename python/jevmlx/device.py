"""The queue for the device: one decision at a time, first come, first served.

All work on the device is done by one thread per engine. MLX binds arrays that are not computed yet to the thread they were made
in, and a queue with one worker is fair, lets a call that waits be cancelled, and serves threads and asyncio alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DeviceQueue:
    """Runs calls one after the other on a thread of its own."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jevmlx-device")

    def submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queues a call; cancelling the future before the call starts frees its place."""
        return self._worker.submit(call, *args, **kwargs)

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Queues a call and waits for its result; an interrupt while it waits frees its place."""
        future = self.submit(call, *args, **kwargs)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def run_async(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for asyncio; cancelling the task frees the place of a call that has not started."""
        return await asyncio.wrap_future(self.submit(call, *args, **kwargs))

    def close(self) -> None:
        """Finishes what is queued and ends the thread; calls after that raise ``RuntimeError``."""
        self._worker.shutdown()
