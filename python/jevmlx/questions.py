"""Questions: what one forward pass is asked, ready for the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ._core import Field, Schema
from .compiled import CompiledSchema
from .errors import ConfigError
from .options import Options
from .overflow import ERROR, Truncation, cut, refuse
from .prefix import shared_length
from .prompts import Prompt

Compile = Callable[[Schema, str], CompiledSchema]
Messages = Sequence[Mapping[str, str]]

# Two questions that differ from their first answer on: what their prompts share for a context, all questions' prompts share.
_REFERENCES = (Schema({"answer": {"choices": ["A"]}}), Schema({"answer": {"choices": ["0"]}}))


@dataclass(frozen=True)
class Question:
    """One prompt and the rows that follow it.

    Attributes:
        fields: The caller's name and the spec of each field that is answered.
        compiled: The plan.
        prompt: The prompt.
        split: How many of the prompt's tokens are shared with other prompts and may be cached.
        truncation: What was left out of the context.
        started: When work on it began, by ``time.perf_counter``.
        compile_s: Seconds of compiling.
        render_s: Seconds of rendering and tokenizing.
    """

    fields: tuple[tuple[str, Field], ...]
    compiled: CompiledSchema
    prompt: Prompt
    split: int
    truncation: Truncation | None
    started: float
    compile_s: float
    render_s: float


def ask_together(
    compile_schema: Compile,
    schema: Schema,
    context: str | None,
    messages: Messages | None,
    options: Options,
    window: int | None,
) -> Question:
    """All fields in one prompt.

    Raises:
        JevmlxError: Schema, context, messages or options are at fault.
    """
    started = time.perf_counter()
    compiled = compile_schema(schema, options.scoring)
    compiled_at = time.perf_counter()
    prompt = compiled.prompt(context, messages, options.nonce_key)
    render = partial(compiled.prompt, nonce_key=options.nonce_key)
    prompt, truncation = _fit(compiled, prompt, context, options, window, render)
    names = tuple((spec.name, spec) for spec in compiled.fields)
    split = compiled.split(prompt)
    render_s = time.perf_counter() - compiled_at
    return Question(names, compiled, prompt, split, truncation, started, compiled_at - started, render_s)


def ask_alone(
    compile_schema: Compile,
    schema: Schema,
    context: str | None,
    messages: Messages | None,
    options: Options,
    window: int | None,
) -> list[Question]:
    """Every field in a prompt of its own, after the context: what comes before the question is the same for all.

    Raises:
        JevmlxError: Schema, context or options are at fault.
    """
    if messages is not None or context is None:
        raise ConfigError("config.isolate", "isolate asks about a context; give a context, and no messages", "isolate")
    references = [compile_schema(reference, "labels") for reference in _REFERENCES]
    first, second = (reference.isolated_prompt(context, options.nonce_key).ids for reference in references)
    common = first[: shared_length(first, second)]
    questions = []
    for spec, alone in zip(schema.fields, schema.isolated(), strict=True):
        started = time.perf_counter()
        compiled = compile_schema(alone, options.scoring)
        compiled_at = time.perf_counter()
        render = partial(compiled.isolated_prompt, nonce_key=options.nonce_key)
        prompt, truncation = _fit(compiled, render(context), context, options, window, render)
        split = min(shared_length(common, prompt.ids), len(prompt.ids) - 1)
        names = ((spec.name, compiled.fields[0]),)
        render_s = time.perf_counter() - compiled_at
        made = Question(names, compiled, prompt, split, truncation, started, compiled_at - started, render_s)
        questions.append(made)
    return questions


def _fit(
    compiled: CompiledSchema,
    prompt: Prompt,
    context: str | None,
    options: Options,
    window: int | None,
    render: Callable[[str], Prompt],
) -> tuple[Prompt, Truncation | None]:
    """The prompt if it fits beside its rows, else an error or a prompt over part of the context."""
    if window is None:
        return prompt, None
    room = window - compiled.row_depth
    if len(prompt.ids) <= room:
        return prompt, None
    if options.overflow == ERROR or context is None:
        raise refuse(len(prompt.ids), room)
    return cut(compiled.tokenizer, context, room, options.overflow, render)
