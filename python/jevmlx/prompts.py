"""From a plan and a context to a prompt: text, token ids, and the hash that names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._core import (
    PROMPT_VERSION,
    PROMPT_VERSION_ISOLATED,
    PROMPT_VERSION_ISOLATED_KEYED,
    PROMPT_VERSION_KEYED,
    PROMPT_VERSION_MESSAGES,
    Plan,
    Schema,
    token_ids_sha256,
)
from ._core import compile_plan as _compile_plan
from .errors import ConfigError, PromptError
from .profiles import Profile
from .templates import Turn, render_turns
from .tokenizers import TextTokenizer, adapt, restored

# Characters that mean nothing to any text: where they occur in the contents all the same, others are taken.
_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt.

    Attributes:
        ids: Token ids, ending exactly at the template's generation marker.
        text: The rendered text; empty where the tokenizer's template gives ids only.
        sha256: SHA-256 over the ids written as a JSON list.
        version: Version of the prompt contract.
    """

    ids: list[int]
    text: str
    sha256: str
    version: str


def compile_plan(schema: Schema | Mapping[str, Any] | str, tokenizer: Any, scoring: str = "labels") -> Plan:
    """Compiles a schema for a tokenizer.

    Args:
        schema: A schema, or what one is made from.
        tokenizer: From transformers, from tokenizers, or anything with ``encode(text)`` that returns token ids.
        scoring: ``"labels"`` scores the choices themselves, ``"slots"`` short aliases for them.

    Raises:
        SchemaError: The schema is at fault.
        CompileError: This tokenizer cannot tell the answers apart.
        TokenizerError: The tokenizer raised or returned something else than token ids.
        ConfigError: ``scoring`` is neither.

    Example:
        >>> import jevmlx
        >>> class Characters:
        ...     def encode(self, text): return [ord(c) for c in text]
        >>> plan = jevmlx.compile_plan({"urgent": {"type": "boolean"}}, Characters())
        >>> print(plan.schema_block)
          "urgent": "true"  "false"  // ""
    """
    if not isinstance(schema, Schema):
        schema = Schema(schema)
    return _compile_plan(schema, adapt(tokenizer).encode_data, scoring)


def render_prompt(
    plan: Plan,
    context: str | None = None,
    tokenizer: Any = None,
    profile: Profile | None = None,
    *,
    messages: Sequence[Mapping[str, str]] | None = None,
    nonce_key: bytes | None = None,
    isolated: bool = False,
) -> Prompt:
    """Renders the prompt for a context, or for chat messages in its place.

    Args:
        plan: The compiled plan.
        context: The text to decide on.
        tokenizer: The tokenizer the plan was compiled for, with its chat template.
        profile: From :func:`resolve_profile`.
        messages: Chat messages, ``{"role": …, "content": …}`` each: an optional system message, then user and assistant in
            turn, starting and ending with user.
        nonce_key: A secret that makes the fence's nonce unguessable even to someone who controls the whole context.
        isolated: Whether the plan's one field is asked alone, after the context; see ``Schema.isolated``.

    Raises:
        PromptError: The context, the messages or the template are at fault.
        ConfigError: Neither or both of ``context`` and ``messages`` are given, or an argument is missing.
    """
    if tokenizer is None or profile is None:
        raise ConfigError("config.missing", "render_prompt needs a tokenizer and a profile")
    turns, version = conversation(plan, context, messages, nonce_key, profile.supports_system, isolated)
    text_tokenizer = adapt(tokenizer)
    ids, text = encode_turns(text_tokenizer, turns, profile)
    return Prompt(ids, text, token_ids_sha256(ids), version)


