"""``jevmlx models``: what is on this machine, fetching, verifying and removing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from . import complete
from .exits import AT_FAULT
from .progress import bar
from .shared import JsonOption, RevisionOption

if TYPE_CHECKING:
    from ..models.held import Held

models = typer.Typer(
    help="Models on this machine: list, fetch, verify, remove.", no_args_is_help=True, rich_markup_mode=None
)

ModelArgument = Annotated[
    str, typer.Argument(help="'embedded' or a hub id.", show_default=False, autocompletion=complete.models)
]


@models.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """List the models on this machine."""
    from ..models.held import held

    found = held()
    if as_json:
        typer.echo(json.dumps([_plain(one) for one in found], ensure_ascii=False, indent=2))
        return
    for one in found:
        typer.echo(f"{one.model}  {one.revision}  {_shown(one.size)}  {one.path}")
    if not found:
        typer.echo("no models; `jevmlx models pull embedded` fetches a small one", err=True)


@models.command()
def pull(model: ModelArgument, revision: RevisionOption = None) -> None:
    """Fetch a model, so that later use needs no network."""
    from ..models import pull as fetch
    from ..models.held import EMBEDDED

    # The hub's library shows a bar of its own.
    with bar("fetching", at_once=True) if model == EMBEDDED else nullcontext():
        source = fetch(model, revision=revision, progress=lambda line: typer.echo(line, err=True))
    typer.echo(f"{source.model_id} is ready in {source.path}")
    if source.revision:
        typer.echo(f"revision {source.revision}")


@models.command()
def verify(model: ModelArgument, revision: RevisionOption = None, as_json: JsonOption = False) -> None:
    """Hash a model's files, and compare with the hashes they were fetched by. Exits with 1 where one differs."""
    from ..models.held import find
    from ..models.held import verify as verify_held

    wrong = False
    found = []
    for one in find(model, revision):
        with bar("hashing", in_bytes=True) as update:
            files = verify_held(one, update)
        states = {file.name: file.state for file in files}
        wrong |= not files or any(state in ("damaged", "missing") for state in states.values())
        found.append({**_plain(one), "files": states})
        if not as_json:
            _print(one, states)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
    if wrong:
        typer.echo("fetch it again: `jevmlx models remove` it, then `jevmlx models pull`", err=True)
        raise typer.Exit(AT_FAULT)


@models.command()
def remove(
    model: ModelArgument,
    revision: RevisionOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a model from this machine: all its revisions, or one."""
    from ..models.held import find
    from ..models.held import remove as remove_held

    found = find(model, revision)
    if not yes:
        for one in found:
            typer.echo(f"{one.model}  {one.revision}  {_shown(one.size)}", err=True)
        if not sys.stdin.isatty():
            raise typer.BadParameter("nobody is there to ask; pass --yes")
        if not typer.confirm("Remove?", err=True):
            typer.echo("nothing was removed", err=True)
            return
    for one in found:
        remove_held(one)
        typer.echo(f"removed {one.model} {one.revision}")


def _print(one: Held, states: Mapping[str, str]) -> None:
    typer.echo(f"{one.model}  {one.revision}")
    for name, state in states.items():
        typer.echo(f"  {state:8} {name}")


def _plain(one: Held) -> dict[str, object]:
    return {"model": one.model, "revision": one.revision, "bytes": one.size, "path": str(one.path)}


def _shown(size: int) -> str:
    return f"{size / 1e6:.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"
