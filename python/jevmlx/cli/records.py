"""Decisions as JSON Lines: one record a row, and where an interrupted run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import JevmlxError
from .rows import Row

if TYPE_CHECKING:
    from ..results import Decision, DecisionError

# What is the same for all records of one run.
_SAME = (
    *(
        "model_id",
        "model_revision",
        "dtype",
        "schema_sha256",
        "plan_hash",
        "scoring",
        "temperature",
        "calibration_sha256",
    ),
    *("prior_correction", "permutations", "rotate_scales"),
)


@dataclass(frozen=True)
class Resumed:
    """What an output file holds already.

    Attributes:
        records: Whole records.
        end: Bytes of them.
        provenance: Of the first decision among them; ``None`` where there is none.
    """

    records: int = 0
    end: int = 0
    provenance: dict[str, Any] | None = None

    def made_alike(self, result: Decision | DecisionError) -> bool:
        """Whether a result can be put beside those held; false for an error, which says nothing of how it was made.

        Raises:
            JevmlxError: ``input.resume``: it was made in another way.
        """
        if self.provenance is None:
            return True
        made = result.to_dict().get("provenance")
        if made is None:
            return False
        for key in _SAME:
            if self.provenance.get(key) != made[key]:
                message = (
                    f"the output was made with another schema, model or option: {key} is {self.provenance.get(key)!r} there and "
                    f"{made[key]!r} now; write to another file"
                )
                raise JevmlxError("input.resume", message)
        return True


def record(row: Row, result: Decision | DecisionError, *, timings: bool) -> dict[str, Any]:
    """One row's record: its number, the hash of what was asked, and the decision or what was wrong."""
    data = result.to_dict()
    if not timings:
        # They differ every time; without them the same input gives the same file.
        data.pop("timings", None)
    return {"line": row.number, "input_sha256": row.sha256, **data}


def line(data: dict[str, Any]) -> bytes:
    """A record as a line of UTF-8."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def resume(target: Path, rows: Iterator[Row]) -> Resumed:
    """Reads what ``target`` holds, and takes the rows it answers from ``rows``; a last line that was cut is not counted.

    Raises:
        JevmlxError: ``input.resume``: the file answers other rows.
    """
    records = end = 0
    provenance = None
    with target.open("rb") as file:
        for held in file:
            if not held.endswith(b"\n"):
                break
            found = _record(held)
            row = next(rows, None)
            if row is None or found.get("line") != row.number or found.get("input_sha256") != row.sha256:
                message = (
                    f"line {records + 1} of the output does not answer row {records + 1} of the input; write to another file, or "
                    "remove this one"
                )
                raise JevmlxError("input.resume", message, str(target))
            provenance = provenance or found.get("provenance")
            records += 1
            end += len(held)
    return Resumed(records, end, provenance)


def _record(held: bytes) -> dict[str, Any]:
    try:
        found = json.loads(held)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
