"""Finding, fetching and converting models. Nothing here imports MLX."""

from __future__ import annotations

from .resolve import ModelSource, load_tokenizer, pull, resolve

__all__ = ["ModelSource", "load_tokenizer", "pull", "resolve"]
