"""What shell completion offers; nothing heavy is imported while a user waits at a prompt."""

from __future__ import annotations

import os
from pathlib import Path

from .. import presets


def schemas(incomplete: str) -> list[str]:
    """Presets; the shell adds files where none fits."""
    return [name for name in presets.NAMES if name.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """The embedded model, and the models in the hub's cache."""
    names = ["embedded", *_cached()]
    return [name for name in names if name.startswith(incomplete)]


def _cached() -> list[str]:
    """Hub ids by the folders' names, as huggingface_hub finds its cache."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()
    try:
        found = sorted(path.name for path in cache.iterdir() if path.name.startswith("models--"))
    except OSError:
        return []
    return [name.removeprefix("models--").replace("--", "/", 1) for name in found]
