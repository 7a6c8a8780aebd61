"""OpenAI's Decisions dialect: ``POST /v1/decisions``, predicate, choice and score questions about a text or messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr, field_validator

from ..results import Decision, FieldResult
from .wire import text_of

PATH = "/v1/decisions"
MOST_QUESTIONS = 400
MOST_CHOICES = 255


class _Part(BaseModel):
    # Hints about caching and the like change no answer.
    model_config = ConfigDict(extra="ignore", strict=True)


def _no_image(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "input_image":
        raise ValueError("images cannot be read by this server; describe the image in words")
    return part


class TextPart(_Part):
    """A piece of text."""

    type: Literal["input_text"]
    text: str


class JsonPart(_Part):
    """Data, shown to the model as JSON text."""

    type: Literal["input_json"]
    data: dict[str, Any] | list[dict[str, Any]]


class OutputTextPart(_Part):
    """A piece of what an assistant wrote."""

    type: Literal["output_text"]
    text: str


class RefusalPart(_Part):
    """What an assistant wrote in place of an answer."""

    type: Literal["refusal"]
    refusal: str


InputPart = Annotated[Annotated[TextPart | JsonPart, Field(discriminator="type")], BeforeValidator(_no_image)]
AssistantPart = Annotated[OutputTextPart | RefusalPart, Field(discriminator="type")]


class Message(_Part):
    """What a user, a developer or a system says."""

    type: Literal["message"] = "message"
    role: Literal["user", "developer", "system"]
    content: str | list[InputPart]


class AssistantMessage(_Part):
    """What an assistant says."""

    type: Literal["message"] = "message"
    role: Literal["assistant"]
    content: str | list[AssistantPart]


class FunctionCall(_Part):
    """A function an assistant calls."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class CustomToolCall(_Part):
    """A tool an assistant calls."""

    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str


class ToolOutput(_Part):
    """What came of a call."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: str | list[InputPart]


Item = Message | AssistantMessage | FunctionCall | CustomToolCall | ToolOutput


class Predicate(_Part):
    """How likely is it true?"""

    type: Literal["predicate"]
    instructions: str | list[InputPart]
    name: str | None = None


class Option(_Part):
    """A choice; a string and a boolean of the same text are two."""

    value: StrictStr | StrictBool
    description: str | None = None


class Choice(_Part):
    """Which one?"""

    type: Literal["choice"]
    instructions: str | list[InputPart]
    choices: Annotated[list[Option], Field(min_length=2, max_length=MOST_CHOICES)]
    name: str | None = None


class Level(_Part):
    """A level of a scale."""

    label: str
    description: str | None = None


class Score(_Part):
    """How much?"""

    type: Literal["score"]
    instructions: str | list[InputPart]
    levels: Annotated[list[Level], Field(min_length=2, max_length=MOST_CHOICES)]
    name: str | None = None


_EXAMPLE: Any = {
    # Of a server started without names.
    "model": "embedded",
    "input": "My card was charged twice and nobody answers.",
    "questions": [
        {"type": "predicate", "name": "urgent", "instructions": "It needs a reply today."},
        {"type": "choice", "instructions": "Who should answer?", "choices": [{"value": "billing"}, {"value": "sales"}]},
        {"type": "score", "instructions": "How angry?", "levels": [{"label": "calm"}, {"label": "furious"}]},
    ],
}
Question = Annotated[Predicate | Choice | Score, Field(discriminator="type")]


class DecisionsRequest(_Part):
    """Questions about an input."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    model: str
    input: str | Annotated[list[Item], Field(min_length=1)]
    questions: Annotated[list[Question], Field(min_length=1, max_length=MOST_QUESTIONS)]

    @field_validator("input")
    @classmethod
    def _outputs_of_calls(cls, given: str | list[Item]) -> str | list[Item]:
        called = set()
        for item in given:
            if isinstance(item, FunctionCall | CustomToolCall):
                called.add((item.type, item.call_id))
            elif isinstance(item, ToolOutput) and (item.type.removesuffix("_output"), item.call_id) not in called:
                raise ValueError(f"{item.type} {item.call_id!r} answers no call before it")
        return given


class PredicateAnswer(BaseModel):
    """P(true)."""

    type: Literal["predicate"]
    name: str | None
    probability: float


class ChoiceProbability(BaseModel):
    """One choice's."""

    value: str | bool
    probability: float


class ChoiceAnswer(BaseModel):
    """The likeliest choice."""

    type: Literal["choice"]
    name: str | None
    choice: str | bool
    confidence: float
    probabilities: list[ChoiceProbability]


