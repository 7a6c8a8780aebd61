"""The commands of ``jevmlx``. What a command needs is imported when it runs, so that help and completion are quick."""

from __future__ import annotations

import os
from typing import Annotated, NoReturn

import typer

from . import exits, questions
from .audit import audit
from .calibrate import calibrate
from .doctor import doctor
from .explain import explain
from .models import models
from .presets import presets
from .serve import serve
from .shared import expanded
from .validate import validate

# transformers would say that its own models need PyTorch; none of them is used here.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

app = typer.Typer(
    name="jevmlx",
    cls=exits.Commands,
    help="Typed decisions from a local language model.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    # Help in rich's frames takes 0.2 s to import.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (
    *(questions.decide, questions.choose, questions.judge, questions.rate, questions.ask),
    *(validate, explain, serve, calibrate, presets, doctor),
):
    app.command()(expanded(command))
app.add_typer(models, name="models")
app.add_typer(audit, name="audit")


def _version(asked: bool) -> None:
    if asked:
        from .. import __version__

        typer.echo(f"jevmlx {__version__}")
        raise typer.Exit


@app.callback()
def options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Typed decisions from a local language model."""


def main() -> NoReturn:
    """The entry point."""
    exits.run(app)
