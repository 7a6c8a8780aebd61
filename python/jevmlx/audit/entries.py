"""What is stored of a decision."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..asking import SchemaLike
from ..inputs import schema_of
from ..options import Options
from ..policy import Threshold
from ..results import Decision, DecisionError
from .lines import dumps

# Stored otherwise, or not at all.
_NOT_PLAIN = ("calibration", "nonce_key", "merge")


def entry_of(
    schema: SchemaLike,
    context: str | bytes | None,
    messages: Sequence[Mapping[str, str]] | None,
    options: Mapping[str, Any] | Options,
    result: Decision | DecisionError,
    *,
    redact: bool,
) -> dict[str, Any]:
    """An entry for a decision, or for what was wrong with a context.

    Raises:
        JevmlxError: Schema or options are at fault.
    """
    asked: dict[str, Any] = {"schema": schema_of(schema).schema.to_dict()}
    if messages is not None:
        asked |= _private("messages", messages, redact)
    else:
        asked |= _private("context", context, redact)
    asked["options"] = stored_options(options if isinstance(options, Options) else Options.of(options))
    if isinstance(result, Decision):
        return {"kind": "decision", **asked, "result": result.to_dict()}
    error = result.to_dict()
    if redact:
        # Message and path may quote what was given.
        error = {"error": {"index": result.index, "code": result.code}}
    return {"kind": "error", **asked, **error}


def stored_options(options: Options) -> dict[str, Any]:
    """The options that are not the default, as plain data; of a key only that there was one, of a calibration its hash."""
    stored: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.init and field.name not in _NOT_PLAIN and value != field.default:
            stored[field.name] = _plain(value)
    if options.nonce_key is not None:
        stored["nonce_keyed"] = True
    if options.calibration is not None:
        stored["calibration_sha256"] = options.calibration.sha256
    return stored


def _plain(value: Any) -> Any:
    if isinstance(value, Threshold):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _private(name: str, value: Any, redact: bool) -> dict[str, Any]:
    """What was given, or its hash; bytes that are no text have only a hash."""
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            redact = True
    if not redact:
        return {name: value}
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    data = value if isinstance(value, bytes) else dumps(value)
    return {f"{name}_sha256": hashlib.sha256(data).hexdigest()}
