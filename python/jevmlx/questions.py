"""Questions: the prompts that one decision is made of, ready for the device.

Mostly it is one prompt for all fields. Fields asked alone have a prompt each; every rotation of the choices is a prompt of its own,
and so is the question about a text without content whose scores a prior correction subtracts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from ._core import Field, Schema
from .compiled import CompiledSchema
from .errors import ConfigError
from .options import Options
from .overflow import ERROR, Truncation, cut, refuse
from .prefix import shared_length
from .prompts import Prompt

Compile = Callable[[Schema, str], CompiledSchema]
Messages = Sequence[Mapping[str, str]]
Role = Literal["question", "rotation", "prior"]

# What a prior correction asks about.
NO_CONTENT = "(no context provided)"
# Two questions that differ from their first answer on: what their prompts share for a context, all questions' prompts share.
_REFERENCES = (Schema({"answer": {"choices": ["A"]}}), Schema({"answer": {"choices": ["0"]}}))


@dataclass(frozen=True)
class Question:
    """One prompt and the rows that follow it.

    Attributes:
        role: What it is asked for.
        compiled: The plan.
        prompt: The prompt.
        split: How many of the prompt's tokens are shared with other prompts and may be cached.
        weight: How many rotations led to this very prompt.
        truncation: What was left out of the context.
        started: When work on it began, by ``time.perf_counter``.
        compile_s: Seconds of compiling.
        render_s: Seconds of rendering and tokenizing.
    """

    role: Role
    compiled: CompiledSchema
    prompt: Prompt
    split: int
    weight: int
    truncation: Truncation | None
    started: float
    compile_s: float
    render_s: float


@dataclass(frozen=True)
class Group:
    """Fields that are answered together, and the prompts that answer them.

    Attributes:
        fields: The caller's name and the spec of each field.
        questions: The question itself, then its rotations, then the one about no content.
    """

    fields: tuple[tuple[str, Field], ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Asked:
    """Everything a decision asks.

    Attributes:
        schema: The caller's schema.
        groups: All fields in one group, or a group each.
    """

    schema: Schema
    groups: tuple[Group, ...]

    @property
    def first(self) -> Question:
        """The first question."""
        return self.groups[0].questions[0]

    @property
    def questions(self) -> Iterator[Question]:
        """All prompts, in the order they are scored in."""
        return (question for group in self.groups for question in group.questions)


@dataclass(frozen=True)
class _Asker:
    """Makes the prompts of one group."""

    compile_schema: Compile
    options: Options
    window: int | None
    split: Callable[[CompiledSchema, Prompt], int]

    def question(self, schema: Schema, role: Role, render: Callable[..., Prompt], context: str | None) -> Question:
        """One prompt; ``render`` takes a compiled schema and a context."""
        started = time.perf_counter()
        compiled = self.compile_schema(schema, self.options.scoring)
        compiled_at = time.perf_counter()
        again = partial(render, compiled)
        prompt, truncation = _fit(compiled, again(context), context, self.options, self.window, again)
        split = self.split(compiled, prompt)
        render_s = time.perf_counter() - compiled_at
        return Question(role, compiled, prompt, split, 1, truncation, started, compiled_at - started, render_s)

    def variants(
        self,
        schema: Schema,
        render: Callable[..., Prompt],
        context: str | None,
        render_prior: Callable[..., Prompt],
    ) -> tuple[Question, ...]:
        """The question, its rotations where they differ, and the prior."""
        made = [self.question(schema, "question", render, context)]
        places = {_identity(made[0]): 0}
        for step in range(1, self.options.permutations):
            rotated = schema.rotated(step, self.options.permutations, self.options.rotate_scales)
            asked = self.question(rotated, "rotation", render, context)
            at = places.setdefault(_identity(asked), len(made))
            if at == len(made):
                made.append(asked)
            else:
                made[at] = replace(made[at], weight=made[at].weight + 1)
        if self.options.prior_correction:
            made.append(self.question(schema.canonical(), "prior", render_prior, NO_CONTENT))
        return tuple(made)


def _identity(question: Question) -> tuple[str, str]:
    return question.prompt.sha256, question.compiled.plan.plan_hash


def ask_together(
    compile_schema: Compile,
    schema: Schema,
    context: str | None,
    messages: Messages | None,
    options: Options,
    window: int | None,
) -> Asked:
    """All fields in one prompt.

    Raises:
        JevmlxError: Schema, context, messages or options are at fault.
    """
    key = options.nonce_key

    def render(compiled: CompiledSchema, text: str | None) -> Prompt:
        return compiled.prompt(text, messages, key)

    def render_prior(compiled: CompiledSchema, text: str) -> Prompt:
        if messages is None:
            return compiled.prompt(text, nonce_key=key)
        return compiled.prompt(None, [{"role": "user", "content": text}])

    asker = _Asker(compile_schema, options, window, CompiledSchema.split)
    questions = asker.variants(schema, render, context, render_prior)
    return Asked(schema, (Group(questions[0].compiled.named_fields, questions),))


def ask_alone(
    compile_schema: Compile,
    schema: Schema,
    context: str | None,
    messages: Messages | None,
    options: Options,
    window: int | None,
) -> Asked:
    """Every field in a prompt of its own, after the context: what comes before the question is the same for all.

    Raises:
        JevmlxError: Schema, context or options are at fault.
    """
    if messages is not None or context is None:
        raise ConfigError("config.isolate", "isolate asks about a context; give a context, and no messages", "isolate")

    def render(compiled: CompiledSchema, text: str) -> Prompt:
        return compiled.isolated_prompt(text, options.nonce_key)

    references = [render(compile_schema(reference, "labels"), context).ids for reference in _REFERENCES]
    common = references[0][: shared_length(*references)]

    def split(_compiled: CompiledSchema, prompt: Prompt) -> int:
        # Up to the question all prompts about this context are the same, and their state is worth keeping.
        return min(shared_length(common, prompt.ids), len(prompt.ids) - 1)

    asker = _Asker(compile_schema, options, window, split)
    groups = []
    for spec, alone in zip(schema.fields, schema.isolated(), strict=True):
        questions = asker.variants(alone, render, context, render)
        groups.append(Group(((spec.name, questions[0].compiled.fields[0]),), questions))
    return Asked(schema, tuple(groups))


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
