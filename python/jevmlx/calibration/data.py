"""Labelled examples: read from JSON Lines and checked against a schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .._core import Field, Schema
from ..errors import CalibrationError

Label = bool | str | tuple[str, ...] | None


@dataclass(frozen=True)
class Example:
    """A text and what is right for it.

    Attributes:
        context: The text.
        labels: Field name → a bool, a choice, the options that apply (multi), or ``None`` for "none of the above". Fields that
            are not named have no label.
        line: The line it was read from, from 1; 0 where there is none.
    """

    context: str
    labels: Mapping[str, Label]
    line: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))

    @property
    def canonical(self) -> str:
        """One line of JSON with sorted keys: equal for equal examples."""
        data = {"context": self.context, "labels": dict(self.labels)}
        return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def data_sha256(examples: Iterable[Example]) -> str:
    """A hash of the examples that does not depend on their order."""
    lines = sorted(example.canonical for example in examples)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read_examples(path: str | Path, schema: Schema) -> list[Example]:
    """Reads labelled examples from a file of JSON Lines; lines of white space are skipped.

    Args:
        path: The file, in UTF-8.
        schema: What the labels answer.

    Raises:
        CalibrationError: ``calibration.data.*``: the file cannot be read, or a line is at fault; the path names the line.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        message = f"{str(path)!r} cannot be read: {error.strerror or error}; name a file of JSON Lines"
        raise CalibrationError("calibration.data.file", message, "data") from error
    except UnicodeDecodeError as error:
        message = f"{str(path)!r} is not UTF-8: byte {error.start} cannot be read; re-encode it"
        raise CalibrationError("calibration.data.file", message, "data") from error
    return parse_examples(text, schema)


def parse_examples(text: str, schema: Schema) -> list[Example]:
    """Labelled examples from JSON Lines.

    Args:
        text: One object a line, ``{"context": …, "labels": {field: value}}``; other keys are left alone.
        schema: What the labels answer.

    Raises:
        CalibrationError: ``calibration.data.*``.

    Example:
        >>> schema = Schema({"urgent": {"type": "boolean"}})
        >>> parse_examples('{"context": "Now!", "labels": {"urgent": true}}', schema)[0].labels["urgent"]
        True
    """
    # Only line feeds end a line: a JSON text may hold other characters that Python would split at.
    lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    return checked_examples(((_object(line, f"line {number}"), number) for number, line in lines), schema)


def checked_examples(data: Iterable[tuple[Any, int]], schema: Schema) -> list[Example]:
    """Examples from objects, each with its line (0 where there is none).

    Args:
        data: Examples, or mappings with ``context`` and ``labels``.
        schema: What the labels answer.

    Raises:
        CalibrationError: ``calibration.data.*``.
    """
    fields = {spec.name: spec for spec in schema.fields}
    examples = [
        _example(item, line, f"line {line}" if line else f"example {index}", fields)
        for index, (item, line) in enumerate(data)
    ]
    if not examples:
        message = "there are no labelled examples; give one JSON object a line, with context and labels"
        raise CalibrationError("calibration.data.empty", message, "data")
    return examples


def target(spec: Field, label: Label) -> int | tuple[int, ...] | None:
    """Where a label stands in a field.

    Args:
        spec: The field.
        label: The label.

    Returns:
        The choice's place (a boolean's are true, false); for a multi field 0 or 1 per option; ``None`` for what is no label of
        this field.
    """
    if spec.type == "multi":
        if not isinstance(label, tuple) or len(set(label)) < len(label) or set(label) - set(spec.choices):
            return None
        return tuple(int(option in label) for option in spec.choices)
    if spec.type == "boolean":
        return int(not label) if isinstance(label, bool) else None
    if label is None:
        return len(spec.choices) - 1 if spec.none_of_above else None
    return spec.choices.index(label) if isinstance(label, str) and label in spec.choices else None


def _object(line: str, path: str) -> Any:
    try:
        return json.loads(line, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        message = f"{path} is not JSON: {error}; each line must be one object with context and labels"
        raise CalibrationError("calibration.data.json", message, path) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands twice in an object")
    return found


def _example(item: Any, line: int, path: str, fields: Mapping[str, Field]) -> Example:
    if isinstance(item, Example):
        item = {"context": item.context, "labels": item.labels}
    if not isinstance(item, Mapping) or "context" not in item or "labels" not in item:
        message = f"{path} must be an object with the keys context and labels"
        raise CalibrationError("calibration.data.key", message, path)
    context, labels = item["context"], item["labels"]
    if not isinstance(context, str) or any("\ud800" <= character <= "\udfff" for character in context):
        message = f"the context of {path} must be a text without lone surrogates"
        raise CalibrationError("calibration.data.context", message, f"{path}.context")
    if not isinstance(labels, Mapping) or not labels:
        message = f"the labels of {path} must be an object from field names to values, with one field at least"
        raise CalibrationError("calibration.data.labels", message, f"{path}.labels")
    return Example(context, {name: _label(name, labels[name], path, fields) for name in labels}, line)


def _label(name: Any, value: Any, path: str, fields: Mapping[str, Field]) -> Label:
    spec = fields.get(name)
    if spec is None:
        message = f"{path} has a label for {name!r}, which is no field of the schema; fields are {_some(tuple(fields))}"
        raise CalibrationError("calibration.data.field", message, f"{path}.labels")
    label: Label = tuple(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value
    if target(spec, label) is None:
        message = f"{path} labels {name!r} with {_shown(value)}; {_allowed(spec)}"
        raise CalibrationError("calibration.data.value", message, f"{path}.labels.{name}")
    return label


def _allowed(spec: Field) -> str:
    if spec.type == "boolean":
        return "a boolean's labels are true and false"
    if spec.type == "multi":
        return f"a multi field's label is a list of the options that apply, each once, out of {_some(spec.choices)}"
    null = "null means none of the above" if spec.none_of_above else "null needs allow_none_of_above in the schema"
    return f"allowed are {_some(spec.choices)}; {null}"


def _shown(value: Any, most: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _some(names: tuple[str, ...], most: int = 10) -> str:
    """The first names, so that a message stays readable with 255 choices."""
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
