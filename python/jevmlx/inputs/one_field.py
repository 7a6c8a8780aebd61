"""Schemas of one question, for those who have just one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._core import Schema
from ..errors import SchemaError

# The name of the one field.
ANSWER = "answer"


def choose_schema(
    choices: Sequence[str] | Mapping[str, str],
    question: str = "",
    *,
    several: bool = False,
    allow_none: bool = False,
) -> Schema:
    """Which of these?

    Args:
        choices: The answers, or answer → what it means.
        question: What is asked; shown to the model on one line.
        several: Whether any number of them may apply.
        allow_none: Whether "none of the above" is an answer, given as ``None``.

    Raises:
        SchemaError: The choices are at fault.

    Example:
        >>> choose_schema({"billing": "charges, refunds", "sales": ""}, "Who should answer?").fields[0].choices
        ('billing', 'sales')
    """
    if isinstance(choices, (str, bytes)) or not isinstance(choices, (Sequence, Mapping)):
        message = f"choices are a list of texts, or an object from text to meaning, not a {type(choices).__name__}"
        raise SchemaError("schema.input.choices", message, ANSWER)
    spec: dict[str, Any] = {"type": "multi" if several else "enum", "choices": list(choices)}
    if isinstance(choices, Mapping):
        spec["choice_descriptions"] = {choice: gloss for choice, gloss in choices.items() if gloss}
    if allow_none:
        spec["allow_none_of_above"] = True
    return _asked(spec, question)


def judge_schema(question: str) -> Schema:
    """Is this so?

    Args:
        question: A statement or a yes/no question.

    Raises:
        SchemaError: The question is empty.

    Example:
        >>> judge_schema("The customer is angry").fields[0].type
        'boolean'
    """
    if not isinstance(question, str) or not question.strip():
        raise SchemaError(
            "schema.input.question", "there is nothing to judge; give a statement or a yes/no question", ANSWER
        )
    return _asked({"type": "boolean"}, question)


def rate_schema(levels: Sequence[str] | Mapping[str, str] | int, question: str = "") -> Schema:
    """How much?

    Args:
        levels: The levels, lowest first, or level → what it means; a number n stands for ``"1"`` … ``"n"``.
        question: What is rated.

    Raises:
        SchemaError: The levels are at fault.

    Example:
        >>> rate_schema(5, "How satisfied is the customer?").fields[0].choices
        ('1', '2', '3', '4', '5')
    """
    if isinstance(levels, int):
        levels = [str(level) for level in range(1, levels + 1)]
    schema = choose_schema(levels, question).to_dict()
    return Schema({ANSWER: schema[ANSWER] | {"ordered": True}})


def _asked(spec: dict[str, Any], question: str) -> Schema:
    if not isinstance(question, str):
        raise SchemaError("schema.input.question", f"a question is a text, not a {type(question).__name__}", ANSWER)
    # The prompt shows one line.
    if line := " ".join(question.split()):
        spec["description"] = line
    return Schema({ANSWER: spec})
