"""``jevmlx validate``: what may be wrong with a schema that can be decided, without a model."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import complete
from .exits import AT_FAULT
from .findings import Finding
from .shared import JsonOption, RevisionOption, SchemaArgument, ScoringOption

if TYPE_CHECKING:
    from .. import Plan, Schema


def validate(
    schema: SchemaArgument,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            "--model",
            "-m",
            help="Count tokens by this one: 'embedded', tokenizer.json, a folder, or a fetched hub id.",
            show_default=False,
            autocompletion=complete.models,
        ),
    ] = None,
    revision: RevisionOption = None,
    scoring: ScoringOption = "labels",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where there are warnings.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a schema, and say what may make its answers worse. No model is loaded."""
    from . import schemas, show

    found = validation(schemas.load(schema).schema, tokenizer, revision, scoring)
    if as_json:
        show.json_data(found)
    else:
        _print(found)
    if strict and any(finding["level"] == "warning" for finding in found["findings"]):
        raise typer.Exit(AT_FAULT)


class _Characters:
    """A tokenizer of one token per character: what is laid out by it has the same texts as by any other."""

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]


def validation(schema: Schema, tokenizer: str | None, revision: str | None, scoring: str) -> dict[str, Any]:
    """Sizes and findings as plain data.

    Args:
        schema: The schema.
        tokenizer: What to count tokens by; ``None`` counts characters alone.
        revision: Of a hub id.
        scoring: ``"labels"`` or ``"slots"``.

    Raises:
        JevmlxError: The tokenizer cannot be read, or cannot tell the answers apart.
    """
    from .. import compile_plan
    from .lint import lint, long_prompt

    if tokenizer is None:
        plan = compile_plan(schema, _Characters(), scoring)
        return _report(plan, None, [*lint(schema), *long_prompt(_characters(plan))])
    from .lint_tokens import lint_tokens, load_tokenizer, measure

    text, window = load_tokenizer(tokenizer, revision)
    plan = compile_plan(schema, text, scoring)
    measured = measure(plan, text)
    return _report(plan, measured, [*lint(schema), *lint_tokens(plan, measured, window)])


def _characters(plan: Plan) -> int:
    return sum(len(text) for _, text in plan.context_turns("", True))


def _report(plan: Plan, measured: dict[str, Any] | None, findings: list[Finding]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field in plan.schema.fields:
        kind = "scale" if field.ordered else field.type
        fields[field.name] = {"type": kind, "choices": len(field.choices)}
        if measured is not None:
            fields[field.name] |= measured["fields"][field.name]
    prompt = {"characters": _characters(plan)} | ({} if measured is None else {"tokens": measured["tokens"]})
    return {"prompt": prompt, "fields": fields, "findings": [asdict(finding) for finding in findings]}


def _print(found: dict[str, Any]) -> None:
    prompt = found["prompt"]
    size = f"{prompt['tokens']:,} tokens" if "tokens" in prompt else "give --tokenizer to count tokens"
    # Those of the model's chat template come on top.
    typer.echo(f"prompt before any text: {prompt['characters']:,} characters, {size}")
    for name, field in found["fields"].items():
        line = f"{name}: {field['type']}, {field['choices']} choices"
        if "tokens" in field:
            counts = field["tokens"].values()
            nodes = field["branch_nodes"]
            line += f" of {min(counts)}–{max(counts)} tokens, " + (
                "laid out when its parent is decided" if nodes is None else f"{nodes} branch nodes"
            )
        typer.echo(line)
    for finding in found["findings"]:
        where = f" at {finding['path']}" if finding["path"] else ""
        typer.echo(f"{finding['level']}: {finding['message']} [{finding['kind']}{where}]")
    warnings = sum(finding["level"] == "warning" for finding in found["findings"])
    typer.echo(
        f"{warnings} warnings, {len(found['findings']) - warnings} pieces of advice" if found["findings"] else "ok"
    )
