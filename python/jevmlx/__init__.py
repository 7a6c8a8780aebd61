"""Typed decisions from a local language model.

A schema says what may be answered, the model scores every allowed answer by its logits, and typed values with probabilities
come out. Importing this package loads neither a model library nor a tokenizer; ``jevmlx.load`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core import PROMPT_VERSION, Field, Plan, Schema, __version__, context_nonce, token_ids_sha256
from .errors import (
    AuditError,
    CalibrationError,
    CompileError,
    ConfigError,
    ConstraintError,
    JevmlxError,
    ModelError,
    PromptError,
    SchemaError,
    TokenizerError,
)
from .profiles import Profile, resolve_profile
from .prompts import Prompt, compile_plan, render_prompt

if TYPE_CHECKING:
    from .engine import Engine, load
    from .flips import FlipRate, flip_rate
    from .inputs import SchemaInput, schema_of
    from .options import DecideOptions
    from .policy import Threshold
    from .results import Decision, DecisionError, FieldResult

__all__ = [
    "PROMPT_VERSION",
    "AuditError",
    "CalibrationError",
    "CompileError",
    "ConfigError",
    "ConstraintError",
    "DecideOptions",
    "Decision",
    "DecisionError",
    "Engine",
    "Field",
    "FieldResult",
    "FlipRate",
    "JevmlxError",
    "ModelError",
    "Plan",
    "Profile",
    "Prompt",
    "PromptError",
    "Schema",
    "SchemaError",
    "SchemaInput",
    "Threshold",
    "TokenizerError",
    "__version__",
    "compile_plan",
    "context_nonce",
    "flip_rate",
    "load",
    "render_prompt",
    "resolve_profile",
    "schema_of",
    "token_ids_sha256",
]

# Loaded on first use: they bring numpy, and with a model MLX and transformers.
_LAZY = {
    "Engine": "engine",
    "load": "engine",
    "Decision": "results",
    "DecisionError": "results",
    "FieldResult": "results",
    "DecideOptions": "options",
    "FlipRate": "flips",
    "flip_rate": "flips",
    "SchemaInput": "inputs",
    "schema_of": "inputs",
    "Threshold": "policy",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