def conversation(
    plan: Plan,
    context: str | None,
    messages: Sequence[Mapping[str, str]] | None,
    nonce_key: bytes | None,
    supports_system: bool,
    isolated: bool = False,
) -> tuple[list[Turn], str]:
    """The turns the template renders, and the version of the contract they follow.

    Raises:
        PromptError: The context or the messages are at fault.
        ConfigError: Neither or both are given.
    """
    if (context is None) == (messages is None):
        raise ConfigError("config.context", "give either a context or messages, not both or neither")
    if isolated and (context is None or len(plan.schema.fields) != 1):
        raise ConfigError(
            "config.isolate", "one question about one context can be asked alone, and no messages", "isolate"
        )
    if messages is not None:
        if nonce_key is not None:
            raise ConfigError("config.nonce_key", "messages have no fence, so a nonce key has no use; leave it out")
        return plan.message_turns(check_messages(messages), supports_system), PROMPT_VERSION_MESSAGES
    if not isinstance(context, str):
        raise PromptError("prompt.context", f"the context must be a string, not a {type(context).__name__}", "context")
    if isolated:
        version = PROMPT_VERSION_ISOLATED if nonce_key is None else PROMPT_VERSION_ISOLATED_KEYED
        return plan.isolated_turns(context, supports_system, nonce_key), version
    version = PROMPT_VERSION if nonce_key is None else PROMPT_VERSION_KEYED
    return plan.context_turns(context, supports_system, nonce_key), version


def encode_turns(tokenizer: TextTokenizer, turns: Sequence[Turn], profile: Profile) -> tuple[list[int], str]:
    """Renders turns through the chat template and encodes the result; data never becomes control tokens.

    Returns:
        The token ids and the rendered text; the text is empty where the tokenizer's template gives ids only.
    """
    parts, text = render_parts(tokenizer, turns, profile)
    if not text:
        return [part for part in parts if isinstance(part, int)], text
    return tokenizer.encode_parts(parts), text


def render_parts(tokenizer: TextTokenizer, turns: Sequence[Turn], profile: Profile) -> tuple[list[str | int], str]:
    """Renders turns through the chat template.

    Returns:
        Data pieces and control token ids in turn, and the rendered text. Where the tokenizer's template gives ids only, those
        ids and an empty text.
    """
    end = profile.reasoning_end
    if end is not None and end in tokenizer.control_ids:
        turns = [(role, _answer(content, end) if role == "assistant" else content) for role, content in turns]
    tokens = tokenizer.control_tokens_in(content for _, content in turns)
    stand_ins: dict[str, str] = dict(zip(_unused_characters(turns), tokens, strict=False)) if tokens else {}
    for stand_in, token in stand_ins.items():
        # Longest first, as they come.
        turns = [(role, content.replace(token, stand_in)) for role, content in turns]
    rendered = render_turns(tokenizer, turns, profile.template_kwargs, profile.pinned_date)
    if not isinstance(rendered, str):
        return list(rendered), ""
    text = restored(rendered, stand_ins)
    return tokenizer.split_rendered(rendered, stand_ins), text


def _answer(content: str, reasoning_end: str) -> str:
    """An assistant's text without its reasoning, as the template would cut it."""
    *reasoning, answer = content.split(reasoning_end)
    return answer.lstrip("\n") if reasoning else content


def _unused_characters(turns: Sequence[Turn]) -> Iterator[str]:
    used = set().union(*(content for _, content in turns))
    return (chr(point) for block in _PRIVATE_USE for point in block if chr(point) not in used)


def check_messages(messages: Any) -> list[Turn]:
    """Chat messages as (role, content) pairs.

    Raises:
        PromptError: A message is not a mapping with exactly a role and a string content.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
        raise PromptError("prompt.messages.type", "messages must be a list of {role, content} objects", "messages")
    turns = []
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if not isinstance(message, Mapping):
            raise PromptError("prompt.messages.type", "a message must be an object with role and content", path)
        extra = sorted(str(key) for key in message if key not in ("role", "content"))
        if extra:
            raise PromptError(
                "prompt.messages.key",
                f"a message has role and content only; {', '.join(extra)} cannot be shown to every template",
                f"{path}.{extra[0]}",
            )
        for key in ("role", "content"):
            if not isinstance(message.get(key), str):
                raise PromptError(
                    f"prompt.messages.{key}",
                    f"a message's {key} must be a string; content parts and tool calls are not supported",
                    f"{path}.{key}",
                )
        turns.append((message["role"], message["content"]))
    return turns
