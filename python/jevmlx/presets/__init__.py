"""Schemas to start from, each with a few example contexts.

They are plain JSON in this folder, to be copied and changed: measure your own version on your own labelled examples.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import ConfigError

NAMES = ("support-triage", "content-moderation", "credit-risk")

_FOLDER = Path(__file__).parent


def path(name: str) -> Path:
    """The JSON file of a preset's schema.

    Raises:
        ConfigError: ``config.preset``: there is no such preset.

    Example:
        >>> path("credit-risk").name
        'credit-risk.json'
    """
    if name not in NAMES:
        raise ConfigError("config.preset", f"{name!r} is no preset; there are {', '.join(NAMES)}", "preset")
    return _FOLDER / f"{name}.json"


def schema_text(name: str) -> str:
    """A preset's schema as JSON text.

    Raises:
        ConfigError: ``config.preset``.
    """
    return path(name).read_text("utf-8")


def contexts(name: str) -> list[str]:
    """A preset's example contexts.

    Raises:
        ConfigError: ``config.preset``.

    Example:
        >>> len(contexts("support-triage")) >= 3
        True
    """
    lines = path(name).with_suffix(".examples.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["context"] for line in lines]
