"""The calibration itself: what was fitted, for what, on what, and how well it did."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..disk import write_whole
from ..errors import CalibrationError
from ..results import Frozen

FORMAT: Literal["jevmlx-calibration-1"] = "jevmlx-calibration-1"

Kind = Literal["boolean", "enum", "ordered"]
AnyKind = Literal["boolean", "enum", "ordered", "multi"]
Finite = Annotated[float, Field(allow_inf_nan=False)]
# Far outside what is ever fitted, and small enough that no log-odds times it is infinite.
Nats = Annotated[float, Field(ge=-1e6, le=1e6)]
Positive = Annotated[float, Field(gt=0, le=1e6)]
Count = Annotated[int, Field(ge=0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Made(_Model):
    """What a calibration is made for: it says nothing about anything else."""

    model_id: str
    """The model's id or folder name."""
    model_revision: str | None
    """The hub revision or content hash."""
    prompt_version: str
    """Version of the prompt contract."""
    scoring: Literal["labels", "slots"]
    """How answers are scored."""
    prior_correction: bool
    """Whether a prior was subtracted."""
    permutations: int
    """Over how many rotations of the choices log scores were averaged."""
    rotate_scales: bool
    """Whether booleans and scales were rotated too."""


class Affine(_Model):
    """Calibrated log-odds of a multi field's option: a·x + b."""

    a: Positive
    """Slope; positive, so that no order is turned."""
    b: Nats
    """Offset in nats."""


class Interval(_Model):
    """A figure with its bootstrap interval."""

    value: Finite
    """On the examples themselves."""
    low: Finite
    """Lower end of the interval."""
    high: Finite
    """Upper end."""


class Metrics(_Model):
    """How good probabilities are; all but accuracy are better when lower."""

    accuracy: Interval
    """Share of examples whose likeliest answer is right."""
    nll: Interval
    """Mean negative log-likelihood of the right answer, in nats."""
    brier: Interval
    """Mean squared distance of the probabilities from the right answer; 0–2 over choices, for an option its own 0–1."""
    ece_width: Interval
    """Expected calibration error over bins of equal width."""
    ece_mass: Interval
    """Expected calibration error over bins that hold equally many answers."""


class Report(_Model):
    """One kind of field, or one field, on held-out examples, before and after."""

    fitted_on: Count
    """Answers that were fitted on."""
    held_out: Count
    """Answers that the figures are of."""
    before: Metrics
    """At temperature 1."""
    after: Metrics
    """With what was fitted."""
    at_bound: bool
    """Whether the fit ran into the end of its range: the examples ask for something more extreme than is given."""


class Bin(_Model):
    """The answers whose stated probability falls into one of the bins of equal width."""

    index: Count
    """The bin's place, from 0."""
    count: Count
    """Answers in it."""
    stated: Finite
    """Their mean probability."""
    right: Finite
    """The share of them that is right; for an option of a multi field, that applies."""


class Diagram(_Model):
    """What a reliability diagram shows: bins that hold an answer, before and after."""

    before: tuple[Bin, ...]
    """At temperature 1."""
    after: tuple[Bin, ...]
    """With what was fitted."""


class Calibration(_Model):
    """Fitted temperatures per kind of field, and a multi field's calibrator.

    Example:
        >>> made = Made(model_id="m", model_revision=None, prompt_version="v", scoring="labels", prior_correction=False,
        ...     permutations=1, rotate_scales=False)
        >>> calibration = Calibration(format=FORMAT, package_version="0", made_for=made, temperatures={"enum": 2.0},
        ...     multi=Affine(a=0.5, b=-0.1), data_sha256="0" * 64, reports={})
        >>> calibration.temperature("enum"), calibration.temperature("boolean"), calibration.log_odds(1.0)
        (2.0, 1.0, 0.4)
    """

    format: Literal["jevmlx-calibration-1"]
    """Version of this file's form."""
    package_version: str
    """Version of the package that fitted it."""
    made_for: Made
    """What it holds for."""
    temperatures: Frozen[Kind, Positive]
    """Kind of field → temperature; a kind that had no labels is not in it and stays at 1."""
    multi: Affine | None
    """For the options of multi fields; ``None`` where there were no labels."""
    data_sha256: str
    """Hash of the labelled examples, whatever their order."""
    reports: Frozen[AnyKind, Report]
    """Kind of field → figures on held-out examples."""
    fields: Frozen[str, Report] = Field(default={}, validate_default=True)
    """Field → the same of this field alone."""
    diagrams: Frozen[AnyKind, Diagram] = Field(default={}, validate_default=True)
    """Kind of field → its reliability diagram on held-out examples."""
    refused: Frozen[str, Count] = Field(default={}, validate_default=True)
    """Error code → examples that could not be decided and were left out."""

    def temperature(self, kind: str) -> float:
        """What the log scores of a kind of field are divided by: ``"boolean"``, ``"enum"`` or ``"ordered"``."""
        return self.temperatures.get(kind, 1.0)  # type: ignore[call-overload, no-any-return]

    def log_odds(self, x: float) -> float:
        """Calibrated log-odds of a multi field's option, in nats."""
        return x if self.multi is None else self.multi.a * x + self.multi.b

    @cached_property
    def sha256(self) -> str:
        """Hash of the canonical JSON; recorded in every result."""
        return hashlib.sha256(self._canonical().encode()).hexdigest()

    def _canonical(self) -> str:
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def check(self, **use: Any) -> None:
        """Refuses a use that the calibration was not made for.

        Args:
            **use: Every field of :class:`Made`.

        Raises:
            CalibrationError: ``calibration.mismatch``; the message names all that differs.
        """
        made = self.made_for.model_dump()
        differ = [f"{name} is {use[name]!r} and was {value!r}" for name, value in made.items() if use[name] != value]
        if differ:
            message = f"this calibration was made for something else: {'; '.join(differ)}; fit one for this use"
            raise CalibrationError("calibration.mismatch", message, "calibration")

    def save(self, path: str | Path) -> None:
        """Writes the calibration as JSON: whole or not at all.

        Raises:
            CalibrationError: ``calibration.file``.
        """
        try:
            write_whole(path, (self.model_dump_json(indent=2) + "\n").encode())
        except (OSError, ValueError) as error:
            message = f"{str(path)!r} cannot be written: {getattr(error, 'strerror', None) or error}"
            raise CalibrationError("calibration.file", message, "calibration") from error

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Reads a calibration that :meth:`save` wrote.

        Raises:
            CalibrationError: ``calibration.file``: it cannot be read, or is damaged or of another version.
        """
        try:
            return cls.model_validate_json(Path(path).read_bytes())
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            message = f"{str(path)!r} is no calibration of this version: {where}: {first['msg']}; fit it again"
            raise CalibrationError("calibration.file", message, "calibration") from error
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            message = f"{str(path)!r} cannot be read: {why}; name a file that `jevmlx calibrate` wrote"
            raise CalibrationError("calibration.file", message, "calibration") from error

    def to_dict(self) -> Mapping[str, Any]:
        """Plain data, ready for JSON."""
        return self.model_dump(mode="json")