class LevelProbability(BaseModel):
    """One level's; ``value`` is its place, from 0."""

    label: str
    value: int
    probability: float


class ScoreAnswer(BaseModel):
    """The expected level, counted from 0."""

    type: Literal["score"]
    name: str | None
    score: float
    confidence: float
    probabilities: list[LevelProbability]


class RefusalAnswer(BaseModel):
    """The model cannot tell this question's answers apart; others are answered all the same."""

    type: Literal["refusal"]
    name: str | None


class InputTokensDetails(BaseModel):
    """Of the input tokens."""

    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(BaseModel):
    """Of the output tokens."""

    reasoning_tokens: int


class Usage(BaseModel):
    """Tokens; none is generated."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class DecisionsResponse(BaseModel):
    """Answers in the order of the questions."""

    model: str
    answers: list[PredicateAnswer | ChoiceAnswer | ScoreAnswer | RefusalAnswer]
    usage: Usage


def context_of(given: str | Sequence[Item]) -> str:
    r"""The text that is decided on; items become a line of JSON each, so that no text can pass for another item.

    Example:
        >>> context_of([Message(role="user", content="Hi"), ToolOutput(type="function_call_output", call_id="1", output="[]")])
        '{"role": "user", "content": "Hi"}\n{"type": "function_call_output", "call_id": "1", "output": "[]"}'
    """
    return given if isinstance(given, str) else "\n".join(map(_line, given))


def _line(item: Item) -> str:
    if isinstance(item, Message | AssistantMessage):
        data: dict[str, Any] = {"role": item.role, "content": _content(item.content)}
    elif isinstance(item, ToolOutput):
        data = {"type": item.type, "call_id": item.call_id, "output": _content(item.output)}
    else:
        data = item.model_dump()
    return json.dumps(data, ensure_ascii=False, allow_nan=False)


def _content(content: str | Sequence[InputPart] | Sequence[AssistantPart]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(_part(part) for part in content)


def _part(part: TextPart | JsonPart | OutputTextPart | RefusalPart) -> str:
    if isinstance(part, JsonPart):
        return text_of(part.data)
    return part.refusal if isinstance(part, RefusalPart) else part.text


def field_of(question: Predicate | Choice | Score) -> dict[str, Any]:
    """The field that asks a question."""
    field: dict[str, Any] = {"description": _content(question.instructions)}
    if isinstance(question, Predicate):
        return field | {"type": "boolean"}
    if isinstance(question, Choice):
        names = shown([option.value for option in question.choices])
        notes = [option.description for option in question.choices]
    else:
        names = [level.label for level in question.levels]
        notes = [level.description for level in question.levels]
        field["ordered"] = True
    glosses = {name: note for name, note in zip(names, notes, strict=True) if note}
    return field | {"type": "enum", "choices": names} | ({"choice_descriptions": glosses} if glosses else {})


def shown(values: Sequence[str | bool]) -> list[str]:
    """The texts of choices: JSON where booleans are among them, so that ``true`` and ``"true"`` stay two.

    Example:
        >>> shown(["yes", "no"]), shown([True, "true"])
        (['yes', 'no'], ['true', '"true"'])
    """
    if any(isinstance(value, bool) for value in values):
        return [json.dumps(value, ensure_ascii=False) for value in values]
    return [str(value) for value in values]


def answer_of(question: Predicate | Choice | Score, result: FieldResult | None) -> dict[str, Any]:
    """One answer; a refusal where there is no result."""
    if result is None:
        return {"type": "refusal", "name": question.name}
    if isinstance(question, Predicate):
        return {"type": "predicate", "name": question.name, "probability": result.probabilities[True]}
    found = list(result.probabilities.values())
    if isinstance(question, Choice):
        values = [option.value for option in question.choices]
        best = list(result.probabilities).index(result.value)  # type: ignore[arg-type]
        return {
            "type": "choice",
            "name": question.name,
            "choice": values[best],
            "confidence": result.confidence,
            "probabilities": [{"value": v, "probability": p} for v, p in zip(values, found, strict=True)],
        }
    return {
        "type": "score",
        "name": question.name,
        "score": result.level.expected_index,  # type: ignore[union-attr]
        "confidence": result.confidence,
        "probabilities": [
            {"label": level.label, "value": at, "probability": p}
            for at, (level, p) in enumerate(zip(question.levels, found, strict=True))
        ],
    }


def usage_of(decision: Decision | None) -> dict[str, Any]:
    """Tokens read; nothing is generated."""
    cached = decision.timings.cached_tokens if decision else 0
    computed = decision.timings.computed_tokens if decision else 0
    return {
        "input_tokens": cached + computed,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": cached + computed,
    }
