"""Schemas of one question, for those who have just one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._core import Schema
from ..checks import is_whole
from ..errors import SchemaError

# The name of the one field.
ANSWER = "answer"
# An enum has no more choices.
MOST_LEVELS = 255


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
        several: Whether any number of them may apply; none of them is then an answer too.
        allow_none: Whether "none of the above" is an answer, given as ``None``.

    Raises:
        SchemaError: ``schema.input.question``, ``schema.input.choices``, or what is wrong with the schema.

    Example:
        >>> choose_schema({"billing": "charges, refunds", "sales": ""}, "Who should answer?").fields[0].choices
        ('billing', 'sales')
    """
    spec = _listed(choices) | {"type": "multi" if several else "enum"}
    if allow_none:
        spec["allow_none_of_above"] = allow_none
    return _asked(spec, question)


def judge_schema(question: str) -> Schema:
    """Is this so?

    Args:
        question: A statement or a yes/no question; shown to the model on one line.

    Raises:
        SchemaError: ``schema.input.question``: it is no text, or empty.

    Example:
        >>> judge_schema("The customer is angry").fields[0].type
        'boolean'
    """
    schema = _asked({"type": "boolean"}, question)
    if not schema.fields[0].description:
        message = "there is nothing to judge; give a statement or a yes/no question"
        raise SchemaError("schema.input.question", message, ANSWER)
    return schema


def rate_schema(levels: Sequence[str] | Mapping[str, str] | int, question: str = "") -> Schema:
    """How much?

    Args:
        levels: The levels, lowest first, or level → what it means; a number n stands for ``"1"`` … ``"n"``.
        question: What is rated; shown to the model on one line.

    Raises:
        SchemaError: ``schema.input.question``, ``schema.input.choices``, or what is wrong with the schema.

    Example:
        >>> rate_schema(5, "How satisfied is the customer?").fields[0].choices
        ('1', '2', '3', '4', '5')
    """
    if isinstance(levels, int):
        if not is_whole(levels, 1) or levels > MOST_LEVELS:
            message = f"a scale has 1–{MOST_LEVELS} levels, not {levels}"
            raise SchemaError("schema.input.choices", message, ANSWER)
        levels = [str(level) for level in range(1, levels + 1)]
    return _asked(_listed(levels) | {"type": "enum", "ordered": True}, question)


def _listed(choices: Sequence[str] | Mapping[str, str]) -> dict[str, Any]:
    if isinstance(choices, (str, bytes)) or not isinstance(choices, (Sequence, Mapping)):
        # A set is refused too: the order is part of the question.
        message = f"give a list of texts, or an object from text to meaning, not a {type(choices).__name__}"
        raise SchemaError("schema.input.choices", message, ANSWER)
    glosses = {"choice_descriptions": dict(choices)} if isinstance(choices, Mapping) else {}
    return {"choices": list(choices), **glosses}


def _asked(spec: dict[str, Any], question: str) -> Schema:
    if not isinstance(question, str):
        raise SchemaError("schema.input.question", f"a question is a text, not a {type(question).__name__}", ANSWER)
    # The prompt shows one line.
    return Schema({ANSWER: spec | {"description": " ".join(question.split())}})
