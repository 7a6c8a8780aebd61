"""Profiles: what is known of a model family's chat template, as data, resolved once per loaded model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .templates import chat_template_source, probe_system_role

# A template that prints the date would make the same question another prompt tomorrow. This is the date Llama 3's own
# template falls back to where no clock is at hand.
PINNED_DATE = "26 Jul 2024"


@dataclass(frozen=True)
class Family:
    """A model family: how its ids start, which ``model_type`` its configs carry, what its template is given.

    ``reasoning_end`` is the control token up to which the template drops an assistant's text. Stand-ins for control tokens
    hide it from the template, so the text is dropped before.
    """

    name: str
    prefixes: tuple[str, ...]
    model_types: tuple[str, ...]
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    reasoning_end: str | None = None


# The first whose prefix fits wins. A family is added here and nowhere else.
FAMILIES = (
    Family("qwen2.5", ("qwen2.5",), ("qwen2",)),
    Family("qwen3", ("qwen3",), ("qwen3", "qwen3_moe"), {"enable_thinking": False}, reasoning_end="</think>"),
    Family("gemma", ("gemma",), ("gemma", "gemma2", "gemma3", "gemma3_text")),
)
GENERIC = Family("generic", (), ())


@dataclass(frozen=True)
class Profile:
    """How a model's chat template is called.

    Attributes:
        name: The family's name, or ``"generic"``.
        template_kwargs: Arguments for the template.
        supports_system: Whether the template shows a system message; else its text goes before the first user message.
        pinned_date: The date a template that prints one is given; ``None`` where it prints none.
        reasoning_end: The control token up to which the template drops an assistant's text, if it does.
    """

    name: str
    template_kwargs: Mapping[str, Any]
    supports_system: bool
    pinned_date: str | None = None
    reasoning_end: str | None = None


def resolve_profile(model_id: str, tokenizer: Any) -> Profile:
    """The profile of a model.

    Args:
        model_id: A hub id, a path into the hub's cache (``models--org--name/snapshots/<hash>``), or a folder.
        tokenizer: The model's tokenizer, with its chat template; it is asked once whether a system role is supported.

    Raises:
        PromptError: The tokenizer has no chat template, or the template raises something else than a template error.

    Example:
        >>> from jevmlx.profiles import family_of
        >>> family_of("mlx-community/Qwen3-4B-Instruct-2507-4bit").name
        'qwen3'
        >>> family_of("some/other-model").name
        'generic'
    """
    family = family_of(model_id)
    kwargs = dict(family.template_kwargs)
    source = chat_template_source(tokenizer)
    reads_date = "strftime_now" in source or "date_string" in source
    if "date_string" in source:
        kwargs["date_string"] = PINNED_DATE
    pinned = PINNED_DATE if reads_date else None
    supports = probe_system_role(tokenizer, kwargs, pinned)
    return Profile(family.name, MappingProxyType(kwargs), supports, pinned, family.reasoning_end)


def family_of(model_id: str) -> Family:
    """The family a model id or folder belongs to."""
    name = _basename(model_id).lower()
    for family in FAMILIES:
        if name.startswith(family.prefixes):
            return family
    model_type = _model_type(model_id)
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    return GENERIC


def _basename(model_id: str) -> str:
    cached = re.search(r"models--(?:.+?--)?([^/\\]+)[/\\]snapshots[/\\]", model_id + "/")
    if cached:
        return cached.group(1).rsplit("--", 1)[-1]
    return re.split(r"[/\\]", model_id.rstrip("/\\"))[-1]


def _model_type(model_id: str) -> str | None:
    """The ``model_type`` in a folder's config, where the id is a folder."""
    try:
        config = json.loads((Path(model_id) / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return config.get("model_type") if isinstance(config, dict) else None
