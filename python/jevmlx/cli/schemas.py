"""The schema that a command is given: a file, a preset, or a class in a module."""

from __future__ import annotations

import operator
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import presets
from ..errors import JevmlxError

if TYPE_CHECKING:
    from ..inputs import SchemaInput

_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def load(name: str) -> SchemaInput:
    """A schema by its name on the command line.

    Args:
        name: A preset; ``module:Class`` (the working folder is searched first); or a JSON file. ``./name`` is always a file.

    Raises:
        JevmlxError: ``input.class``; ``schema.input.file``; or what is wrong with the schema.
    """
    from ..inputs import schema_of

    if name in presets.NAMES:
        return schema_of(presets.path(name))
    path = Path(name)
    if _CLASS.fullmatch(name) and not path.exists():
        return schema_of(_object(name))
    try:
        missing = not path.exists()
    except (OSError, ValueError):
        # A name too long for any file, or with a NUL: reading it says so.
        missing = False
    if missing:
        known = ", ".join(presets.NAMES)
        message = f"{name!r} is no file, no preset ({known}), and no module:Class; name one of these"
        raise JevmlxError("schema.input.file", message)
    return schema_of(path)


def _object(name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    # A script in bin/ does not look for modules in the working folder; `python -m` does.
    if os.getcwd() not in sys.path:  # noqa: PTH109 - as Python writes it there
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:
        # A module may raise whatever it likes.
        message = (
            f"{module_name} cannot be imported: {type(error).__name__}: {error}; it is looked for in the working folder and among "
            "the installed packages"
        )
        raise JevmlxError("input.class", message, name) from error
    try:
        return operator.attrgetter(attribute)(module)
    except AttributeError as error:
        message = f"there is no {attribute} in {module_name}; name a pydantic model, a dataclass or a TypedDict in it"
        raise JevmlxError("input.class", message, name) from error
