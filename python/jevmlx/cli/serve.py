"""``jevmlx serve``: decisions over HTTP."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError

_MIB = 2**20


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs tokens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="NAME=MODEL or MODEL: 'embedded', a folder, or a hub id with @REVISION. May be repeated; the first "
            "answers requests that name none.",
            show_default="embedded",
        ),
    ] = None,
    models_memory: Annotated[
        int | None, typer.Option(min=1, help="MiB that models' weights may take together.", show_default="no bound")
    ] = None,
    prefix_cache: Annotated[
        int | None, typer.Option(min=0, help="MiB of states that each model keeps.", show_default="1024")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="File of bearer tokens, 'name:token' a line; read again when it changes.")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Requests in work or waiting; more get 429.")] = 32,
    deadline: Annotated[float, typer.Option(help="Seconds until a request gets 504.")] = 120.0,
    max_body: Annotated[int, typer.Option(min=1, help="KiB of the longest body.")] = 4096,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows of one request.")] = 4096,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most prompt tokens of one request.")] = 262_144,
    calibration: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE that `jevmlx calibrate` wrote; may be repeated.")
    ] = None,
    dialects_calibration: Annotated[
        str | None, typer.Option(help="Name of the one for /v1/systemone and /v1/decisions, made with --isolate.")
    ] = None,
    audit_log: Annotated[Path | None, typer.Option(help="Record every decision here before it is answered.")] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Record hashes in place of texts.")] = False,
    drain: Annotated[float, typer.Option(help="Seconds that requests in work have after SIGTERM.")] = 30.0,
    log_level: Annotated[str, typer.Option(help="'debug', 'info', 'warning' or 'error'.")] = "info",
) -> None:
    """Serve decisions over HTTP: /v1/decide, and the System One and OpenAI Decisions dialects; /docs describes them."""
    for needed in ("fastapi", "prometheus_client", "structlog", "uvicorn"):
        if importlib.util.find_spec(needed) is None:
            raise ConfigError("config.extra", f"the server needs {needed}; install jevmlx[server]")
    from ..server import ServerSettings
    from ..server import serve as run

    if log_level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter("allowed are debug, info, warning, error", param_hint="--log-level")
    settings = ServerSettings(
        models=_models(model or ["embedded"]),
        host=host,
        port=port,
        tokens_file=tokens,
        queue=queue,
        deadline_s=deadline,
        max_body_bytes=max_body * 1024,
        max_rows=max_rows,
        max_prompt_tokens=max_tokens,
        models_memory_bytes=None if models_memory is None else models_memory * _MIB,
        prefix_cache_bytes=None if prefix_cache is None else prefix_cache * _MIB,
        calibrations={name: Path(path) for name, path in _named(calibration or [], "--calibration").items()},
        dialects_calibration=dialects_calibration,
        audit_log=audit_log,
        redact=redact,
        drain_s=drain,
    )
    run(settings, log_level)


def _models(given: Sequence[str]) -> dict[str, str]:
    """Names and what to load; what has no name goes by its own."""
    return _named([one if "=" in one else f"{one.partition('@')[0]}={one}" for one in given], "--model")


def _named(given: Sequence[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, _, value = one.partition("=")
        if not name or not value:
            raise typer.BadParameter(f"{one!r} is not NAME=VALUE", param_hint=option)
        if name in found:
            raise typer.BadParameter(f"{name!r} stands twice", param_hint=option)
        found[name] = value
    return found
