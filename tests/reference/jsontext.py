"""The three JSON dialects of the contract, and the hashes over them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any


def json_text(value: Any) -> str:
    """JSON as prompts and candidates hold it: non-ASCII kept, keys in input order."""
    text = json.dumps(value, ensure_ascii=False)
    refuse_surrogates(text)
    return text


def plan_text(value: Any) -> str:
    """JSON as the plan hash sees it: ASCII escapes (DEL among them), keys sorted by code point at every level."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True)


def ids_text(ids: Sequence[int]) -> str:
    """JSON as the token-id hash sees it: a flat list of integers."""
    return json.dumps(list(ids))


def refuse_surrogates(text: str, where: str = "text") -> None:
    """Raise ValueError on a lone surrogate: it has no UTF-8 form."""
    for position, character in enumerate(text):
        if 0xD800 <= ord(character) <= 0xDFFF:
            raise ValueError(f"{where}: lone surrogate U+{ord(character):04X} at position {position}")


def sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def plan_hash(plan: dict[str, Any]) -> str:
    return sha256_hex(plan_text(plan))


def token_ids_sha256(ids: Sequence[int]) -> str:
    return sha256_hex(ids_text(ids))
