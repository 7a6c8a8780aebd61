"""The queue for the device: one decision at a time, first come, first served.

All work on the device is done by one thread per engine. MLX binds arrays that are not computed yet to the thread they were made
in, and a queue with one worker is fair, lets a call that waits be cancelled, and serves threads and asyncio alike.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

from .errors import ModelError

P = ParamSpec("P")
T = TypeVar("T")


class DeviceQueue:
    """Runs calls one after the other on a thread of its own.

    Args:
        at_end: Called on that thread before it ends. MLX aborts the process if a thread's streams are still there at exit.
    """

    def __init__(self, at_end: Callable[[], object] = lambda: None) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._at_end = at_end
        self._lock = threading.Lock()
        self._closed = False
        # A daemon, so that it is still there when what is registered for the exit closes the queue.
        self._worker = threading.Thread(target=self._work, name="jevmlx-device", daemon=True)
        self._worker.start()

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:  # Whatever it is, it belongs to the caller.
                future.set_exception(error)
            else:
                future.set_result(result)
            # Not to be held while the next call is waited for.
            del item, future, call
        self._at_end()

    def submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queues a call; cancelling the future before the call starts frees its place.

        Raises:
            ModelError: ``model.closed``.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise ModelError("model.closed", "the engine is closed; load the model again")
            self._calls.put((future, lambda: call(*args, **kwargs)))
        return future

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
        """Finishes what is queued and ends the thread; closing again changes nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._calls.put(None)
        if threading.current_thread() is not self._worker:
            self._worker.join()
