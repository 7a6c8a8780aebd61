"""How a decision is made: the arguments every face passes on, checked in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ._core import Schema
from .checks import is_number, is_whole
from .errors import ConfigError
from .overflow import ERROR, check_overflow
from .policy import Policy, Threshold

if TYPE_CHECKING:
    from .calibration import Calibration

# More rotations than an enum has choices say nothing new.
MOST_PERMUTATIONS = 255


class DecideOptions(TypedDict, total=False):
    """Keyword arguments of ``Engine.decide`` and its relatives; all have defaults."""

    scoring: str
    """``"labels"`` (the default) scores the choices themselves, ``"slots"`` short aliases for them."""
    temperature: float | None
    """What log scores are divided by, once, at the end; 1 by default."""
    calibration: Calibration | str | Path | None
    """A calibration, or its file, in place of a temperature; refused if it was made for anything else."""
    nonce_key: bytes | None
    """A secret for the fence's nonce; see :func:`jevmlx.render_prompt`."""
    legal_mass: bool
    """Whether to report how much probability the allowed answers had; costs a projection on the vocabulary and changes no score."""
    isolate: bool
    """Whether every field is asked alone under a neutral name, so that no field sees or influences another."""
    overflow: str
    """What to do with a context that does not fit: ``"error"``, ``"keep_head"`` or ``"keep_tail"``."""
    constraints: Sequence[Mapping[str, Any]]
    """Constraints between fields; see ``docs/constraints.md``."""
    prior_correction: bool
    """Whether to subtract the log scores that the same question has about a text without content."""
    permutations: int
    """Over how many rotations of the choices log scores are averaged; each is a prompt of its own."""
    rotate_scales: bool
    """Whether ``permutations`` moves booleans and ordered scales too."""
    abstain_below_margin: float | Mapping[str, float] | None
    """Abstain where best minus second best log score is below this, in nats; one number, or one per field."""
    policy: Mapping[str, Threshold | Mapping[str, Any]] | None
    """Field name (or ``"*"`` for all others) → when to abstain or ask for review; see :class:`jevmlx.Threshold`."""


@dataclass(frozen=True)
class Options:
    """Checked options.

    Raises:
        ConfigError: An option is at fault.
        CalibrationError: The calibration's file cannot be used.
    """

    scoring: str = "labels"
    temperature: float | None = None
    calibration: Calibration | None = None
    nonce_key: bytes | None = None
    legal_mass: bool = True
    isolate: bool = False
    overflow: str = ERROR
    constraints: Sequence[Mapping[str, Any]] = ()
    prior_correction: bool = False
    permutations: int = 1
    rotate_scales: bool = False
    abstain_below_margin: float | Mapping[str, float] | None = None
    policy: Mapping[str, Threshold | Mapping[str, Any]] | None = None
    merge: bool = False
    thresholds: Policy = field(init=False, repr=False)

    @classmethod
    def of(cls, given: Mapping[str, Any], *, merge: bool = False) -> Options:
        """Options from keyword arguments.

        Raises:
            ConfigError: An option is unknown or at fault.
        """
        unknown = sorted(given.keys() - DecideOptions.__annotations__.keys())
        if unknown:
            allowed = ", ".join(DecideOptions.__annotations__)
            message = f"{unknown[0]!r} is no option of a decision; allowed are {allowed}"
            raise ConfigError("config.option", message, unknown[0])
        return cls(**given, merge=merge)

    def __post_init__(self) -> None:
        # The annotations are promises that a caller without a type checker may break.
        if self.scoring not in ("labels", "slots"):
            message = f'scoring is {self.scoring!r}; allowed are "labels" and "slots"'
            raise ConfigError("config.scoring", message, "scoring")
        if self.temperature is not None and not (is_number(self.temperature) and self.temperature > 0):
            message = f"temperature is {self.temperature!r}; a positive number is needed"
            raise ConfigError("config.temperature", message, "temperature")
        for name in ("legal_mass", "isolate", "prior_correction", "rotate_scales", "merge"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError("config.flag", f"{name} is {getattr(self, name)!r}; true or false is needed", name)
        self._check_key()
        check_overflow(self.overflow)
        k = self.permutations
        if not is_whole(k, 1) or k > MOST_PERMUTATIONS:
            message = f"permutations is {k!r}; a whole number from 1 to {MOST_PERMUTATIONS} is needed"
            raise ConfigError("config.permutations", message, "permutations")
        self._check_combinations()
        self._load_calibration()
        object.__setattr__(self, "thresholds", Policy.of(self.policy, self.abstain_below_margin))

    def _check_key(self) -> None:
        key: object = self.nonce_key
        if key is not None and not isinstance(key, bytes):
            message = f"nonce_key is a {type(key).__name__}; bytes are needed"
            raise ConfigError("config.nonce_key", message, "nonce_key")

    def _check_combinations(self) -> None:
        if self.merge and (self.isolate or self.prior_correction or self.permutations > 1):
            message = (
                "merge puts one question per context into a pass; isolate, prior_correction and permutations ask several: "
                "leave one or the other out"
            )
            raise ConfigError("config.merge", message, "merge")
        if self.calibration is not None and self.temperature is not None:
            message = "a calibration brings its own temperatures; leave temperature or calibration out"
            raise ConfigError("config.calibration", message, "temperature")

    def _load_calibration(self) -> None:
        if self.calibration is None:
            return
        from .calibration import Calibration

        given: object = self.calibration
        if isinstance(given, (str, Path)):
            object.__setattr__(self, "calibration", Calibration.load(given))
        elif not isinstance(given, Calibration):
            message = f"calibration is a {type(given).__name__}; a Calibration or the path of one is needed"
            raise ConfigError("config.calibration", message, "calibration")


def check_schema(schema: Schema, options: Options) -> None:
    """Refuses options that a schema cannot be decided with.

    Raises:
        ConfigError: ``config.isolate``, ``config.merge`` or ``config.policy``.
    """
    names = [spec.name for spec in schema.fields]
    options.thresholds.check_fields(names)
    for spec in schema.fields:
        if spec.depends_on and options.isolate:
            message = "a field asked alone cannot depend on another; remove depends_on or isolate"
            raise ConfigError("config.isolate", message, f"{spec.name}.depends_on")
        if spec.depends_on and options.merge:
            message = "merged contexts are scored in one pass, and depends_on takes several; remove depends_on or merge"
            raise ConfigError("config.merge", message, f"{spec.name}.depends_on")
