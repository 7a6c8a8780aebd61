"""How a decision shows itself: as text in a terminal, as HTML in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Alternative, Decision, FieldResult

_BAR = 20  # characters of a bar that stands for probability 1
_MISSING = "–"


def name_of(value: Any) -> str:
    """A value or choice as it is shown to people."""
    if value is None:
        return "none of the above"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value) if value else _MISSING
    return str(value)


def shown_value(found: FieldResult) -> str:
    """A field's value with its status where that is not "decided"."""
    if found.status == "decided":
        return name_of(found.value)
    return f"{found.status} ({name_of(found.raw_value)})"


def others(found: FieldResult) -> list[Alternative]:
    """The likeliest choices beside the one shown."""
    shown = name_of(found.value if found.status != "abstain" else found.raw_value)
    return [other for other in found.alternatives if name_of(other.choice) != shown]


def bar(probability: float) -> str:
    """A bar of a fixed width."""
    filled = round(probability * _BAR)
    return "█" * filled + "·" * (_BAR - filled)


def field_line(found: FieldResult) -> str:
    """One field on one line."""
    sure = "" if found.probability is None else f" ({found.probability:.1%})"
    return f"{found.name}={shown_value(found)!r}{sure}"


def text(decision: Decision) -> str:
    """One line per field: name, value, a bar and the probability; a multi field's options stand below it."""
    rows: list[tuple[str, str, float | None]] = []
    for name, found in decision.fields.items():
        rows.append((name, shown_value(found), found.probability))
        for option, result in (found.options or {}).items():
            rows.append((f"  {option}", "yes" if result.selected else "no", result.probability))
    widths = [max(len(name) for name, _, _ in rows), max(len(value) for _, value, _ in rows)]
    lines = ["Decision"]
    for name, value, p in rows:
        line = f"  {name:<{widths[0]}}  {value:<{widths[1]}}"
        lines.append(line.rstrip() if p is None else f"{line}  {bar(p)} {p:6.1%}")
    return "\n".join(lines)


def html(decision: Decision) -> str:
    """A table with a bar for every choice; everything from outside is escaped."""
    rows = []
    for name, found in decision.fields.items():
        shown = list(found.probabilities.items()) if found.type == "multi" else _ranked(found)
        head = f'<th rowspan="{max(1, len(shown))}">{escape(name)}</th>'
        value = f'<td rowspan="{max(1, len(shown))}"><b>{escape(shown_value(found))}</b></td>'
        for index, (choice, p) in enumerate(shown):
            first = head + value if index == 0 else ""
            rows.append(f"<tr>{first}<td>{escape(name_of(choice))}</td><td>{_html_bar(p)}</td><td>{p:.1%}</td></tr>")
    made = decision.provenance
    caption = escape(f"{made.model_id} · {made.prompt_version} · {made.scoring}")
    heads = "<tr><th>field</th><th>value</th><th>choice</th><th></th><th>probability</th></tr>"
    return f"<table><caption>{caption}</caption>{heads}{''.join(rows)}</table>"


def _ranked(found: FieldResult) -> list[tuple[Any, float]]:
    return [(alternative.choice, alternative.probability) for alternative in found.alternatives]


def _html_bar(p: float) -> str:
    return f'<div style="width:10em;background:#eee"><div style="width:{p:.1%};background:#4c78a8">&nbsp;</div></div>'
