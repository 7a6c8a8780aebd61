"""This library's own dialect: ``POST /v1/decide``, with everything a schema can say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# What a request may say of how a decision is made; keys and secrets stay with the server.
OPTIONS = (
    "scoring",
    "temperature",
    "legal_mass",
    "isolate",
    "overflow",
    "constraints",
    "prior_correction",
    "permutations",
    "rotate_scales",
    "abstain_below_margin",
    "policy",
)


_EXAMPLE: Any = {
    "schema": {
        "team": {"choices": ["billing", "technical", "sales"], "description": "Who should answer"},
        "urgent": {"type": "boolean", "description": "Needs a reply today"},
    },
    "context": "My card was charged twice and nobody answers.",
}


class ChatMessage(BaseModel):
    """One chat message."""

    model_config = ConfigDict(extra="forbid", strict=True)

    role: str
    content: str


class DecideRequest(BaseModel):
    """A schema and a text."""

    # A misspelt key is an error here, not a silent default.
    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [_EXAMPLE]})

    fields_: Annotated[
        dict[str, Any],
        Field(
            alias="schema",
            description="Field name → what may be answered, or JSON Schema.",
            json_schema_extra={"minProperties": 1, "examples": [_EXAMPLE["schema"]]},
        ),
    ]
    context: str | None = None
    messages: list[ChatMessage] | None = None
    model: str | None = None
    stream: bool = False
    scoring: Literal["labels", "slots"] = "labels"
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    legal_mass: bool = True
    isolate: bool = False
    overflow: Literal["error", "keep_head", "keep_tail"] = "error"
    constraints: list[dict[str, Any]] = []
    prior_correction: bool = False
    permutations: Annotated[int, Field(ge=1, le=255)] = 1
    rotate_scales: bool = False
    abstain_below_margin: Annotated[float, Field(ge=0)] | dict[str, float] | None = None
    policy: dict[str, dict[str, Any]] | None = None
    calibration: Annotated[str | None, Field(description="The name of one of the server's calibrations.")] = None

    def options(self) -> dict[str, Any]:
        """For ``Engine.adecide``."""
        return {name: getattr(self, name) for name in OPTIONS}
