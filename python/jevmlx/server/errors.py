"""What went wrong, as HTTP says it.

One body serves all dialects: ``error`` is what the OpenAI client and our own read, ``detail`` what System One clients read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from ..errors import JevmlxError
from . import openai_decisions
from .wire import json_response


class RequestError(JevmlxError):
    """A request that cannot be answered.

    Attributes:
        headers: Headers of the answer.
    """

    def __init__(self, code: str, message: str, path: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(code, message, path)
        self.headers = dict(headers or {})


# By a whole code, or by its first part; anything else is the request's fault.
_STATUS = {
    "prompt.too_long": 413,
    "model.non_finite": 500,
    "model": 503,
    "tokenizer": 500,
    "audit": 503,
    "server.token": 401,
    "server.host": 403,
    "server.route": 404,
    "server.model": 404,
    "server.method": 405,
    "server.body": 413,
    "server.rows": 413,
    "server.tokens": 413,
    # 415 would say more to a person, and less to the clients, which know no such error.
    "server.media": 400,
    "server.busy": 429,
    "server.internal": 500,
    "server.not_ready": 503,
    "server.deadline": 504,
}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
}


def status_of(error: JevmlxError) -> int:
    """The HTTP status of an error.

    Example:
        >>> status_of(JevmlxError("prompt.too_long", "")), status_of(JevmlxError("schema.empty", ""))
        (413, 422)
    """
    return _STATUS.get(error.code) or _STATUS.get(error.code.partition(".")[0]) or 422


def error_body(error: JevmlxError) -> dict[str, Any]:
    """What an error's answer holds."""
    status = status_of(error)
    detail = None
    if status == 422:
        place = ["body", error.path] if error.path else ["body"]
        detail = [{"loc": place, "msg": error.message, "type": error.code}]
    return _body(status, error.code, error.message, error.path, detail)


def error_response(error: JevmlxError) -> Response:
    """The answer to a request that went wrong."""
    headers = error.headers if isinstance(error, RequestError) else {}
    return json_response(error_body(error), status_of(error), headers)


def invalid_response(found: Sequence[Mapping[str, Any]], path: str) -> Response:
    """The answer to a body that is not of its form.

    Args:
        found: What is wrong, in pydantic's form, with ``loc`` beginning with ``"body"``.
        path: The request's path.
    """
    detail = []
    for one in found:
        because = one.get("ctx", {}).get("error")
        message = f"{one['msg']}: {because}" if one["type"] == "json_invalid" else one["msg"]
        detail.append({"loc": list(one["loc"]), "msg": message, "type": one["type"]})
    where = ".".join(map(str, detail[0]["loc"][1:]))
    said = "; ".join(f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}" for one in detail[:5])
    # OpenAI says 400 of a malformed request, and 422 of a well-formed one that cannot be asked.
    status = 400 if path == openai_decisions.PATH else 422
    return json_response(_body(status, "server.request", said, where, detail), status)


def _body(status: int, code: str, message: str, path: str, detail: list[dict[str, Any]] | None) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error")
    return {
        "error": {"message": message, "type": kind, "param": path or None, "code": code},
        "detail": detail or {"error_type": kind, "message": message},
    }
