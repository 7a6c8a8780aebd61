"""What a decision says: typed values with probabilities, and what produced them.

The classes are frozen pydantic models. ``Decision.to_dict()`` is what every face hands out; its JSON Schema is
``Decision.model_json_schema(mode="serialization")``, published as ``docs/decision.schema.json``.
"""

from __future__ import annotations

import copyreg
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, PrivateAttr, computed_field

from . import display
from .overflow import Truncation

K = TypeVar("K")
V = TypeVar("V")

Value = bool | str | tuple[str, ...] | None
Choice = bool | str  # a boolean field's choices are True and False
Probability = Annotated[float, Field(ge=0, le=1)]
Status = Literal["decided", "abstain", "review"]
FieldType = Literal["boolean", "enum", "multi"]


def _freeze(mapping: dict[K, V]) -> MappingProxyType[K, V]:
    return MappingProxyType(mapping)


Frozen = Annotated[Mapping[K, V], AfterValidator(MappingProxyType), PlainSerializer(dict)]
"""A mapping that cannot be changed."""

# Python cannot copy or pickle one by itself, and so no result could go to another process.
copyreg.pickle(MappingProxyType, lambda mapping: (_freeze, (dict(mapping),)))

# How many of the likeliest choices a result lists by itself.
ALTERNATIVES = 3


class _Model(BaseModel):
    # Computed keys are ignored on the way back, so that a result can be read from its own JSON.
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class Alternative(_Model):
    """One choice with its probability."""

    choice: Choice
    probability: Probability


class OptionResult(_Model):
    """One option of a multi field."""

    selected: bool
    """Whether it is part of the value."""
    probability: Probability
    """P(applies), after temperature or calibration."""
    log_score: float
    """Log-probability of "applies" before them, in nats."""
    log_odds: float
    """log P(applies) − log P(does not), after temperature or calibration, in nats: selected when above 0."""
    legal_mass: float | None
    """See :class:`FieldResult`."""
    min_legal_mass: float | None
    """See :class:`FieldResult`."""


class CountResult(_Model):
    """The count row of a multi field: how many options apply."""

    probabilities: Frozen[str, float]
    """``"0"`` … ``"4"`` → probability at temperature 1; ``"4"`` means four or more."""
    log_score_margin: float
    """Best minus second best, in nats."""
    applied: bool
    """Whether it changed which options are selected."""


class LevelResult(_Model):
    """Where on its scale an ordered field's answer lies."""

    index: int
    """The value's place, from 0."""
    expected_index: float
    """Σ i·p_i."""
    expected_fraction: float
    """That over n − 1: 0 is the lowest level, 1 the highest; 0 where there is one level."""
    spread: float
    """The standard deviation of i under p."""


class Overridden(_Model):
    """Constraints made the value another than the scores alone."""

    by: tuple[str, ...]
    """The constraints, by name or place."""
    cost: float
    """What the value's score is below that of the raw value, in nats; for a multi field the difference of summed log-odds."""


class FieldResult(_Model):
    """The answer to one field."""

    name: str
    """The field's name."""
    type: FieldType
    """``"boolean"``, ``"enum"`` or ``"multi"``."""
    value: Value
    """The decided value: a bool, a choice, the selected options in schema order, or ``None`` for "none of the above" and for an
    abstention; ``status`` tells them apart."""
    status: Status
    """``"decided"``; ``"abstain"`` where the answer was too close to give one; ``"review"`` where a person should look."""
    reason: str | None
    """Why it is not decided."""
    raw_value: Value
    """The value the scores alone give, before constraints and thresholds."""
    overridden: Overridden | None
    """What made the value another than the raw one."""
    probability: Probability | None
    """Of the value before an abstention; ``None`` for a multi field, whose options have their own."""
    probabilities: Frozen[Choice, float]
    """Choice → probability, in choice order; for a multi field option → P(applies)."""
    log_scores: Frozen[Choice, float]
    """Choice → log score before the temperature, in nats; for a multi field option → log P(applies)."""
    log_score_margin: float | None
    """Best minus second best log score; ``None`` with one choice and for a multi field."""
    probability_margin: float | None
    """Best minus second best probability; likewise."""
    confidence: Probability | None
    """(p_max − 1/n)/(1 − 1/n) for choices; max(0, 1 − Σ p_i·|i − mode| ÷ u) for an ordered scale, where u is what the uniform
    distribution has; 1 with one choice; ``None`` for a multi field."""
    legal_mass: float | None
    """Probability, under the whole vocabulary, of staying on allowed tokens along the value's path; low mass with high confidence
    means that the model wanted to say something else. ``None`` when not asked for."""
    min_legal_mass: float | None
    """The least such mass over the nodes of that path."""
    level: LevelResult | None = None
    """Ordered fields only."""
    threshold_distance: float | None = None
    """Multi only: the least distance of an option's P(applies) from ½."""
    options: Frozen[str, OptionResult] | None = None
    """Multi only: each option's result."""
    count: CountResult | None = None
    """Multi only: the count row's result."""

    def ranked(self, most: int | None = None) -> list[Alternative]:
        """The likeliest choices with their probabilities, best first, earlier choices first among equals."""
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        return [Alternative(choice=choice, probability=probability) for choice, probability in ranked[:most]]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def alternatives(self) -> list[Alternative]:
        """The three likeliest choices; :meth:`ranked` has all."""
        return self.ranked(ALTERNATIVES)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: a boolean's choices become ``"true"`` and ``"false"``."""
        return self.model_dump(mode="json")

    def __repr__(self) -> str:
        return f"FieldResult({display.field_line(self)})"


