"""The one way from a request to a decision: all dialects go through it, and it goes through ``Engine.adecide``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from ..calibration import Calibration
from ..engine import Engine
from ..errors import CompileError
from ..questions import Asked
from ..results import Decision, FieldResult
from .admission import Admission
from .errors import RequestError
from .metrics import Metrics
from .pool import ModelPool
from .settings import ServerSettings

T = TypeVar("T")


@dataclass(frozen=True)
class Answering:
    """What answers requests.

    Attributes:
        settings: The server's settings.
        pool: Its models.
        admission: Its places.
        metrics: Its figures.
        calibrations: Its calibrations, by name.
    """

    settings: ServerSettings
    pool: ModelPool
    admission: Admission
    metrics: Metrics
    calibrations: Mapping[str, Calibration]

    async def warm(self) -> None:
        """Loads the first model and has it answer once.

        Raises:
            JevmlxError: It cannot be loaded, or does not answer.
        """
        # A tokenizer that cannot tell true from false may still serve other questions.
        async with self.pool.use(self.pool.names[0]) as engine:
            with suppress(CompileError):
                await engine.adecide({"ready": {"type": "boolean"}}, "")
        self.metrics.models.set(len(self.pool.loaded))

    def calibration(self, name: str | None) -> Calibration | None:
        """One of the server's calibrations.

        Raises:
            RequestError: ``server.calibration``: it has none of that name.
        """
        if name is None:
            return None
        if name not in self.calibrations:
            message = f"there is no calibration {name!r}; there are {', '.join(self.calibrations) or 'none'}"
            raise RequestError("server.calibration", message, "calibration")
        return self.calibrations[name]

    @property
    def dialect_options(self) -> dict[str, Any]:
        """How questions of the public dialects are decided: each alone, so that they neither see nor influence each other."""
        return {"isolate": True, "calibration": self.calibration(self.settings.dialects_calibration)}

    @asynccontextmanager
    async def engine(self, asked: str | None) -> AsyncIterator[tuple[str, Engine]]:
        """A place, and the model that a request means.

        Raises:
            JevmlxError: There is no such model, no place, no room, or no time left.
        """
        name = self.pool.name_of(asked)
        async with self.admission.place():
            self.metrics.in_work.set(self.admission.taken)
            try:
                async with self.pool.use(name) as engine:
                    self.metrics.models.set(len(self.pool.loaded))
                    yield name, engine
            finally:
                self.metrics.in_work.set(self.admission.taken - 1)

    async def decide(
        self,
        engine: Engine,
        schema: Any,
        context: str | None,
        *,
        messages: Sequence[Mapping[str, str]] | None = None,
        on_field: Callable[[FieldResult], None] | None = None,
        **options: Any,
    ) -> Decision:
        """A decision within the server's limits.

        Raises:
            JevmlxError: What ``Engine.decide`` raises; ``server.rows`` or ``server.tokens`` (413): it is too large.
        """
        decision = await engine.adecide(
            schema, context, messages=messages, check=self._check, on_field=on_field, **options
        )
        self.metrics.decided(decision)
        return decision

    def _check(self, asked: Asked) -> None:
        rows = tokens = 0
        for question in asked.questions:
            rows += len(question.compiled.paths.rows)
            tokens += len(question.prompt.ids)
        if rows > self.settings.max_rows:
            message = f"this makes {rows} rows to score, and {self.settings.max_rows} are allowed; ask less at once"
            raise RequestError("server.rows", message)
        if tokens > self.settings.max_prompt_tokens:
            most = self.settings.max_prompt_tokens
            message = (
                f"this makes {tokens} tokens of prompts, and {most} are allowed; ask less at once, or of a shorter text"
            )
            raise RequestError("server.tokens", message)


class ClientGoneError(Exception):
    """The client hung up: there is nobody to answer."""


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; where the client hangs up first, the work is dropped.

    Raises:
        ClientGoneError: It did.
    """
    task, gone = asyncio.create_task(work), asyncio.create_task(_hung_up(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        # Also where this itself is cancelled.
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
