"""A decision as server-sent events: each field as soon as it is settled, then the whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.responses import StreamingResponse

from ..errors import JevmlxError
from ..results import Decision, FieldResult
from .errors import error_body, status_of

# What a stream's producer is given: it calls it with every settled field, from any thread.
Tell = Callable[[FieldResult], None]
Event = tuple[str, Any]


async def stream(produce: Callable[[Tell], Awaitable[Decision]]) -> StreamingResponse:
    """The response; an error before the first field is raised, one after it is an event.

    Events: ``field`` (a field's result), ``decision`` (the whole, the last one), ``error`` (in its place).

    Args:
        produce: Makes the decision.
    """
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tell(result: FieldResult) -> None:
        loop.call_soon_threadsafe(events.put_nowait, ("field", result.to_dict()))

    async def run() -> None:
        try:
            decision = await produce(tell)
            events.put_nowait(("decision", decision.to_dict()))
        finally:
            events.put_nowait(None)

    task = asyncio.create_task(run())
    try:
        first = await events.get()
    except asyncio.CancelledError:
        task.cancel()
        raise
    if first is None:
        await task
        raise AssertionError("a decision without a field")
    return StreamingResponse(
        _texts(first, events, task), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def _texts(first: Event, events: asyncio.Queue[Event | None], task: asyncio.Task[None]) -> AsyncIterator[bytes]:
    event: Event | None = first
    try:
        while event is not None:
            yield _text(*event)
            event = await events.get()
        await task
    except JevmlxError as error:
        yield _text("error", {"status": status_of(error), **error_body(error)})
    finally:
        # The client may have hung up: what nobody reads is not computed.
        task.cancel()


def _text(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n".encode()
