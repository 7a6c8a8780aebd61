"""How a decision is made: the arguments every face passes on, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass

from ._core import Schema
from .errors import ConfigError
from .overflow import ERROR, check_overflow


@dataclass(frozen=True)
class Options:
    """Checked options; the arguments are those of ``Engine.decide`` and ``Engine.decide_many``.

    Raises:
        ConfigError: An option is at fault.
    """

    scoring: str = "labels"
    temperature: float = 1.0
    nonce_key: bytes | None = None
    legal_mass: bool = True
    isolate: bool = False
    overflow: str = ERROR
    merge: bool = False

    def __post_init__(self) -> None:
        # The annotations are promises that a caller without a type checker may break.
        temperature: object = self.temperature
        number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
        if not number or not 0 < self.temperature < float("inf"):
            message = f"temperature is {self.temperature!r}; a positive number is needed"
            raise ConfigError("config.temperature", message, "temperature")
        key: object = self.nonce_key
        if key is not None and not isinstance(key, bytes):
            message = f"nonce_key is a {type(key).__name__}; bytes are needed"
            raise ConfigError("config.nonce_key", message, "nonce_key")
        check_overflow(self.overflow)
        if self.merge and self.isolate:
            raise ConfigError(
                "config.merge", "merge puts questions together and isolate keeps them apart; choose one", "merge"
            )


def check_supported(schema: Schema, isolate: bool) -> None:
    """Refuses what this version compiles but does not apply: an answer that ignores it would be wrong.

    Raises:
        ConfigError: ``config.unsupported`` or ``config.isolate``.
    """
    for spec in schema.fields:
        if isolate and spec.depends_on:
            message = "a field asked alone cannot depend on another; remove depends_on or isolate"
            raise ConfigError("config.isolate", message, f"{spec.name}.depends_on")
        for key, given in (("set_constraints", spec.set_constraints), ("depends_on", spec.depends_on)):
            if given:
                raise ConfigError(
                    "config.unsupported",
                    f"{key} is part of the schema format, but this version of the engine does not apply it; remove it",
                    f"{spec.name}.{key}",
                )
