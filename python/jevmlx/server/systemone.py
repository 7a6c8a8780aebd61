"""System One's dialect: ``POST /v1/systemone``, noul, choice and score questions about a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.types import StringConstraints

from ..results import Decision, FieldResult
from .wire import text_of

MOST_OPTIONS = 255
MOST_LEVELS = 10

# Text, or data that is shown to the model as JSON text.
Content = str | dict[str, Any] | list[Any]


class _Part(BaseModel):
    # Unknown keys are ignored, as the dialect asks for.
    model_config = ConfigDict(extra="ignore", strict=True)


def _no_assets(given: Any) -> None:
    if given is not None:
        raise ValueError("images and other assets cannot be read by this server; describe them in words")


class NoulCriteria(_Part):
    """What counts as yes and as no."""

    true: Content | None = None
    false: Content | None = None


class NoulQuestion(_Part):
    """Is it so?"""

    type: Literal["noul"]
    instructions: Content | None = None
    criteria: NoulCriteria | None = None


class ChoiceQuestion(_Part):
    """Which one?"""

    type: Literal["choice"]
    instructions: Content | None = None
    criteria: Annotated[dict[str, Content | None], Field(min_length=2, max_length=MOST_OPTIONS)]


class ScoreQuestion(_Part):
    """How much?"""

    type: Literal["score"]
    instructions: Content | None = None
    criteria: Annotated[list[Content], Field(min_length=2, max_length=MOST_LEVELS)]


_EXAMPLE: Any = {
    "model": "jev-latest",
    "state": "My card was charged twice and nobody answers.",
    "questions": {
        "urgent": {"type": "noul", "instructions": "Does it need a reply today?"},
        "team": {"type": "choice", "criteria": {"billing": "payments", "technical": "outages", "sales": None}},
        "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross", "furious"]},
    },
}
Question = Annotated[NoulQuestion | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")]
QuestionId = Annotated[str, StringConstraints(min_length=1)]


class SystemOneRequest(_Part):
    """Questions about a state."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    model: str = "jev-latest"
    state: Content
    questions: Annotated[dict[QuestionId, Question], Field(min_length=1)]
    assets: Annotated[None, BeforeValidator(_no_assets)] = None


class NoulAnswer(BaseModel):
    """P(yes)."""

    type: Literal["noul"]
    noul: float


class ChoiceAnswer(BaseModel):
    """The likeliest option."""

    type: Literal["choice"]
    choice: str
    probabilities: dict[str, float]
    confidence: float


class ScoreAnswer(BaseModel):
    """The expected level, counted from 0."""

    type: Literal["score"]
    score: float
    legend: dict[str, Content]
    probabilities: dict[str, float]
    confidence: float


class Usage(BaseModel):
    """Tokens; none is generated."""

    input_tokens: int
    output_tokens: int


class SystemOneResponse(BaseModel):
    """Answers by question."""

    model: str
    answers: dict[str, NoulAnswer | ChoiceAnswer | ScoreAnswer]
    usage: Usage


def schema_of_request(request: SystemOneRequest) -> dict[str, Any]:
    """A field per question; each is asked alone, so neither names nor places matter."""
    return {f"q{at}": _field(question) for at, question in enumerate(request.questions.values())}


def _field(question: NoulQuestion | ChoiceQuestion | ScoreQuestion) -> dict[str, Any]:
    described = {} if question.instructions is None else {"description": text_of(question.instructions)}
    if isinstance(question, NoulQuestion):
        criteria = question.criteria or NoulCriteria()
        glosses = {"true": criteria.true, "false": criteria.false}
        return {"type": "boolean", **described, **_glosses(glosses)}
    if isinstance(question, ChoiceQuestion):
        return {"type": "enum", **described, "choices": list(question.criteria), **_glosses(question.criteria)}
    # Levels are told apart by their number: two may read the same, and none is likelier for being short.
    levels = {str(at): level for at, level in enumerate(question.criteria)}
    return {"type": "enum", **described, "choices": list(levels), "ordered": True, **_glosses(levels)}


def _glosses(found: Mapping[str, Content | None]) -> dict[str, Any]:
    glosses = {choice: text_of(text) for choice, text in found.items() if text is not None}
    return {"choice_descriptions": glosses} if glosses else {}


def answers_of(request: SystemOneRequest, decision: Decision, model: str) -> dict[str, Any]:
    """The answer in the dialect's form."""
    took = decision.timings
    return {
        "model": model,
        "answers": {
            name: _answer(question, result)
            for (name, question), result in zip(request.questions.items(), decision.fields.values(), strict=True)
        },
        "usage": {"input_tokens": took.cached_tokens + took.computed_tokens, "output_tokens": 0},
    }


def _answer(question: NoulQuestion | ChoiceQuestion | ScoreQuestion, result: FieldResult) -> dict[str, Any]:
    if isinstance(question, NoulQuestion):
        return {"type": "noul", "noul": result.probabilities[True]}
    probabilities = {str(choice): p for choice, p in result.probabilities.items()}
    if isinstance(question, ChoiceQuestion):
        return {
            "type": "choice",
            "choice": result.value,
            "probabilities": probabilities,
            "confidence": result.confidence,
        }
    return {
        "type": "score",
        "score": result.level.expected_index,  # type: ignore[union-attr]
        "legend": {str(at): level for at, level in enumerate(question.criteria)},
        "probabilities": probabilities,
        "confidence": result.confidence,
    }
