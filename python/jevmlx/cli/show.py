"""What the commands print. Colours and bars are rich's; they are off when the output is no terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .. import display
from ..results import Decision, DecisionError, FieldResult


def _console() -> Console:
    return Console(highlight=False)


def json_data(data: Any) -> None:
    """Prints plain data as indented JSON."""
    print(json.dumps(data, ensure_ascii=False, indent=2))


def decision(result: Decision) -> None:
    """Prints a decision as a table with a bar for each likely answer."""
    table = Table(box=None, pad_edge=False)
    for heading in ("field", "value", "", "probability", "legal mass"):
        table.add_column(heading, overflow="fold")
    for found in result.fields.values():
        _add_field(table, found)
    _console().print(table)
    made = result.provenance
    took = result.timings
    _console().print(
        f"[dim]{escape(made.model_id)} · {escape(made.prompt_version)} · {made.scoring} · "
        f"prompt {made.prompt_sha256[:12]} · plan {made.plan_hash[:12]} · "
        f"{took.computed_tokens + took.cached_tokens + took.row_tokens} tokens in {took.total_s:.2f} s[/dim]"
    )


def numbered(number: int, result: Decision | DecisionError) -> None:
    """Prints one of many decisions, or what was wrong in its place, under its number."""
    _console().print(f"[bold]— {number} —[/bold]")
    if isinstance(result, Decision):
        decision(result)
    else:
        where = f" at {result.path}" if result.path else ""
        _console().print(f"error: {result.message} [{result.code}{where}]", markup=False)


def _add_field(table: Table, found: FieldResult) -> None:
    mass = "" if found.legal_mass is None else f"{found.legal_mass:.3f}"
    p = "" if found.probability is None else f"{found.probability:.1%}"
    table.add_row(_bold(found.name), _bold(display.shown_value(found)), _bar(found.probability), p, mass)
    if found.type == "multi":
        others = list(found.probabilities.items())
    else:
        others = [(other.choice, other.probability) for other in display.others(found)]
    for choice, probability in others:
        table.add_row("", Text(display.name_of(choice), "dim"), _bar(probability), f"{probability:.1%}", "")


def _bold(text: str) -> Text:
    return Text(text, "bold")


def _bar(probability: float | None) -> Text:
    return Text("" if probability is None else display.bar(probability), "cyan")


def explanation(found: Mapping[str, Any]) -> None:
    """Prints an explanation: each prompt as it is, then its rows, plan and hashes."""
    console = _console()
    for prompt in found["prompts"]:
        console.rule(escape(f"{prompt['role']}: {', '.join(prompt['fields'])}"))
        print(prompt["text"])
        console.rule("rows")
        table = Table(box=None, pad_edge=False)
        for heading in ("field", "row", "tokens", "branch nodes", "candidates"):
            table.add_column(heading, overflow="fold")
        for row in prompt["rows"]:
            sizes = str(row["tokens"]), str(row["branch_nodes"])
            table.add_row(Text(row["field"]), Text(row["row"]), *sizes, Text(row["candidates"]))
        console.print(table)
        console.rule("plan")
        print(json.dumps(prompt["plan"], ensure_ascii=False))
        console.rule("hashes")
        for key, value in prompt["hashes"].items():
            console.print(f"{key}: {escape(str(value))}")


def report(found: Mapping[str, Any]) -> None:
    """Prints a doctor's report, one line a fact, then what was checked and the verdict."""
    console = _console()
    for key, value in found.items():
        if key in ("checks", "can_run", "verdict"):
            continue
        shown = ", ".join(f"{name} {text}" for name, text in value.items()) if isinstance(value, Mapping) else value
        console.print(f"[bold]{key}[/bold]: {escape(str(shown))}", soft_wrap=True)
    styles = {"ok": "green", "warning": "yellow", "failed": "red"}
    for check in found["checks"]:
        state = check["state"]
        console.print(
            f"[{styles[state]}]{state:7}[/] [bold]{check['name']}[/bold]: {escape(check['detail'])}", soft_wrap=True
        )
    console.print(escape(found["verdict"]), style="bold" if found["can_run"] else "bold red", soft_wrap=True)
