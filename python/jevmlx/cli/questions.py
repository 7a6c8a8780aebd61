"""``decide``, ``choose``, ``judge``, ``rate`` and ``ask``: ways to put a question; all of them call ``Engine.decide``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..errors import ConfigError
from .answer import answer
from .oneline import parse, parse_answers
from .shared import How, Model, Output, SchemaArgument, Source

QuestionOption = Annotated[str, typer.Option("--question", "-q", help="What is asked.", show_default=False)]
MeaningOption = Annotated[
    list[str] | None,
    typer.Option("--meaning", help="label=what it means; may be repeated.", show_default=False),
]
MergeOption = Annotated[
    bool, typer.Option("--merge", help="Let contexts share forward passes; last digits may differ.")
]


def decide(
    schema: SchemaArgument, source: Source, output: Output, model: Model, how: How, merge: MergeOption = False
) -> None:
    """Decide every field of a schema for a text, or for each of many."""
    from . import schemas

    answer(schemas.load(schema), source, output, model, how, merge=merge)


def choose(
    choices: Annotated[str, typer.Argument(help="The answers: \"billing|sales|'something else'\".")],
    source: Source,
    output: Output,
    model: Model,
    how: How,
    question: QuestionOption = "",
    several: Annotated[bool, typer.Option("--several", help="Any number of them may apply.")] = False,
    allow_none: Annotated[bool, typer.Option("--allow-none", help="None of them is an answer too.")] = False,
    meaning: MeaningOption = None,
) -> None:
    """Which of these? One question about a text."""
    from ..inputs import choose_schema, schema_of

    found = parse_answers(choices)
    if found.get("ordered"):
        raise typer.BadParameter("'<' orders a scale; that is `jevmlx rate`. List answers with '|'")
    labels = _with_meanings(found["choices"], meaning)
    several = several or found["type"] == "multi"
    answer(
        schema_of(choose_schema(labels, question, several=several, allow_none=allow_none)), source, output, model, how
    )


def judge(
    statement: Annotated[str, typer.Argument(help="A statement or a yes/no question.")],
    source: Source,
    output: Output,
    model: Model,
    how: How,
) -> None:
    """Is this so? One question about a text."""
    from ..inputs import judge_schema, schema_of

    answer(schema_of(judge_schema(statement)), source, output, model, how)


def rate(
    levels: Annotated[str, typer.Argument(help='The levels, lowest first: "low<mid<high"; 5 stands for 1 to 5.')],
    source: Source,
    output: Output,
    model: Model,
    how: How,
    question: QuestionOption = "",
    meaning: MeaningOption = None,
) -> None:
    """How much? One question about a text."""
    from ..inputs import rate_schema, schema_of

    scale: Any = int(levels) if levels.isascii() and levels.isdecimal() and len(levels) < 10 else None
    if scale is None:
        found = parse_answers(levels)
        if not found.get("ordered"):
            raise typer.BadParameter(
                "order the levels with '<', lowest first, as in \"low<mid<high\", or give a number"
            )
        scale = _with_meanings(found["choices"], meaning)
    elif meaning:
        scale = _with_meanings([str(level) for level in range(1, min(scale, 255) + 1)], meaning)
    answer(schema_of(rate_schema(scale, question)), source, output, model, how)


def ask(
    schema: Annotated[str, typer.Argument(help='A schema on one line: "urgent? team: billing|sales".')],
    source: Source,
    output: Output,
    model: Model,
    how: How,
    merge: MergeOption = False,
) -> None:
    """Decide a schema that stands on one line."""
    from ..inputs import schema_of

    answer(schema_of(parse(schema)), source, output, model, how, merge=merge)


def _with_meanings(labels: list[str], meanings: list[str] | None) -> list[str] | dict[str, str]:
    """Labels with what they mean, where something is said of any.

    Raises:
        ConfigError: ``config.meaning``.
    """
    if not meanings:
        return labels
    if len(set(labels)) < len(labels):
        # A mapping would hide it; the schema says which one.
        return labels
    found = dict.fromkeys(labels, "")
    for text in meanings:
        # A label may hold the sign.
        known = [label for label in labels if text.startswith(f"{label}=")]
        if not known:
            message = f"{text!r} begins with no label and '='; the labels are {', '.join(map(repr, labels))}"
            raise ConfigError("config.meaning", message, "meaning")
        label = max(known, key=len)
        found[label] = text[len(label) + 1 :]
    return found
