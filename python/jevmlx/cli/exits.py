"""How a command ends: what it prints to standard error, and its exit code.

0 fine, 1 the input is at fault (one readable message), 2 usage, 130 interrupted, 141 the reader of a pipe went away.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from ..errors import JevmlxError

AT_FAULT = 1
INTERRUPTED = 130
# 128 + SIGPIPE, as of any program whose reader went away.
PIPE_CLOSED = 141


class Commands(TyperGroup):
    """Commands whose errors are messages."""

    def invoke(self, ctx: Any) -> Any:
        """Runs a command.

        Raises:
            typer.Exit: With the exit code, where it did not end well.
        """
        try:
            found = super().invoke(ctx)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError as error:
            drop_stdout()
            raise typer.Exit(PIPE_CLOSED) from error
        except KeyboardInterrupt as error:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            if hasattr(error, "exit_code"):
                # Typer's own, for usage.
                raise
            _say(error, verbose=bool(ctx.params.get("verbose")))
            raise typer.Exit(AT_FAULT) from error
        return found


def _say(error: Exception, *, verbose: bool) -> None:
    if verbose:
        traceback.print_exception(error)
    elif isinstance(error, JevmlxError):
        typer.echo(f"error: {error}", err=True)
    elif isinstance(error, OSError) and error.strerror:
        # A full disk, as a rule: files that are named on the command line have messages of their own.
        what = f"{error.filename!r} cannot be used" if error.filename else "the output cannot be written"
        typer.echo(f"error: {what}: {error.strerror} [input.file]", err=True)
    else:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        typer.echo(f"error: unexpected {what}; `jevmlx -v …` shows where, for a bug report", err=True)


def drop_stdout() -> None:
    """Sends the rest of standard output nowhere, so that Python does not complain when it is flushed at exit."""
    # A stream without a file, as in a test, needs nothing.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(app: typer.Typer) -> NoReturn:
    """Runs the whole command line and ends the process."""
    _set_encoding()
    try:
        try:
            app()
        finally:
            # Help is printed before any command is invoked.
            sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
        sys.exit(PIPE_CLOSED)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            drop_stdout()
            sys.exit(PIPE_CLOSED)
        raise
    except OSError as error:
        drop_stdout()
        _say(error, verbose=False)
        sys.exit(AT_FAULT)
    sys.exit(0)


def _set_encoding() -> None:
    """JSON in a pipe or a file is UTF-8 whatever the locale; a terminal shows what it can."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is None:
        return
    if sys.stdout.isatty():
        reconfigure(errors="replace")
    else:
        reconfigure(encoding="utf-8")
