"""The whole prompt: profile, chat template, text and ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2

from . import prompt
from .control import DataEncoder
from .prompt import Message
from .schema import Field

TEMPLATE_KWARGS: dict[str, dict[str, Any]] = {
    "qwen2.5": {},
    "qwen3": {"enable_thinking": False},
    "gemma": {},
    "generic": {},
}


@dataclass(frozen=True)
class Profile:
    name: str
    template_kwargs: dict[str, Any]
    supports_system: bool


@dataclass(frozen=True)
class Rendered:
    text: str
    ids: list[int]
    version: str
    turns: list[Message]


def resolve_profile(model_id: str, tokenizer: Any) -> Profile:
    """By the start of the model id's last part; Qwen takes a system message, the others are asked."""
    base = model_id.rsplit("/", 1)[-1].lower()
    name = next((name for name in ("qwen2.5", "qwen3", "gemma") if base.startswith(name)), "generic")
    kwargs = TEMPLATE_KWARGS[name]
    return Profile(name, kwargs, name.startswith("qwen") or takes_system(tokenizer, kwargs))


def takes_system(tokenizer: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the template renders a system message, rather than refuse or drop it."""
    probe = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}]
    try:
        return "be kind" in apply_template(tokenizer, probe, kwargs)
    except jinja2.TemplateError:
        return False


def apply_template(tokenizer: Any, turns: Sequence[Message], kwargs: dict[str, Any]) -> str:
    text = tokenizer.apply_chat_template(list(turns), tokenize=False, add_generation_prompt=True, **kwargs)
    assert isinstance(text, str)
    return text


class PlainEncoder:
    """A tokenizer without control tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [list(self.tokenizer.encode(text, add_special_tokens=False)) for text in texts]

    def render(self, turns: Sequence[Message], template: Callable[[list[Message]], str]) -> tuple[str, list[int]]:
        text = template(list(turns))
        return text, self.encode([text])[0]


@cache
def encoder_of(tokenizer: Any) -> DataEncoder | PlainEncoder:
    """What encodes candidates and prompts for this tokenizer."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return PlainEncoder(tokenizer) if backend is None else DataEncoder(backend)


def render(
    fields: Sequence[Field],
    plan: dict[str, Any],
    tokenizer: Any,
    profile: Profile,
    context: str | None = None,
    messages: Sequence[Message] | None = None,
    nonce_key: bytes | None = None,
    isolate: bool = False,
) -> Rendered:
    """Text and ids of the prompt for a context, for a question asked alone about a context, or for messages."""
    block = prompt.schema_block(fields, plan)
    if messages is not None:
        version = prompt.VERSION_MESSAGES
        turns = prompt.message_turns(block, messages, profile.supports_system)
    else:
        assert context is not None
        plain, keyed = (prompt.VERSION, prompt.VERSION_KEYED)
        content = prompt.user_content
        if isolate:
            plain, keyed = (prompt.VERSION_ISOLATED, prompt.VERSION_ISOLATED_KEYED)
            content = prompt.isolated_content
        version = plain if nonce_key is None else keyed
        turns = prompt.context_turns(content(block, context, nonce_key), profile.supports_system)
    encoder = encoder_of(tokenizer)
    if profile.name == "qwen3" and isinstance(encoder, DataEncoder):
        turns = [_without_reasoning(turn) for turn in turns]
    text, ids = encoder.render(turns, lambda treated: apply_template(tokenizer, treated, profile.template_kwargs))
    return Rendered(text, ids, version, turns)


def _without_reasoning(turn: Message) -> Message:
    """Qwen3's template drops an assistant's text up to its last ``</think>``.

    It looks for the token's text, which the stand-ins hide from it, so the cut is made here first.
    """
    if turn["role"] != "assistant" or "</think>" not in turn["content"]:
        return turn
    return turn | {"content": turn["content"].split("</think>")[-1].lstrip("\n")}
