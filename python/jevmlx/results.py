"""What a decision says: typed values with probabilities, and what produced them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from .overflow import Truncation

Value = str | bool | list[str]
Choice = str | bool  # a boolean field's choices are True and False


@dataclass(frozen=True)
class OptionResult:
    """One option of a multi field.

    Attributes:
        selected: Whether it is part of the value.
        probability: P(applies), 0–1.
        log_score: Log-probability of "applies" before the temperature, in nats.
        legal_mass: See :class:`FieldResult`.
        min_legal_mass: See :class:`FieldResult`.
    """

    selected: bool
    probability: float
    log_score: float
    legal_mass: float | None
    min_legal_mass: float | None


@dataclass(frozen=True)
class CountResult:
    """The count row of a multi field: how many options apply.

    Attributes:
        probabilities: ``"0"`` … ``"4"`` → probability at temperature 1; ``"4"`` means four or more.
        log_score_margin: Best minus second best, in nats.
        applied: Whether it changed which options are selected.
    """

    probabilities: Mapping[str, float]
    log_score_margin: float
    applied: bool


@dataclass(frozen=True)
class FieldResult:
    """The answer to one field.

    Attributes:
        name: The field's name.
        type: ``"boolean"``, ``"enum"`` or ``"multi"``.
        value: The decided value: a bool, a choice, or the selected options in schema order.
        probability: Of the value, 0–1; ``None`` for a multi field, whose options have their own.
        probabilities: Choice → probability, in choice order; for a multi field option → P(applies).
        log_scores: Choice → log score before the temperature, in nats; for a multi field option → log P(applies).
        log_score_margin: Best minus second best log score; ``None`` with one choice and for a multi field.
        probability_margin: Best minus second best probability; likewise.
        confidence: 0–1: (p_max − 1/n)/(1 − 1/n) for choices, max(0, 1 − Σ p_i·|i − mode| ÷ u) for an ordered scale, where u
            is what the uniform distribution has; 1 with one choice; ``None`` for a multi field.
        legal_mass: Probability, under the whole vocabulary, of staying on allowed tokens along the winner's path; low mass
            with high confidence means that the model wanted to say something else. ``None`` when not asked for.
        min_legal_mass: The least such mass over the nodes of that path.
        threshold_distance: Multi only: the least distance of an option's P(applies) from ½.
        options: Multi only: each option's result.
        count: Multi only: the count row's result.
    """

    name: str
    type: str
    value: Value
    probability: float | None
    probabilities: Mapping[Choice, float]
    log_scores: Mapping[Choice, float]
    log_score_margin: float | None
    probability_margin: float | None
    confidence: float | None
    legal_mass: float | None
    min_legal_mass: float | None
    threshold_distance: float | None = None
    options: Mapping[str, OptionResult] | None = None
    count: CountResult | None = None

    def alternatives(self, most: int | None = 3) -> list[tuple[Choice, float]]:
        """The likeliest choices with their probabilities, best first; all of them with ``None``."""
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        return ranked[:most]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: a boolean's choices become ``"true"`` and ``"false"``."""
        data: dict[str, Any] = _plain(self)
        data["alternatives"] = [
            {"choice": choice, "probability": probability} for choice, probability in self.alternatives()
        ]
        return data


@dataclass(frozen=True)
class Timings:
    """Where the time of one decision went, in seconds, and what was computed.

    Attributes:
        compile_s: Compiling the schema; 0 when the plan was held.
        render_s: Rendering the prompt and tokenizing it.
        prefill_s: Computing the prompt's tokens.
        rows_s: Computing the rows' tokens.
        projection_s: Logits at branch nodes.
        total_s: All of it.
        cached_tokens: Prompt tokens whose KV state was held.
        computed_tokens: Prompt tokens computed.
        rows: Rows scored.
        row_tokens: Row tokens computed.
        padding_tokens: Tokens computed for nothing but shape.
        waves: Forward passes the rows were split into.
        peak_bytes: The device library's peak memory, where it tells.
    """

    compile_s: float
    render_s: float
    prefill_s: float
    rows_s: float
    projection_s: float
    total_s: float
    cached_tokens: int
    computed_tokens: int
    rows: int
    row_tokens: int
    padding_tokens: int
    waves: int
    peak_bytes: int | None


@dataclass(frozen=True)
class Provenance:
    """Everything a result depends on.

    Attributes:
        package_version: Version of this package.
        prompt_version: Version of the prompt contract.
        model_id: The model's id or folder name.
        model_revision: The hub revision or the content hash.
        dtype: The number type the model computes in.
        computation: How rows were computed: ``"one-pass"``, or ``"per-path"`` for models that need it.
        profile: The chat template profile.
        template_kwargs: What the template was given.
        tokenizer_sha256: Hash of the tokenizer's serialized form.
        prompt_sha256: Hash of the prompt's token ids; with ``isolate``, of the fields' hashes joined by commas.
        plan_hash: Hash of the compiled plan, likewise.
        scoring: ``"labels"`` or ``"slots"``.
        temperature: What log scores were divided by.
        isolated: With ``isolate``, field name → the hashes of its own prompt and plan; else ``None``.
        merged: How many contexts shared the forward pass; 0 where it was this one's alone.
        truncation: What was left out of the context; ``None`` where nothing was.
    """

    package_version: str
    prompt_version: str
    model_id: str
    model_revision: str | None
    dtype: str
    computation: str
    profile: str
    template_kwargs: Mapping[str, Any]
    tokenizer_sha256: str
    prompt_sha256: str
    plan_hash: str
    scoring: str
    temperature: float
    isolated: Mapping[str, Mapping[str, str]] | None = None
    merged: int = 0
    truncation: Truncation | None = None


@dataclass(frozen=True)
class Decision:
    """The answers to all fields of a schema for one context.

    Attributes:
        fields: Field name → result, in schema order.
        provenance: What produced it.
        timings: What it cost.
    """

    fields: Mapping[str, FieldResult]
    provenance: Provenance
    timings: Timings

    @property
    def values(self) -> dict[str, Value]:
        """Field name → decided value, in schema order."""
        return {name: result.value for name, result in self.fields.items()}

    def __getitem__(self, name: str) -> FieldResult:
        return self.fields[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "values": self.values,
            "fields": {name: result.to_dict() for name, result in self.fields.items()},
            "provenance": _plain(self.provenance),
            "timings": _plain(self.timings),
        }

    def to_json(self, indent: int | None = None) -> str:
        """JSON text with non-ASCII kept."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)

    def __repr__(self) -> str:
        parts = []
        for name, result in self.fields.items():
            sure = "" if result.probability is None else f" ({result.probability:.1%})"
            parts.append(f"{name}={result.value!r}{sure}")
        return f"Decision({', '.join(parts)})"


@dataclass(frozen=True)
class DecisionError:
    """What was wrong with one context of a batch, in the place of its decision.

    Attributes:
        index: The context's place in the batch, from 0.
        code: The error's stable code.
        message: What was wrong and what to do.
        path: Where in the input.
    """

    index: int
    code: str
    message: str
    path: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON, under the key ``error``."""
        return {"error": _plain(self)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    return value


def _key(key: Choice) -> str:
    return key if isinstance(key, str) else ("true" if key else "false")
