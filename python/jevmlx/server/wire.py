"""JSON in and out: strict, so that what is answered is JSON and what is asked says one thing only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["StrictRequest", "json_response", "text_of"]


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer of plain data."""
    body = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, status, headers, "application/json")


def text_of(data: Any) -> str:
    """A text as it is, other data as JSON text: what a model reads of them."""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, allow_nan=False)


class StrictRequest(Request):
    """A request whose body is read strictly: UTF-8, no NaN, no key twice, no lone surrogate, of sane depth."""

    async def json(self) -> Any:
        """The body's data.

        Raises:
            json.JSONDecodeError: It is no strict JSON.
        """
        if not hasattr(self, "_data"):
            self._data = _strict(await self.body())
        return self._data


def _strict(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
        data = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_twin)
        if "\\u" in text:
            # Only an escape can have brought half of a pair.
            json.dumps(data, ensure_ascii=False).encode()
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError as error:
        raise json.JSONDecodeError(f"not UTF-8: byte {error.start}", "", error.start) from error
    except UnicodeEncodeError as error:
        raise json.JSONDecodeError("a lone surrogate has no UTF-8 form", "", 0) from error
    except RecursionError as error:
        raise json.JSONDecodeError("nested too deeply", "", 0) from error
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", 0) from error
    return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_twin(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twin = next(key for at, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:at]))
        raise ValueError(f"the key {twin!r} stands twice")
    return found
