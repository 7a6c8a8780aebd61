"""What a server may be told."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..checks import is_number, is_whole
from ..errors import ConfigError


@dataclass(frozen=True)
class ServerSettings:
    """How a server runs.

    Attributes:
        models: Name in requests → what :func:`jevmlx.load` takes, with ``@revision`` where there is one. The first answers
            requests that name none.
        host: Address to listen on; any but loopback needs tokens.
        port: Port; 0 takes a free one.
        tokens_file: Bearer tokens, one ``name:token`` a line; read again when it changes.
        queue: Requests that may be in work or wait; more get 429.
        deadline_s: Seconds until a request gets 504.
        max_body_bytes: Longest body; longer ones get 413.
        max_rows: Most rows of one request; more get 413.
        max_prompt_tokens: Most tokens of all prompts of one request together; more get 413.
        models_memory_bytes: Bound of the memory that models' weights take together; ``None`` for no bound.
        prefix_cache_bytes: Bound of the states that each model keeps of texts and schemas; ``None`` for the backend's own, 1 GiB.
        calibrations: Name in requests → a file that ``jevmlx calibrate`` wrote.
        dialects_calibration: The name of the one that the other dialects' questions, which cannot name one, are decided with;
            it must be made with ``isolate``.
        audit_log: Where every decision is recorded before it is given.
        redact: Whether the audit log holds hashes in place of contexts.
        drain_s: Seconds that requests in work have to finish after SIGTERM.

    Raises:
        ConfigError: ``config.server``.
    """

    models: Mapping[str, str] = field(default_factory=lambda: {"embedded": "embedded"})
    host: str = "127.0.0.1"
    port: int = 8000
    tokens_file: Path | None = None
    queue: int = 32
    deadline_s: float = 120.0
    max_body_bytes: int = 4 * 1024 * 1024
    max_rows: int = 4096
    max_prompt_tokens: int = 262_144
    models_memory_bytes: int | None = None
    prefix_cache_bytes: int | None = None
    calibrations: Mapping[str, Path] = field(default_factory=dict)
    dialects_calibration: str | None = None
    audit_log: Path | None = None
    redact: bool = False
    drain_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.models or not all(self.models):
            raise ConfigError("config.server", "a server needs a model, and every model a name", "models")
        name = self.dialects_calibration
        if name is not None and name not in self.calibrations:
            message = f"{name!r} is not one of the calibrations: {', '.join(self.calibrations) or 'none'}"
            raise ConfigError("config.server", message, "dialects_calibration")
        if not is_whole(self.port, 0) or self.port > 65_535:
            raise ConfigError(
                "config.server", f"port is {self.port!r}; a whole number from 0 to 65535 is needed", "port"
            )
        for name in ("queue", "max_body_bytes", "max_rows", "max_prompt_tokens"):
            if not is_whole(getattr(self, name), 1):
                message = f"{name} is {getattr(self, name)!r}; a whole number of at least 1 is needed"
                raise ConfigError("config.server", message, name)
        for name in ("deadline_s", "drain_s"):
            if not (is_number(getattr(self, name)) and getattr(self, name) > 0):
                message = f"{name} is {getattr(self, name)!r}; a positive number of seconds is needed"
                raise ConfigError("config.server", message, name)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
