"""The application: routes, and what stands around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.responses import Response

from .. import __version__
from ..audit import AuditLog
from ..calibration import Calibration
from ..engine import Engine, load
from ..errors import JevmlxError
from .admission import Admission
from .answering import Answering, ClientGoneError
from .errors import RequestError, error_response, invalid_response
from .metrics import Metrics
from .middleware import STATIC_PATH, Known, Observed, ShortBody
from .pool import ModelPool
from .routes import routes
from .settings import ServerSettings
from .tokens import Tokens

# Names that this machine calls itself by.
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

_log = structlog.get_logger("jevmlx.server")


def create_app(settings: ServerSettings) -> FastAPI:
    """An ASGI application that answers by a library call.

    Args:
        settings: How it runs.

    Raises:
        ConfigError: Settings or tokens are at fault; ``config.tokens``: it would listen beyond this machine without tokens.
        CalibrationError: A calibration cannot be used.
        AuditError: The audit log cannot be used.
    """
    tokens = Tokens.of_environment(settings.tokens_file)
    tokens.check_needed(settings)
    metrics = Metrics()
    calibrations = {name: Calibration.load(path) for name, path in settings.calibrations.items()}
    audit = AuditLog(settings.audit_log, redact=settings.redact) if settings.audit_log else None

    def loaded(source: str) -> Engine:
        model, _, revision = (source, "", "") if Path(source).exists() else source.partition("@")
        cache = settings.prefix_cache_bytes
        return load(model, revision=revision or None, prefix_cache_bytes=cache, audit=audit)

    pool = ModelPool(settings.models, loaded, settings.models_memory_bytes)
    answering = Answering(settings, pool, Admission(settings.queue, settings.deadline_s), metrics, calibrations)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await answering.warm()
        app.state.ready = True
        yield
        app.state.ready = False
        await pool.close()
        if audit is not None:
            audit.close()

    app = FastAPIOffline(
        redoc_url=None,
        static_url=STATIC_PATH,
        title="jevmlx",
        version=__version__,
        summary="Typed decisions from a local language model.",
        lifespan=lifespan,
        default_response_class=Response,
    )
    app.state.draining = app.state.ready = False
    app.state.answering = answering
    app.include_router(routes(answering))
    app.exception_handler(JevmlxError)(_jevmlx_error)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_http_error)
    app.exception_handler(ClientGoneError)(_gone)
    # The last one stands outermost.
    app.add_middleware(ShortBody, most=settings.max_body_bytes, seconds=settings.deadline_s)
    app.add_middleware(Known, tokens=tokens, hosts=(*_LOOPBACK_NAMES, settings.host) if settings.on_loopback else ())
    app.add_middleware(Observed, metrics=metrics)
    return app


async def _jevmlx_error(_request: Request, error: JevmlxError) -> Response:
    response = error_response(error)
    if response.status_code >= 500:
        _log.error("request refused", code=error.code, reason=error.message)
    return response


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    return invalid_response(error.errors(), request.url.path)


async def _http_error(_request: Request, error: HTTPException) -> Response:
    if error.status_code == 404:
        return error_response(RequestError("server.route", "there is no such path; /docs lists those there are"))
    if error.status_code == 405:
        return error_response(
            RequestError("server.method", "not by this method; /docs says how", headers=error.headers)
        )
    return error_response(RequestError("server.request", str(error.detail)))


async def _gone(_request: Request, _error: ClientGoneError) -> Response:
    # Nobody reads it; it makes the log say what happened.
    return Response(status_code=499)
