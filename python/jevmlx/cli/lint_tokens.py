"""Lints that a tokenizer decides: how long the prompt is, how many tokens a choice takes, where choices part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ..errors import ModelError
from .findings import Finding

if TYPE_CHECKING:
    from .. import Field, Plan
    from ..tokenizers import TextTokenizer

# A choice of more tokens than this many times the median of its fellows, and at least so many more.
_TIMES, _MORE = 3, 3
# First tokens that choices share before the model may choose between them.
_SHARED = 3
# Part of the context window that the question may take before it is worth a word.
_CROWDED = 0.25


def load_tokenizer(name: str, revision: str | None) -> tuple[TextTokenizer, int | None]:
    """A tokenizer and, where its folder says, the context window of its model; nothing is fetched but the embedded model.

    Args:
        name: ``"embedded"``, a ``tokenizer.json``, a folder, or a hub id that is on this machine.
        revision: Of a hub id.

    Raises:
        JevmlxError: It cannot be found or read.
    """
    # The library alone: transformers takes a second to import.
    from tokenizers import Tokenizer

    from ..tokenizers import adapt

    path = _file(name, revision)
    try:
        loaded = Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises bare Exceptions.
        message = f"{path} cannot be read as a tokenizer: {error}; name a tokenizer.json, or the folder of one"
        raise ModelError("model.tokenizer", message) from error
    return adapt(loaded), _window(path.parent)


def _file(name: str, revision: str | None) -> Path:
    path = Path(name).expanduser()
    if name != "embedded" and path.is_file():
        return path
    if name != "embedded" and path.is_dir():
        return path / "tokenizer.json"
    if name == "embedded":
        from ..models import resolve

        return resolve(name, revision=revision).path / "tokenizer.json"
    from ..models.held import find

    # Weights are not fetched for the sake of a tokenizer.
    return find(name, revision)[-1].path / "tokenizer.json"


def _window(folder: Path) -> int | None:
    from ..models.weights import context_window, read_config

    # A tokenizer.json may stand alone.
    return context_window(read_config(folder)) if (folder / "config.json").is_file() else None


def measure(plan: Plan, tokenizer: TextTokenizer) -> dict[str, Any]:
    """Tokens of the prompt before any text, and of each field's choices, with the branch nodes of its rows."""
    from .explain import rows

    turns = plan.context_turns("", True)
    nodes: dict[str, int] = {}
    for row in rows(plan.to_dict()):
        nodes[row["field"]] = nodes.get(row["field"], 0) + row["branch_nodes"]
    fields = {}
    for field in plan.schema.fields:
        ids = tokenizer.encode_data(list(field.choices))
        fields[field.name] = {
            # Fields that depend on others are laid out once those are decided.
            "branch_nodes": nodes.get(field.name),
            "tokens": dict(zip(field.choices, map(len, ids), strict=True)),
            "shared": _shared(ids),
        }
    return {"tokens": sum(map(len, tokenizer.encode_data([text for _, text in turns]))), "fields": fields}


def _shared(ids: list[list[int]]) -> int:
    """The most tokens that two choices have in common at their beginning; neighbours in sorted order have the most."""
    ordered = sorted(ids)
    most = 0
    for a, b in pairwise(ordered):
        same = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        most = max(most, same)
    return most


def lint_tokens(plan: Plan, measured: dict[str, Any], window: int | None) -> Iterator[Finding]:
    """Findings from what :func:`measure` gives."""
    tokens = measured["tokens"]
    if window is not None and tokens > _CROWDED * window:
        message = (
            f"the prompt has {tokens:,} tokens before any text, of {window:,} that the model was made for; shorten descriptions, "
            "or ask in two calls"
        )
        yield Finding("long-prompt", "warning", "", message)
    if plan.scoring == "labels":
        for field in plan.schema.fields:
            if field.type == "enum":
                yield from _lint_choices(field, measured["fields"][field.name])


def _lint_choices(field: Field, found: dict[str, Any]) -> Iterator[Finding]:
    counts: dict[str, int] = found["tokens"]
    for index, (choice, count) in enumerate(counts.items()):
        others = [other for name, other in counts.items() if name != choice]
        usual = median(others) if others else count
        if count >= _TIMES * usual and count - usual >= _MORE:
            message = (
                f"{choice!r} takes {count} tokens where its fellows take {usual:g}: it is shown in rarer words, which models take "
                "less readily; choose words as common as the others', or scoring='slots', or compare with prior_correction"
            )
            yield Finding("unequal-tokens", "warning", f"{field.name}.choices[{index}]", message)
    if found["shared"] >= _SHARED:
        message = (
            f"choices share up to {found['shared']} tokens at their beginning, so the first one decides for all of them together; "
            "begin them with different words, or scoring='slots'"
        )
        yield Finding("shared-beginning", "warning", f"{field.name}.choices", message)
