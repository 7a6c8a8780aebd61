"""Bearer tokens: several, named, and revoked by taking them out of their file."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

import structlog

from ..errors import ConfigError
from .settings import ServerSettings

VARIABLE = "JEVMLX_TOKENS"

_log = structlog.get_logger("jevmlx.server")


class Tokens:
    """The tokens that are good now.

    Args:
        file: ``name:token`` a line; empty lines and those that begin with ``#`` are skipped.
        listed: The same, separated by commas, as the environment holds it.

    Raises:
        ConfigError: ``config.tokens``: the file cannot be read, or a line is at fault.
    """

    def __init__(self, file: Path | None = None, listed: str = "") -> None:
        self._file = file
        self._fixed = _parse(listed.split(","), VARIABLE)
        self._seen: tuple[int, int, int] | None = None
        self._held: dict[str, bytes] = {}
        if file is not None:
            self._read(file)
        if file is not None and not self._held:
            raise ConfigError("config.tokens", f"{str(file)!r} holds no token; add a line 'name:token'", "tokens_file")

    @classmethod
    def of_environment(cls, file: Path | None) -> Tokens:
        """Tokens of a file and of ``JEVMLX_TOKENS``."""
        return cls(file, os.environ.get(VARIABLE, ""))

    def check_needed(self, settings: ServerSettings) -> None:
        """Refuses to let anybody on a network in unasked.

        Raises:
            ConfigError: ``config.tokens``.
        """
        if not self.needed and not settings.on_loopback:
            message = (
                f"{settings.host!r} can be reached from other machines: name a file of tokens, set {VARIABLE}, "
                "or listen on 127.0.0.1"
            )
            raise ConfigError("config.tokens", message, "tokens_file")

    @property
    def needed(self) -> bool:
        """Whether requests need one: then they still do after the last one was revoked."""
        return self._file is not None or bool(self._fixed)

    def name_of(self, token: str) -> str | None:
        """Whose token it is; ``None`` if it is nobody's. Takes the same time for every wrong token."""
        self._follow()
        given = _digest(token)
        found = None
        for name, digest in (*self._fixed.items(), *self._held.items()):
            if hmac.compare_digest(given, digest):
                found = name
        return found

    def _follow(self) -> None:
        """Reads the file again if it changed. What cannot be read lets nobody in."""
        if self._file is None:
            return
        try:
            if _stamp(self._file) != self._seen:
                self._read(self._file)
        except (ConfigError, OSError) as error:
            if self._held:
                _log.error("tokens refused", reason=str(error))
            self._held, self._seen = {}, None

    def _read(self, file: Path) -> None:
        try:
            seen = _stamp(file)
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("config.tokens", f"{str(file)!r} cannot be read: {error}", "tokens_file") from error
        self._held = _parse(lines, str(file))
        self._seen = seen


def _stamp(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _digest(token: str) -> bytes:
    # Of equal length whatever the token's, and comparing digests says nothing about a token's beginning.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _parse(lines: list[str], where: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, colon, token = text.partition(":")
        if not colon or not name or len(token) < 8 or not token.isascii() or any(c.isspace() for c in token):
            message = f"entry {number} of {where} is not name:token, with a token of 8 or more ASCII characters"
            raise ConfigError("config.tokens", message, "tokens_file")
        if name in found:
            raise ConfigError("config.tokens", f"{where} names {name!r} twice", "tokens_file")
        found[name] = _digest(token)
    return found