class Timings(_Model):
    """Where the time of one decision went, and what was computed."""

    compile_s: float
    """Seconds of compiling the schema; 0 when the plan was held."""
    render_s: float
    """Seconds of rendering the prompt and tokenizing it."""
    prefill_s: float
    """Seconds of computing the prompt's tokens."""
    rows_s: float
    """Seconds of computing the rows' tokens, together with the last part of the prompt."""
    projection_s: float
    """Seconds from hidden states to logits at branch nodes."""
    total_s: float
    """Seconds for all of it, waiting for the device included."""
    cached_tokens: int
    """Prompt tokens whose KV state was held."""
    computed_tokens: int
    """Prompt tokens computed."""
    rows: int
    """Rows scored."""
    row_tokens: int
    """Row tokens computed."""
    padding_tokens: int
    """Tokens computed for nothing but shape."""
    waves: int
    """Forward passes the rows were split into."""
    halved: int
    """How often memory ran out and a wave was computed in smaller parts; last digits can differ where it is not 0."""
    peak_bytes: int | None
    """The device library's peak memory, where it tells."""


class PromptRecord(_Model):
    """One prompt that was scored, and the plans of the rows after it."""

    role: Literal["question", "rotation", "prior"]
    """The question itself, the same with its choices moved, or the same about a text without content."""
    field: str | None
    """The one field asked, with ``isolate``."""
    prompt_sha256: str
    """Hash of the prompt's token ids."""
    plan_hash: str
    """Hash of the compiled plan."""
    waves: tuple[str, ...]
    """Hashes of the plans of later waves, for fields that depend on others."""


class Provenance(_Model):
    """Everything a result depends on."""

    package_version: str
    """Version of this package."""
    prompt_version: str
    """Version of the prompt contract."""
    model_id: str
    """The model's id or folder name."""
    model_revision: str | None
    """The hub revision or the content hash."""
    dtype: str
    """The number type the model computes in."""
    computation: str
    """How rows were computed: ``"one-pass"``, or ``"per-path"`` for models that need it."""
    profile: str
    """The chat template profile."""
    template_kwargs: Frozen[str, Any]
    """What the template was given."""
    tokenizer_sha256: str
    """Hash of the tokenizer's serialized form."""
    prompt_sha256: str
    """Hash of the prompt's token ids; with ``isolate``, of the fields' hashes joined by commas."""
    plan_hash: str
    """Hash of the compiled plan, likewise."""
    schema_sha256: str
    """Hash of the schema as compact JSON, its texts included."""
    prompts: tuple[PromptRecord, ...]
    """Every prompt that was scored, the question itself first."""
    scoring: str
    """``"labels"`` or ``"slots"``."""
    temperature: float | None
    """What log scores were divided by; ``None`` where a calibration was used."""
    calibration_sha256: str | None
    """Hash of the calibration."""
    prior_correction: bool
    """Whether the log scores of a text without content were subtracted."""
    permutations: int
    """Over how many rotations of the choices log scores were averaged."""
    rotate_scales: bool
    """Whether booleans and scales were rotated too."""
    nonce: Literal["plain", "keyed", "none"]
    """How the fence's nonce was made; chat messages have no fence."""
    merged: int
    """How many contexts shared the forward pass; 0 where it was this one's alone."""
    truncation: Truncation | None
    """What was left out of the context; ``None`` where nothing was."""


class Decision(_Model):
    """The answers to all fields of a schema for one context."""

    fields: Frozen[str, FieldResult]
    """Field name → result, in schema order."""
    provenance: Provenance
    """What produced it."""
    timings: Timings
    """What it cost."""

    _restore: Callable[[Mapping[str, Any]], Any] | None = PrivateAttr(default=None)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def values(self) -> dict[str, Value]:
        """Field name → decided value, in schema order."""
        return {name: result.value for name, result in self.fields.items()}

    @property
    def typed(self) -> Any:
        """The values in the type that the schema was given as: a pydantic model's instance, a dataclass's, or a dict.

        Raises:
            SchemaError: ``schema.input.value``: the type cannot hold the values, as where a field abstained.
        """
        return self.values if self._restore is None else self._restore(self.values)

    @property
    def answer(self) -> FieldResult:
        """The result of the only field, as of ``Engine.choose``, ``judge`` and ``rate``.

        Raises:
            KeyError: There are several fields.
        """
        if len(self.fields) != 1:
            raise KeyError("there are several fields; name one, as in decision['field']")
        return next(iter(self.fields.values()))

    def restored_by(self, restore: Callable[[Mapping[str, Any]], Any]) -> Decision:
        """This decision, with what makes the caller's own type of its values."""
        self._restore = restore
        return self

    def __getitem__(self, name: str) -> FieldResult:
        return self.fields[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; values first."""
        data = self.model_dump(mode="json")
        return {"values": data.pop("values"), **data}

    def to_json(self, indent: int | None = None) -> str:
        """JSON text with non-ASCII kept."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)


class DecisionError(_Model):
    """What was wrong with one context of a batch, in the place of its decision."""

    index: int
    """The context's place in the batch, from 0."""
    code: str
    """The error's stable code."""
    message: str
    """What was wrong and what to do."""
    path: str
    """Where in the input."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON, under the key ``error``."""
        return {"error": self.model_dump(mode="json")}
