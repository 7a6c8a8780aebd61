"""``jevmlx audit``: whether a log is whole, and whether its decisions come out the same again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .progress import bar
from .shared import JsonOption, ModelOption, RevisionOption

if TYPE_CHECKING:
    from ..audit import Replayed

audit = typer.Typer(
    help="Audit logs: verify them, and make their decisions again.", no_args_is_help=True, rich_markup_mode=None
)

LogArgument = Annotated[Path, typer.Argument(help="The log; its full files are found beside it.", show_default=False)]

# A different model differs everywhere; the first places say what kind of difference it is.
_SHOWN = 5


@audit.command()
def verify(
    log: LogArgument,
    expect: Annotated[str | None, typer.Option(help="Hash of a line that must be there.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check every line of a log, and name the first one that is broken."""
    from ..audit import verify as verify_log

    found = verify_log(log, expect=expect)
    broken = found.first_broken
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
    elif broken is not None:
        typer.echo(f"broken: {broken}")
    else:
        torn = f"; {found.torn_bytes} bytes of an unfinished line after them" if found.torn_bytes else ""
        typer.echo(f"ok: {found.lines} line(s) in {found.files} file(s), last hash {found.last_hash}{torn}")
    raise typer.Exit(0 if found.ok else 1)


@audit.command()
def replay(
    log: LogArgument,
    model: ModelOption = "embedded",
    revision: RevisionOption = None,
    calibration: Annotated[
        list[Path] | None, typer.Option(help="A calibration that was used; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines, one a decision.")] = False,
) -> None:
    """Make every recorded decision again, and name every bit that differs. Exits with 1 where one does."""
    from .. import load
    from ..audit import replay as replay_log

    counts: Counter[str] = Counter()
    engine = load(model, revision=revision)
    with bar("replaying", beside_stdout=True) as update:
        for found in replay_log(log, engine, calibrations=calibration or ()):
            counts[found.status] += 1
            update(counts.total(), None)
            if as_json:
                typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
            elif found.status != "same":
                _print(found)
    if not as_json:
        typer.echo(f"{counts['same']} the same, {counts['different']} different, {counts['skipped']} not replayed")
    raise typer.Exit(1 if counts["different"] else 0)


def _print(found: Replayed) -> None:
    reason = f": {found.reason}" if found.reason else ""
    typer.echo(f"{found.file}, line {found.line}: {found.status}{reason}")
    for difference in found.differences[:_SHOWN]:
        typer.echo(f"  {difference.path}: {difference.recorded} → {difference.replayed}")
    if len(found.differences) > _SHOWN:
        typer.echo(f"  and {len(found.differences) - _SHOWN} more; --json shows all")
