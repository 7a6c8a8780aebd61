"""Recorded decisions made again, and every bit that differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import AuditError, JevmlxError
from ..options import DecideOptions
from .chain import Broken, Place, Torn, walk

if TYPE_CHECKING:
    from ..calibration import Calibration
    from ..engine import Engine

# What made a result, in the order of how much it explains.
_MADE_BY = (
    "model_id",
    "model_revision",
    "package_version",
    "prompt_version",
    "dtype",
    "computation",
    "tokenizer_sha256",
)

# A log is input: what it names must not make this process read a file or call something.
_STORED = DecideOptions.__annotations__.keys() - {"nonce_key", "calibration"}


@dataclass(frozen=True)
class Difference:
    """One place where a decision made again is not the recorded one.

    Attributes:
        path: Where in ``Decision.to_dict()``, as ``fields.team.probability``.
        recorded: What is in the log; ``None`` where nothing is.
        replayed: What came out now; likewise.
    """

    path: str
    recorded: Any
    replayed: Any


@dataclass(frozen=True)
class Replayed:
    """What became of one recorded decision.

    Attributes:
        file: Its file in the log.
        line: Its line in that file, from 1.
        seq: Its number in the log.
        status: ``"same"``: to the last bit; ``"different"``; ``"skipped"``: it cannot be replayed.
        reason: Why it is skipped, or what explains the differences where something does.
        differences: All of them; those of the model and the package first. Times are not compared.
    """

    file: Path
    line: int
    seq: int
    status: Literal["same", "different", "skipped"]
    reason: str | None = None
    differences: tuple[Difference, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {**asdict(self), "file": str(self.file)}


def replay(
    path: str | Path, engine: Engine, *, calibrations: Iterable[Calibration | str | Path] = ()
) -> Iterator[Replayed]:
    """Makes every recorded decision again, with the recorded options.

    Args:
        path: The file that is written to; its full files are found beside it.
        engine: What decides.
        calibrations: The calibrations, or their files, that were used; each is known by its hash.

    Yields:
        What became of each line of kind ``"decision"``, in order.

    Raises:
        AuditError: ``audit.file``: the log cannot be read; ``audit.broken``: a line is broken, and those before it were replayed.
        CalibrationError: A calibration's file cannot be used.
    """
    held = {calibration.sha256: calibration for calibration in _loaded(calibrations)}
    for found in walk(path):
        if isinstance(found, Broken):
            message = f"line {found.line} is broken: {found.reason}; nothing from here on can be trusted"
            raise AuditError("audit.broken", message, str(found.file))
        if isinstance(found, Torn):
            return
        if found.line.content.get("kind") == "decision":
            yield _replayed(found, engine, held)


def _loaded(calibrations: Iterable[Calibration | str | Path]) -> Iterator[Calibration]:
    for given in calibrations:
        if isinstance(given, (str, Path)):
            from ..calibration import Calibration

            given = Calibration.load(given)
        yield given


def _replayed(place: Place, engine: Engine, calibrations: Mapping[str, Calibration]) -> Replayed:
    entry = place.line.content
    where = (place.file, place.number, place.line.seq)
    reason = _not_replayable(entry, calibrations)
    if reason is not None:
        return Replayed(*where, "skipped", reason)
    options = dict(entry["options"])
    if (used := options.pop("calibration_sha256", None)) is not None:
        options["calibration"] = calibrations[used]
    try:
        decision = engine.decide(entry["schema"], entry.get("context"), messages=entry.get("messages"), **options)
    except JevmlxError as error:
        return Replayed(*where, "different", f"it raises now: {error}")
    recorded, replayed = dict(entry["result"]), json.loads(decision.to_json())
    timings = [result.pop("timings") for result in (recorded, replayed)]
    differences = _made_by_first(_differences("", recorded, replayed))
    if not differences:
        return Replayed(*where, "same")
    return Replayed(
        *where, "different", _explained(differences, any(took["halved"] for took in timings)), tuple(differences)
    )


def _not_replayable(entry: Mapping[str, Any], calibrations: Mapping[str, Calibration]) -> str | None:
    try:
        options, result = dict(entry["options"]), entry["result"]
        merged, _ = result["provenance"]["merged"], result["timings"]["halved"]
    except (KeyError, TypeError, ValueError):
        return "it was not stored by record()"
    if "context" not in entry and "messages" not in entry:
        return "of its context or messages only the hash was stored"
    if options.pop("nonce_keyed", False):
        return "it used a nonce key, and keys are not stored"
    used = options.pop("calibration_sha256", None)
    if used is not None and used not in calibrations:
        return f"it used the calibration with hash {used}, which was not given"
    if merged:
        return "it shared its forward pass with other contexts, and its last digits depend on them"
    unknown = sorted(options.keys() - _STORED)
    return f"it used the option {unknown[0]!r}, which this version does not know" if unknown else None


def _differences(path: str, recorded: Any, replayed: Any) -> Iterator[Difference]:
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        for key in {**recorded, **replayed}:
            yield from _differences(f"{path}.{key}" if path else key, recorded.get(key), replayed.get(key))
    elif isinstance(recorded, list) and isinstance(replayed, list) and len(recorded) == len(replayed):
        for index, pair in enumerate(zip(recorded, replayed, strict=True)):
            yield from _differences(f"{path}[{index}]", *pair)
    # As text, for 0.0 equals -0.0 and 1 equals True; a float's shortest text stands for its very bits.
    elif json.dumps(recorded) != json.dumps(replayed):
        yield Difference(path, recorded, replayed)


def _made_by_first(differences: Iterable[Difference]) -> list[Difference]:
    order = {f"provenance.{name}": rank for rank, name in enumerate(_MADE_BY)}
    return sorted(differences, key=lambda difference: order.get(difference.path, len(order)))


def _explained(differences: list[Difference], halved: bool) -> str | None:
    first = differences[0]
    name = first.path.removeprefix("provenance.")
    if name in _MADE_BY:
        return f"another {name.replace('_', ' ')}: recorded {first.recorded}, now {first.replayed}"
    if halved:
        return "memory ran out once, and a wave computed in smaller parts can differ in its last digits"
    return None
