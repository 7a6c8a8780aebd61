"""The command line: ``jevmlx``."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """The entry point; the commands are imported here, so that Ctrl-C is quiet meanwhile too."""
    try:
        from .app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
