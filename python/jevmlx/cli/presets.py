"""``jevmlx presets``: schemas to start from."""

from __future__ import annotations

from typing import Annotated

import typer

from . import complete


def presets(
    name: Annotated[
        str | None,
        typer.Argument(help="Print this one's JSON.", show_default=False, autocompletion=complete.schemas),
    ] = None,
    examples: Annotated[
        bool, typer.Option("--examples", help="Print its example contexts instead, as JSON Lines.")
    ] = False,
) -> None:
    """List the presets, or print one, to be changed."""
    from .. import presets as held

    if name is None:
        if examples:
            raise typer.BadParameter("name a preset to see its examples")
        for known in held.NAMES:
            typer.echo(known)
        return
    path = held.path(name)
    shown = path.with_suffix(".examples.jsonl") if examples else path
    typer.echo(shown.read_text("utf-8"), nl=False)
