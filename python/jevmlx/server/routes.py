"""The endpoints: each turns its dialect's request into a library call, and the decision into its dialect's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from ..engine import Engine
from ..errors import CompileError
from ..inputs import schema_of
from ..results import Decision
from . import openai_decisions as openai
from . import systemone
from .answering import Answering, while_connected
from .errors import RequestError
from .metrics import CONTENT_TYPE
from .own import DecideRequest
from .streaming import Tell, stream
from .wire import StrictRequest, json_response, text_of

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": text}
    for status, text in {
        401: "A token is needed, or this one is not good",
        404: "No such model",
        413: "Body, rows or prompts too large",
        422: "The request is at fault: `error.code`, `error.param` and `error.message` say how",
        429: "Too many requests; see Retry-After",
        503: "The model cannot answer now",
        504: "Not within the deadline",
    }.items()
}


class _StrictRoute(APIRoute):
    """A route whose requests are read strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
            if request.method == "POST" and kind != "application/json":
                raise RequestError("server.media", f"the body is {kind!r}; send application/json")
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def routes(answering: Answering) -> APIRouter:
    """All endpoints."""
    router = APIRouter(route_class=_StrictRoute)
    _add_decide(router, answering)
    _add_systemone(router, answering)
    _add_decisions(router, answering)
    _add_state(router, answering)
    return router


def _add_decide(router: APIRouter, answering: Answering) -> None:
    @router.post(
        "/v1/decide", responses={200: {"model": Decision}, **_ERRORS}, summary="Decide every field of a schema"
    )
    async def decide(asked: DecideRequest, request: Request) -> Response:
        """This library's own schemas, constraints and options; with `stream`, server-sent events `field` and `decision`."""
        messages = None if asked.messages is None else [message.model_dump() for message in asked.messages]
        given = await asyncio.to_thread(schema_of, asked.fields_)
        options = asked.options() | {"calibration": answering.calibration(asked.calibration)}

        async def decided(tell: Tell | None = None) -> Decision:
            async with answering.engine(asked.model) as (_, engine):
                return await answering.decide(engine, given, asked.context, messages=messages, on_field=tell, **options)

        if asked.stream:
            return await while_connected(request, stream(decided))
        return json_response((await while_connected(request, decided())).to_dict())


def _add_systemone(router: APIRouter, answering: Answering) -> None:
    @router.post(
        "/v1/systemone",
        responses={200: {"model": systemone.SystemOneResponse}, **_ERRORS},
        summary="System One: noul, choice and score questions about a state",
    )
    async def ask(asked: systemone.SystemOneRequest, request: Request) -> Response:
        """Every question is asked alone: others, their names and their order change nothing."""
        context = text_of(asked.state)

        async def answered() -> dict[str, Any]:
            async with answering.engine(asked.model) as (name, engine):
                decision = await answering.decide(
                    engine, systemone.schema_of_request(asked), context, **answering.dialect_options
                )
                return systemone.answers_of(asked, decision, name)

        return json_response(await while_connected(request, answered()))


def _add_decisions(router: APIRouter, answering: Answering) -> None:
    @router.post(
        openai.PATH,
        responses={200: {"model": openai.DecisionsResponse}, 400: {"description": "Malformed"}, **_ERRORS},
        summary="OpenAI's Decisions: predicate, choice and score questions about an input",
    )
    async def ask(asked: openai.DecisionsRequest, request: Request) -> Response:
        """Every question is asked alone. One that the model cannot tell apart is refused; the others are answered."""
        fields = {f"q{at}": openai.field_of(question) for at, question in enumerate(asked.questions)}

        async def answered() -> dict[str, Any]:
            async with answering.engine(asked.model) as (name, engine):
                kept = await asyncio.to_thread(_askable, engine, fields)
                decision = None
                if kept:
                    context = openai.context_of(asked.input)
                    decision = await answering.decide(engine, kept, context, **answering.dialect_options)
                results = decision.fields if decision else {}
                return {
                    "model": name,
                    "answers": [
                        openai.answer_of(question, results.get(f"q{at}")) for at, question in enumerate(asked.questions)
                    ],
                    "usage": openai.usage_of(decision),
                }

        return json_response(await while_connected(request, answered()))


def _askable(engine: Engine, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields whose answers the model's tokenizer can tell apart.

    Raises:
        SchemaError: A field is at fault for any model.
    """
    kept = {}
    schema = schema_of(fields).schema
    for (name, field), alone in zip(fields.items(), schema.isolated(), strict=True):
        try:
            engine.compile(alone)
        except CompileError:
            continue
        kept[name] = field
    return kept


def _add_state(router: APIRouter, answering: Answering) -> None:
    @router.get("/v1/models", summary="The models, in the form of both public dialects")
    async def models() -> Response:
        """The first one answers requests that name none, or `jev-latest`."""
        return json_response(answering.pool.listed())

    @router.get("/health", summary="Whether the process runs")
    async def health() -> Response:
        return json_response({"status": "ok"})

    @router.get(
        "/ready", summary="Whether the first model answers", responses={503: {"description": "Not yet, or no more"}}
    )
    async def ready(request: Request) -> Response:
        state = request.app.state
        if not state.ready or state.draining:
            raise RequestError("server.not_ready", "the server is starting or stopping; try again later")
        return json_response({"status": "ready", "models": list(answering.pool.loaded)})

    @router.get("/metrics", summary="Figures for Prometheus")
    async def metrics() -> Response:
        return Response(answering.metrics.text(), media_type=CONTENT_TYPE)
