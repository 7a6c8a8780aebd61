"""Several models in one process, within a bound of memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import structlog

from ..engine import Engine
from ..errors import ModelError
from .errors import RequestError

# What the System One and OpenAI clients call a model when they are not told; it means the first one.
ALIASES = ("jev-latest",)

_log = structlog.get_logger("jevmlx.server")


class ModelPool:
    """Loads models when they are first asked for, and closes those used least recently where memory is bounded.

    Args:
        sources: Name → what to load; the first is the one that is meant where none is named.
        load: Loads one.
        memory_bytes: Bound of the weights of all together; ``None`` for no bound.
    """

    def __init__(
        self, sources: Mapping[str, str], load: Callable[[str], Engine], memory_bytes: int | None = None
    ) -> None:
        self._sources = dict(sources)
        self._load = load
        self._bound = memory_bytes
        self._loaded: OrderedDict[str, Engine] = OrderedDict()
        self._used: dict[str, int] = dict.fromkeys(sources, 0)
        self._sizes: dict[str, int] = {}
        self._loading = asyncio.Lock()
        self._started = datetime.now(UTC)

    @property
    def names(self) -> tuple[str, ...]:
        """All models, the first one first."""
        return tuple(self._sources)

    @property
    def loaded(self) -> tuple[str, ...]:
        """Those in memory."""
        return tuple(self._loaded)

    def listed(self) -> dict[str, Any]:
        """The models, in the forms of the OpenAI and the System One clients."""
        started = self._started
        return {
            "object": "list",
            "data": [
                {"id": name, "object": "model", "created": int(started.timestamp()), "owned_by": "jevmlx"}
                for name in self._sources
            ],
            "models": [
                # When a model was released is not known here: it is what this server has had since it started.
                {"name": name, "description": source, "release_date": started.date().isoformat()}
                for name, source in self._sources.items()
            ],
        }

    def name_of(self, asked: str | None) -> str:
        """The model that a request means.

        Raises:
            RequestError: ``server.model`` (404).
        """
        if asked in self._sources:
            return asked
        if not asked or asked in ALIASES:
            return self.names[0]
        message = f"there is no model {asked!r}; there are {', '.join(self.names)}"
        raise RequestError("server.model", message, "model")

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Engine]:
        """A model that stays loaded for as long as the block runs.

        Raises:
            ModelError: It cannot be loaded, or there is no room for it while others are in use.
        """
        # From here on it is in use, so that nobody closes it while it is waited for.
        self._used[name] += 1
        try:
            engine = self._loaded.get(name)
            if engine is None:
                async with self._loading:
                    engine = self._loaded.get(name) or await self._loaded_now(name)
            self._loaded.move_to_end(name)
            yield engine
        finally:
            self._used[name] -= 1

    async def close(self) -> None:
        """Closes all models."""
        while self._loaded:
            _, engine = self._loaded.popitem()
            await asyncio.to_thread(engine.close)

    async def _loaded_now(self, name: str) -> Engine:
        await self._make_room(self._sizes.get(name, 0), name)
        _log.info("loading", model=name)
        engine = await asyncio.to_thread(self._load, self._sources[name])
        self._sizes[name] = engine.weights_bytes
        self._loaded[name] = engine
        try:
            # What it takes is known only now.
            await self._make_room(0, name)
        except ModelError:
            del self._loaded[name]
            await asyncio.to_thread(engine.close)
            raise
        _log.info("loaded", model=name, bytes=engine.weights_bytes)
        return engine

    async def _make_room(self, more: int, for_name: str) -> None:
        """Closes models that nobody uses until the rest and ``more`` bytes are within the bound."""
        while self._bound is not None and sum(self._sizes[one] for one in self._loaded) + more > self._bound:
            idle = next((one for one in self._loaded if not self._used[one]), None)
            if idle is None:
                message = (
                    f"{for_name!r} does not fit into the {self._bound} bytes that models may take while others are in use; "
                    "try again later, or give the server more"
                )
                raise ModelError("model.memory", message, "model")
            _log.info("closing", model=idle)
            await asyncio.to_thread(self._loaded.pop(idle).close)
