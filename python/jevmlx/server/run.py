"""Running the server: listening, and stopping without losing an answer."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
from types import FrameType

import structlog
import uvicorn

from ..errors import ConfigError
from .app import create_app
from .logs import configure
from .settings import ServerSettings

_log = structlog.get_logger("jevmlx.server")


def serve(settings: ServerSettings, log_level: str = "info") -> None:
    """Serves until SIGTERM or SIGINT; requests in work are finished first, within ``drain_s``.

    Args:
        settings: How.
        log_level: ``"debug"``, ``"info"``, ``"warning"`` or ``"error"``.

    Raises:
        JevmlxError: Settings are at fault, the port is taken, or the first model cannot be loaded.
    """
    configure(log_level)
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.drain_s),
    )
    listening = _listen(settings)
    _log.info("listening", host=settings.host, port=listening.getsockname()[1], models=list(settings.models))
    # What is wrong with the model is said to who starts the server; uvicorn would put it into its log alone.
    asyncio.run(app.state.answering.warm())
    _Draining(config).run(sockets=[listening])


class _Draining(uvicorn.Server):
    """Says that it is stopping as soon as it was told to."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.config.app.state.draining = True  # type: ignore[union-attr]
        _log.info("stopping", signal=sig)
        # As uvicorn does, which would then end by the signal itself: to be told to stop is no failure.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends small answers at once only on sockets that name their protocol; else each waits 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        message = (
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; name another address or port"
        )
        raise ConfigError("config.server", message, "port") from error
    listening.setblocking(False)
    return listening
