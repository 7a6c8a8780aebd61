"""Chat templates: the only place that calls ``apply_chat_template``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import JevmlxError, PromptError
from .tokenizers import TextTokenizer, unwrap

Turn = tuple[str, str]  # (role, content)

_PROBE_SYSTEM = "jevmlx probe: system"
_PROBE_USER = "jevmlx probe: user"


def render_turns(
    tokenizer: Any, turns: Sequence[Turn], kwargs: Mapping[str, Any], pinned_date: str | None
) -> str | list[int]:
    """Renders a conversation up to the generation marker.

    Args:
        tokenizer: The tokenizer whose template is rendered.
        turns: (role, content) pairs.
        kwargs: Arguments for the template.
        pinned_date: What a template that asks the clock is told, whatever format it asks for.

    Returns:
        The text, or the token ids where the tokenizer's ``apply_chat_template`` gives nothing else.

    Raises:
        PromptError: There is no template, or it raised.
    """
    original = tokenizer.original if isinstance(tokenizer, TextTokenizer) else unwrap(tokenizer)
    apply = getattr(original, "apply_chat_template", None)
    if apply is None or getattr(original, "chat_template", "") is None:
        raise PromptError(
            "prompt.no_template",
            "the tokenizer has no chat template; load one that has, or set tokenizer.chat_template",
        )
    messages = [{"role": role, "content": content} for role, content in turns]
    arguments = dict(kwargs)
    if pinned_date is not None:
        arguments["strftime_now"] = lambda _format: pinned_date
    try:
        rendered = apply(messages, tokenize=False, add_generation_prompt=True, **arguments)
    except JevmlxError:
        raise
    except Exception as error:
        raise PromptError("prompt.template", f"the chat template raised {type(error).__name__}: {error}") from error
    if isinstance(rendered, str):
        return rendered
    if hasattr(rendered, "tolist"):
        rendered = rendered.tolist()
    if isinstance(rendered, (list, tuple)) and rendered and all(type(i) is int and i >= 0 for i in rendered):
        return list(rendered)
    raise PromptError(
        "prompt.template",
        f"the chat template gave a {type(rendered).__name__}; text or a list of token ids is needed",
    )


def probe_system_role(tokenizer: Any, kwargs: Mapping[str, Any], pinned_date: str | None) -> bool:
    """Whether the template takes a system message and shows its text.

    Raises:
        PromptError: The template is missing, or raised something else than a Jinja template error.
    """
    user = ("user", _PROBE_USER)
    try:
        with_system = render_turns(tokenizer, [("system", _PROBE_SYSTEM), user], kwargs, pinned_date)
    except PromptError as error:
        if _is_template_error(error.__cause__):
            return False
        raise
    if isinstance(with_system, str):
        return _PROBE_SYSTEM in with_system
    return with_system != render_turns(tokenizer, [user], kwargs, pinned_date)


def _is_template_error(error: BaseException | None) -> bool:
    from jinja2 import TemplateError

    return isinstance(error, TemplateError)


def chat_template_source(tokenizer: Any) -> str:
    """The template's source where the tokenizer shows it, else an empty string."""
    source = getattr(unwrap(tokenizer), "chat_template", None)
    if isinstance(source, dict):
        source = "\n".join(map(str, source.values()))
    return source if isinstance(source, str) else ""
