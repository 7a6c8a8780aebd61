"""Commands, options and exit codes.

Exit codes: 0 fine, 1 the input is at fault (one readable message), 2 usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..errors import JevmlxError
from .audit import audit

# transformers would say that its own models need PyTorch; none of them is used here.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

app = typer.Typer(
    name="jevmlx",
    help="Typed decisions from a local language model.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
models = typer.Typer(help="Models: fetch them ahead of use.", no_args_is_help=True)
app.add_typer(models, name="models")
app.add_typer(audit, name="audit")

SchemaArgument = Annotated[Path, typer.Argument(help="Schema file (JSON).", show_default=False)]
TextArgument = Annotated[
    str | None, typer.Argument(help="The text to decide on; else --file or standard input.", show_default=False)
]
FileOption = Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from a file.")]
ModelOption = Annotated[str, typer.Option("--model", "-m", help="'embedded', a folder, or a hub id.")]
RevisionOption = Annotated[str | None, typer.Option(help="Hub revision of the model.")]
ScoringOption = Annotated[str, typer.Option(help="'labels' or 'slots'.")]
TemperatureOption = Annotated[float | None, typer.Option(help="What log scores are divided by; 1 by default.")]
CalibrationOption = Annotated[Path | None, typer.Option(help="A calibration that `jevmlx calibrate` wrote.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_state = {"verbose": False}


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    _state["verbose"] = verbose
    if version:
        from .. import __version__

        typer.echo(f"jevmlx {__version__}")
        raise typer.Exit


@app.command()
def decide(
    schema: SchemaArgument,
    text: TextArgument = None,
    file: FileOption = None,
    model: ModelOption = "embedded",
    revision: RevisionOption = None,
    scoring: ScoringOption = "labels",
    temperature: TemperatureOption = None,
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide every field of a schema for a text, and print values with probabilities."""
    from .. import load, schema_of
    from . import show

    given = schema_of(_read(schema, "schema"))
    context = _context(text, file)
    engine = load(model, revision=revision)
    decision = engine.decide(given, context, scoring=scoring, temperature=temperature, calibration=calibration)
    if as_json:
        typer.echo(decision.to_json(indent=2))
    else:
        show.decision(decision)


@app.command()
def batch(
    schema: SchemaArgument,
    source: Annotated[Path, typer.Argument(help='JSON Lines, one {"context": …} or {"messages": …} a line.')],
    target: Annotated[Path, typer.Argument(help="JSON Lines to write, one decision or error record a line.")],
    model: ModelOption = "embedded",
    revision: RevisionOption = None,
    scoring: ScoringOption = "labels",
    temperature: TemperatureOption = None,
    calibration: CalibrationOption = None,
    isolate: Annotated[bool, typer.Option(help="Ask every field alone.")] = False,
    merge: Annotated[bool, typer.Option(help="Let contexts share forward passes; last digits may differ.")] = False,
    overflow: Annotated[str, typer.Option(help="'error', 'keep_head' or 'keep_tail'.")] = "error",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the output ends.")] = False,
) -> None:
    """Decide every line of a file. A bad line becomes an error record; an interrupted run can be resumed."""
    from .. import Schema, load
    from .batch import run

    parsed = Schema(_read(schema, "schema"))
    if target.exists() and not resume:
        raise typer.BadParameter(f"{target} exists; pass --resume to go on with it, or name another file")
    options = {
        "scoring": scoring,
        "temperature": temperature,
        "calibration": calibration,
        "isolate": isolate,
        "merge": merge,
        "overflow": overflow,
    }
    engine = load(model, revision=revision)
    decided, failed = run(engine, parsed, source, target, resume=resume, options=options)
    typer.echo(f"{decided} decided, {failed} of them error records, in {target}")


@app.command()
def explain(
    schema: SchemaArgument,
    text: TextArgument = None,
    file: FileOption = None,
    model: ModelOption = "embedded",
    revision: RevisionOption = None,
    scoring: ScoringOption = "labels",
    as_json: JsonOption = False,
) -> None:
    """Show exactly what the model is given: prompt, plan, rows and hashes. No model weights are loaded."""
    from . import show
    from .explain import explanation

    found = explanation(_read(schema, "schema"), _context(text, file), model, revision, scoring)
    if as_json:
        show.json_data(found)
    else:
        show.explanation(found)


@app.command()
def calibrate(
    schema: SchemaArgument,
    data: Annotated[Path, typer.Argument(help='JSON Lines, one {"context": …, "labels": {field: value}} a line.')],
    out: Annotated[Path, typer.Option("--out", "-o", help="The calibration to write.")],
    model: ModelOption = "embedded",
    revision: RevisionOption = None,
    scoring: ScoringOption = "labels",
    held_out: Annotated[float, typer.Option(help="Share of the examples to report on, not to fit on.")] = 0.3,
    figure: Annotated[Path | None, typer.Option(help="Reliability diagrams: a .png, .svg or .pdf to write.")] = None,
) -> None:
    """Fit temperatures on labelled examples, and report what they do on held-out ones."""
    from .calibrate import run

    run(
        schema,
        data,
        out,
        model=model,
        revision=revision,
        scoring=scoring,
        held_out=held_out,
        figure=figure,
    )


@models.command("pull")
def pull(
    model: Annotated[str, typer.Argument(help="'embedded' or a hub id.")],
    revision: RevisionOption = None,
) -> None:
    """Fetch a model, so that later use needs no network."""
    from ..models import pull as pull_model

    source = pull_model(model, revision=revision)
    typer.echo(f"{source.model_id} is ready in {source.path}")


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """Say what this machine runs on: versions, device, BLAS. This is what a bug report needs."""
    from . import show
    from .doctor import report

    found = report()
    if as_json:
        show.json_data(found)
    else:
        show.report(found)


def _read(path: Path, what: str) -> str:
    """A file's text.

    Raises:
        JevmlxError: It cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise JevmlxError(
            "input.encoding", f"the {what} is not UTF-8: byte {error.start} cannot be read; save it as UTF-8", str(path)
        ) from error
    except OSError as error:
        raise JevmlxError("input.file", f"the {what} cannot be read: {error.strerror}", str(path)) from error


def _context(text: str | None, file: Path | None) -> str:
    if text is not None and file is not None:
        raise typer.BadParameter("give the text or --file, not both")
    if text is not None:
        return text
    if file is not None:
        return _read(file, "text")
    if sys.stdin.isatty():
        raise typer.BadParameter("give a text, --file, or pipe a text in")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise JevmlxError(
            "input.encoding", f"standard input is not UTF-8: byte {error.start} cannot be read"
        ) from error


def main() -> NoReturn:
    """The entry point: runs the command line and turns errors into messages and exit codes."""
    try:
        # Standalone mode would print a usage error in a frame of its own and exit; the codes are the same.
        app()
    except JevmlxError as error:
        _fail(error)
    except KeyboardInterrupt:
        typer.echo("interrupted; what was finished is kept", err=True)
        sys.exit(130)
    sys.exit(0)


def _fail(error: JevmlxError) -> NoReturn:
    if _state["verbose"]:
        traceback.print_exception(error)
    else:
        typer.echo(f"error: {error}", err=True)
    sys.exit(1)
