"""From labelled examples to a calibration: split, ask, fit on one side, report on the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import Schema, __version__
from ..errors import CalibrationError
from ..inputs import schema_of
from .bundle import FORMAT, Affine, AnyKind, Calibration, Diagram, Kind, Report
from .data import Example, checked_examples, data_sha256, read_examples
from .enough import check_enough
from .metrics import diagram_bins, metrics
from .observe import FieldObservations, Observations, Progress, observe, truths
from .pool import Pool, Scale
from .split import HELD_OUT, split

if TYPE_CHECKING:
    from ..asking import SchemaLike
    from ..engine import Engine

Data = str | Path | Iterable[Example | Mapping[str, Any]]
Fits = Mapping[AnyKind, tuple[Scale, bool]]


def calibrate(
    engine: Engine,
    schema: SchemaLike,
    data: Data,
    *,
    held_out: float = HELD_OUT,
    progress: Progress | None = None,
    **options: Any,
) -> Calibration:
    """Fits a calibration on labelled examples.

    Args:
        engine: The model.
        schema: What is asked: a schema, or anything :func:`jevmlx.schema_of` takes.
        data: Examples, mappings with ``context`` and ``labels``, or a file of them as JSON Lines.
        held_out: The share of examples that are not fitted on but reported on; near-duplicates stay on one side.
        progress: Told (examples answered, examples) after each.
        **options: For ``Engine.decide_many``; the calibration then holds for these.

    Raises:
        CalibrationError: ``calibration.*``: the examples are at fault, or too few, or a temperature was given.
        JevmlxError: Schema or options are at fault.
    """
    parsed = schema_of(schema).schema
    examples = _examples(data, parsed)
    fitted, held = split(examples, held_out)
    # Known before the model is asked, which is what takes time.
    check_enough(truths(parsed, fitted), truths(parsed, held))
    observed = observe(engine, parsed, [*fitted, *held], progress=progress, **options)
    return fit(*_parted(observed, len(fitted)), data_sha256=data_sha256(examples))


def fit(fitted: Observations, held: Observations, *, data_sha256: str) -> Calibration:
    """Fits a calibration on what a model said, and reports how it does on other examples.

    Args:
        fitted: To fit on.
        held: To report on.
        data_sha256: Hash of the labelled examples, for the record.

    Raises:
        CalibrationError: ``calibration.few``: too few labels; ``calibration.one_class``: all are the same;
            ``calibration.mismatch``: the two were not observed alike.
    """
    if fitted.made_for != held.made_for:
        message = (
            "the examples to fit on and those to report on were not asked about in the same way; observe both alike"
        )
        raise CalibrationError("calibration.mismatch", message, "held")
    check_enough([field.labels for field in fitted.fields], [field.labels for field in held.fields])
    pools, held_pools = _by_kind(fitted.fields), _by_kind(held.fields)
    fits = {kind: pool.fit() for kind, pool in pools.items()}
    temperatures: dict[Kind, float] = {
        kind: scale for kind, (scale, _) in fits.items() if kind != "multi" and not isinstance(scale, Affine)
    }
    lines = [scale for scale, _ in fits.values() if isinstance(scale, Affine)]
    return Calibration(
        format=FORMAT,
        package_version=__version__,
        made_for=fitted.made_for,
        temperatures=temperatures,
        multi=lines[0] if lines else None,
        data_sha256=data_sha256,
        reports={kind: _report(pool, held_pools[kind], *fits[kind]) for kind, pool in pools.items()},
        fields=_field_reports(fitted.fields, held.fields, fits),
        diagrams={kind: _diagram(pool, fits[kind][0]) for kind, pool in held_pools.items()},
        refused=Counter(error.code for error in (*fitted.refused, *held.refused)),
    )


def _by_kind(fields: Iterable[FieldObservations]) -> dict[AnyKind, Pool]:
    grouped: dict[AnyKind, list[FieldObservations]] = {}
    for field in fields:
        grouped.setdefault(field.labels.kind, []).append(field)
    return {kind: Pool.of(own) for kind, own in grouped.items()}


def _report(fitted: Pool, held: Pool, scale: Scale, at_bound: bool) -> Report:
    return Report(
        fitted_on=len(fitted.truth),
        held_out=len(held.truth),
        before=metrics(held.outcomes(held.unscaled)),
        after=metrics(held.outcomes(scale)),
        at_bound=at_bound,
    )


def _field_reports(
    fitted: Iterable[FieldObservations], held: Iterable[FieldObservations], fits: Fits
) -> dict[str, Report]:
    """Each field's own figures, with what its kind was fitted."""
    pools = {field.labels.name: Pool.of([field]) for field in fitted}
    return {
        field.labels.name: _report(pools[field.labels.name], Pool.of([field]), *fits[field.labels.kind])
        for field in held
        if field.labels.name in pools
    }


def _diagram(held: Pool, scale: Scale) -> Diagram:
    return Diagram(before=diagram_bins(held.outcomes(held.unscaled)), after=diagram_bins(held.outcomes(scale)))


def _examples(data: Data, schema: Schema) -> list[Example]:
    if isinstance(data, (str, Path)):
        return read_examples(data, schema)
    given: object = data
    if not isinstance(given, Iterable):
        message = f"labelled examples are given as a {type(data).__name__}; a list of them or a file's path is needed"
        raise CalibrationError("calibration.data.type", message, "data")
    return checked_examples(((item, 0) for item in data), schema)


def _parted(observed: Observations, first: int) -> tuple[Observations, Observations]:
    """What was observed of the first examples, and of the others."""
    parts = []
    for others in (False, True):
        fields = []
        for field in observed.fields:
            rows = np.flatnonzero((field.labels.examples >= first) == others)
            if len(rows):
                fields.append(FieldObservations(field.labels.at(rows), field.scores[rows]))
        refused = tuple(error for error in observed.refused if (error.index >= first) == others)
        parts.append(replace(observed, fields=tuple(fields), refused=refused))
    return parts[0], parts[1]
