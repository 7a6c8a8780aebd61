"""Around every request: its id, its log line and metrics, who asks, how long the body is, and a last net for errors."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Sequence

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import RequestError, error_response
from .metrics import Metrics
from .tokens import Tokens

REQUEST_ID = "x-request-id"
# What the System One clients look for.
REQUEST_ID_NAMES = (REQUEST_ID, "x-typesafe-request-id")
STATIC_PATH = "/static"
# A browser that reads the description sends no token, and it tells nothing of this server's own.
OPEN_PATHS = ("/health", "/ready", "/docs", "/openapi.json")

_log = structlog.get_logger("jevmlx.server")
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Observed:
    """Gives a request its id, and says and counts what became of it; what nothing else caught becomes a 500.

    Args:
        app: What answers.
        metrics: Where it is counted.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        given = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = given if _ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.bind_contextvars(request_id=request_id)
        status = 0

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name in REQUEST_ID_NAMES:
                    headers[name] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        except Exception:
            _log.exception("request failed")
            if status:
                raise
            error = RequestError("server.internal", "the server failed; its log says more under this request's id")
            await error_response(error)(scope, receive, send_named)
        finally:
            took = time.perf_counter() - started
            # The route's own pattern, so that no caller can make up names to count by.
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(route, str(status or 499)).inc()
            self._metrics.seconds.labels(route).observe(took)
            _log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status or 499,
                seconds=round(took, 4),
                token=scope["state"].get("token"),
            )
            structlog.contextvars.unbind_contextvars("request_id")


class Known:
    """Lets in who has a token, where tokens are needed, and else who calls this machine by a name of its own.

    A page in a browser could reach a server on loopback under a name that its owner points there; such a name is refused.

    Args:
        app: What answers.
        tokens: The tokens.
        hosts: Names that requests may call the server by where no token is needed; none allows all.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, hosts: Sequence[str]) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        error = None if scope["type"] != "http" or _is_open(scope["path"]) else self._refused(scope)
        if error is None:
            await self._app(scope, receive, send)
        else:
            await error_response(error)(scope, receive, send)

    def _refused(self, scope: Scope) -> RequestError | None:
        headers = Headers(scope=scope)
        if not self._tokens.needed:
            host = re.sub(r":\d*$", "", headers.get("host", "")).strip("[]")
            if self._hosts and host not in self._hosts:
                message = f"this server is not called {host!r}; call it by {self._hosts[0]!r}, or start it with tokens"
                return RequestError("server.host", message)
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        name = self._tokens.name_of(token.strip()) if kind.lower() == "bearer" and token else None
        if name is None:
            why = "this token is not known, or no longer" if token else "a token is needed"
            message = f"{why}; send the header 'Authorization: Bearer TOKEN'"
            return RequestError("server.token", message, headers={"WWW-Authenticate": "Bearer"})
        scope["state"]["token"] = name
        return None


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(f"{STATIC_PATH}/")


class ShortBody:
    """Reads a request's body before anything else does, and refuses one that is too long as soon as it is seen.

    Args:
        app: What answers.
        most: Bytes.
        seconds: Until it must have come.
    """

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._seconds):
                whole = await self._read(scope, receive)
        except TimeoutError:
            late = RequestError("server.deadline", f"the body did not come within {self._seconds:g} s")
            await error_response(late)(scope, receive, send)
            return
        except RequestError as error:
            await error_response(error)(scope, receive, send)
            return
        if whole is None:
            return
        body: Message | None = {"type": "http.request", "body": whole, "more_body": False}

        async def receive_again() -> Message:
            nonlocal body
            message, body = body, None
            return message or await receive()

        await self._app(scope, receive_again, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; ``None`` where the client hung up.

        Raises:
            RequestError: ``server.body``.
        """
        stated = Headers(scope=scope).get("content-length", "")
        length, read, more = int(stated) if stated.isdigit() else 0, 0, True
        parts: list[bytes] = []
        while length <= self._most:
            if not more:
                return b"".join(parts)
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
            length = max(length, read := read + len(parts[-1]))
        raise RequestError("server.body", f"the body has more than {self._most} bytes; send less at once")
