"""The command line: ``jevmlx``."""

from .app import main

__all__ = ["main"]
