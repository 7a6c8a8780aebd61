"""Options that several commands have: declared once, as a dataclass per group.

A command takes a group as one parameter; :func:`expanded` shows Typer its fields as options and hands the command the group.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ..errors import ConfigError
from . import complete
from .files import read_json

if TYPE_CHECKING:
    from .. import Engine
    from ..inputs import SchemaInput

SchemaArgument = Annotated[
    str,
    typer.Argument(
        help="A JSON file, a preset's name, or module:Class.", show_default=False, autocompletion=complete.schemas
    ),
]
ModelOption = Annotated[
    str,
    typer.Option("--model", "-m", help="'embedded', a folder, or a hub id.", autocompletion=complete.models),
]
RevisionOption = Annotated[str | None, typer.Option(help="Hub revision of the model.", show_default=False)]
ScoringOption = Annotated[str, typer.Option(help="'labels' or 'slots'.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class Source:
    """Where contexts come from."""

    text: Annotated[
        str | None, typer.Argument(help="The text to decide on; else --file or standard input.", show_default=False)
    ] = None
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            help="A text, or many in .jsonl, .csv or .parquet; - for standard input.",
            show_default=False,
        ),
    ] = None
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="'text', 'jsonl', 'csv' or 'parquet'; by default as the file is named.", show_default=False
        ),
    ] = None
    column: Annotated[
        str | None, typer.Option(help="Key or column that holds the texts; 'context' by default.", show_default=False)
    ] = None


@dataclass(frozen=True)
class Output:
    """What is printed or written."""

    as_json: JsonOption = False
    as_jsonl: Annotated[bool, typer.Option("--jsonl", help="Print one JSON record a line.")] = False
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write JSON Lines to this file; for many contexts.", show_default=False),
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on where --out ends.")] = False
    timings: Annotated[bool, typer.Option("--timings", help="Keep timings in JSON Lines; they differ each time.")] = (
        False
    )


@dataclass(frozen=True)
class Model:
    """Which model decides, and what it leaves behind."""

    model: ModelOption = "embedded"
    revision: RevisionOption = None
    dtype: Annotated[
        str | None, typer.Option(help="'float32', 'float16' or 'bfloat16'; by default as fits.", show_default=False)
    ] = None
    audit_log: Annotated[Path | None, typer.Option(help="Record every decision in this log.", show_default=False)] = (
        None
    )
    audit_redact: Annotated[bool, typer.Option("--audit-redact", help="Record hashes in place of texts.")] = False

    def load(self) -> Engine:
        """Loads the model.

        Raises:
            JevmlxError: It cannot be loaded, or the log cannot be opened.
        """
        from .. import load

        audit = None
        if self.audit_log is not None:
            from ..audit import AuditLog

            audit = AuditLog(self.audit_log, redact=self.audit_redact)
        elif self.audit_redact:
            raise typer.BadParameter("--audit-redact says how --audit-log is written; give that too")
        return load(self.model, revision=self.revision, dtype=self.dtype, audit=audit)


@dataclass(frozen=True)
class Asked:
    """What both deciding and calibrating are told about how to ask; a calibration holds for the same ones only."""

    scoring: ScoringOption = "labels"
    isolate: Annotated[bool, typer.Option("--isolate", help="Ask every field alone.")] = False
    permutations: Annotated[int, typer.Option(help="Average over this many orders of the choices.")] = 1
    rotate_scales: Annotated[bool, typer.Option("--rotate-scales", help="Move booleans and scales too.")] = False
    prior_correction: Annotated[
        bool, typer.Option("--prior-correction", help="Subtract what the model says about no text.")
    ] = False
    overflow: Annotated[str, typer.Option(help="Of a text too long: 'error', 'keep_head' or 'keep_tail'.")] = "error"

    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``Engine.decide``."""
        return {spec.name: getattr(self, spec.name) for spec in fields(Asked)}


@dataclass(frozen=True)
class How(Asked):
    """How a decision is made: the options of ``Engine.decide``."""

    temperature: Annotated[
        float | None, typer.Option(help="What log scores are divided by; 1 by default.", show_default=False)
    ] = None
    calibration: Annotated[
        Path | None, typer.Option(help="A calibration that `jevmlx calibrate` wrote.", show_default=False)
    ] = None
    abstain_below_margin: Annotated[
        list[str] | None,
        typer.Option(help="No value below this margin in nats; or field=nats, repeated.", show_default=False),
    ] = None
    policy: Annotated[
        Path | None, typer.Option(help="JSON file: field → when to abstain or review.", show_default=False)
    ] = None
    constraints: Annotated[
        Path | None, typer.Option(help="JSON file: a list of constraints between fields.", show_default=False)
    ] = None
    legal_mass: Annotated[bool, typer.Option(help="Report how much probability the answers had.")] = True

    def checked(self, given: SchemaInput, *, merge: bool = False) -> dict[str, Any]:
        """Keyword arguments of ``Engine.decide``, checked against a schema before a model is loaded.

        Raises:
            JevmlxError: An option or a file is at fault.
        """
        from ..asking import case_program
        from ..options import Options, check_schema

        options = self.options() | {
            "temperature": self.temperature,
            "calibration": self.calibration,
            "abstain_below_margin": margins(self.abstain_below_margin),
            "policy": None if self.policy is None else read_json(self.policy, "policy"),
            "constraints": () if self.constraints is None else read_json(self.constraints, "constraints"),
            "legal_mass": self.legal_mass,
        }
        found = Options.of(options, merge=merge)
        check_schema(given.schema, found)
        case_program(given.schema, found.constraints)
        # Read once: the file may be another one by the time the model is loaded.
        return options | {"calibration": found.calibration}


def margins(given: list[str] | None) -> float | dict[str, float] | None:
    """``--abstain-below-margin``: a number for all fields, or ``field=number`` for some.

    Raises:
        ConfigError: ``config.abstain_below_margin``.

    Example:
        >>> margins(["0.5"]), margins(["team=0.5", "urgent=1"])
        (0.5, {'team': 0.5, 'urgent': 1.0})
    """
    if not given:
        return None
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            message = f"{text!r} is neither a number of nats nor field=number"
            raise ConfigError("config.abstain_below_margin", message, "abstain_below_margin") from None
        if name in found or (found and not name) or "" in found:
            message = "give one number for all fields, or field=number once for each"
            raise ConfigError("config.abstain_below_margin", message, "abstain_below_margin")
        found[name] = value
    return found.get("", found)


@cache
def _parameters(group: type) -> tuple[inspect.Parameter, ...]:
    hints = get_type_hints(group, include_extras=True)
    return tuple(
        inspect.Parameter(spec.name, inspect.Parameter.KEYWORD_ONLY, default=spec.default, annotation=hints[spec.name])
        for spec in fields(group)
    )


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """A command as Typer reads it: each parameter that is a group stands for the group's options.

    Example:
        >>> def command(name: str, source: Source) -> None: ...
        >>> list(inspect.signature(expanded(command)).parameters)
        ['name', 'text', 'file', 'file_format', 'column']
    """
    groups: dict[str, type] = {}
    shown: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if isinstance(group, type) and is_dataclass(group):
            groups[parameter.name] = group
            shown += _parameters(group)
        else:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{spec.name: given.pop(spec.name) for spec in _parameters(group)})
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run
