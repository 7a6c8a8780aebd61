"""When an answer is not sure enough to stand: thresholds per field, and what to do below them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .checks import is_number
from .errors import ConfigError

OTHERS = "*"
_KEYS = ("min_probability", "min_margin", "otherwise")


@dataclass(frozen=True)
class Threshold:
    """What a field's answer must reach, and what becomes of it where it does not.

    A multi field is judged by its closest call: the least of its options' max(P, 1 − P), and the least distance of their log-odds
    from 0.

    Attributes:
        min_probability: Least probability of the value, 0–1.
        min_margin: Least log score of the value minus that of the best other choice, in nats, before the temperature.
        otherwise: ``"abstain"`` gives no value, ``"review"`` gives it and asks for a person.

    Raises:
        ConfigError: ``config.policy``.

    Example:
        >>> Threshold(min_probability=0.9, otherwise="review").failed(0.85, 2.0)
        'probability 0.85 is below 0.9'
    """

    min_probability: float | None = None
    min_margin: float | None = None
    otherwise: Literal["abstain", "review"] = "abstain"

    def __post_init__(self) -> None:
        self._check("min_probability", 1.0)
        self._check("min_margin", math.inf)
        if self.otherwise not in ("abstain", "review"):
            raise _refused(f'otherwise is {self.otherwise!r}; allowed are "abstain" and "review"', "otherwise")
        if self.min_probability is None and self.min_margin is None:
            raise _refused("a threshold needs min_probability or min_margin", "")

    def _check(self, name: str, most: float) -> None:
        value: Any = getattr(self, name)
        if value is None:
            return
        if not is_number(value) or not 0 <= value <= most:
            limit = f"a number from 0 to {most:g}" if most < math.inf else "a number of nats, 0 or more,"
            raise _refused(f"{name} is {value!r}; {limit} is needed", name)

    def failed(self, probability: float, margin: float) -> str | None:
        """What is not reached, in words; ``None`` where all is."""
        if self.min_probability is not None and probability < self.min_probability:
            return f"probability {probability:.4g} is below {self.min_probability:g}"
        if self.min_margin is not None and margin < self.min_margin:
            return f"log-score margin {margin:.4g} is below {self.min_margin:g}"
        return None


@dataclass(frozen=True)
class Policy:
    """All fields' thresholds, the stricter outcome first: what abstains is not also sent to review."""

    fields: Mapping[str, tuple[Threshold, ...]]

    @classmethod
    def of(
        cls,
        policy: Mapping[str, Threshold | Mapping[str, Any]] | None,
        abstain_below_margin: float | Mapping[str, float] | None,
    ) -> Policy:
        """Thresholds from a call's arguments.

        Raises:
            ConfigError: ``config.policy`` or ``config.abstain_below_margin``.
        """
        found: dict[str, list[Threshold]] = {}
        for name, threshold in _margins(abstain_below_margin).items():
            found.setdefault(name, []).append(threshold)
        given: Any = {} if policy is None else policy
        if not isinstance(given, Mapping):
            raise _refused("policy must be an object from field names to thresholds", "")
        for name, spec in given.items():
            found.setdefault(name, []).append(_threshold(name, spec))
        return cls({name: tuple(sorted(held, key=lambda t: t.otherwise)) for name, held in found.items()})

    def check_fields(self, names: Iterable[str]) -> None:
        """Refuses a threshold for a field that is not there.

        Raises:
            ConfigError: ``config.policy``.
        """
        known = {*names, OTHERS}
        for name in self.fields:
            if name not in known:
                raise _refused(f"there is no field {name!r}; name a field of the schema, or {OTHERS!r} for all", name)

    def of_field(self, name: str) -> tuple[Threshold, ...]:
        """A field's own thresholds, or those for all others."""
        return self.fields.get(name, self.fields.get(OTHERS, ()))


def _margins(given: object) -> dict[str, Threshold]:
    if given is None:
        return {}
    margins: Mapping[str, Any] = given if isinstance(given, Mapping) else {OTHERS: given}
    try:
        return {name: Threshold(min_margin=margin) for name, margin in margins.items()}
    except ConfigError as error:
        message = f"abstain_below_margin must be a number of nats, 0 or more, or one per field; {error.message}"
        raise ConfigError("config.abstain_below_margin", message, "abstain_below_margin") from error


def _threshold(name: str, spec: object) -> Threshold:
    if isinstance(spec, Threshold):
        return spec
    if not isinstance(spec, Mapping):
        raise _refused("a threshold must be an object", name)
    unknown = [key for key in spec if key not in _KEYS]
    if unknown:
        raise _refused(
            f"{unknown[0]!r} is no key of a threshold; allowed are {', '.join(_KEYS)}", f"{name}.{unknown[0]}"
        )
    try:
        return Threshold(**spec)
    except ConfigError as error:
        path = ".".join(part for part in (name, error.path.removeprefix("policy").strip(".")) if part)
        raise _refused(error.message, path) from error


def _refused(message: str, path: str) -> ConfigError:
    return ConfigError("config.policy", message, f"policy.{path}" if path else "policy")
