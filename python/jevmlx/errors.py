"""The one family of errors.

Every error carries a stable ``code`` (see ``docs/errors.md``), a ``message`` that says what was wrong, what is allowed and
what to do, and the ``path`` of the offending part of the input (``field.key[index]``; empty where there is none).
"""

from __future__ import annotations


class JevmlxError(Exception):
    """Base of every error this package raises on purpose.

    Attributes:
        code: Stable, dotted identifier, for instance ``"schema.choices.duplicate"``.
        message: One readable sentence or two.
        path: Where in the input, as ``field.key[index]``; empty where there is no place.
    """

    def __init__(self, code: str, message: str, path: str = "") -> None:
        super().__init__(code, message, path)
        self.code = code
        self.message = message
        self.path = path

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        return f"{self.message} [{self.code}{where}]"


class SchemaError(JevmlxError, ValueError):
    """The schema itself is at fault."""


class CompileError(SchemaError):
    """The schema is sound, but this tokenizer cannot tell its answers apart."""


class TokenizerError(JevmlxError, ValueError):
    """The tokenizer raised, or returned something that is not a list of token ids per text."""


class PromptError(JevmlxError, ValueError):
    """Context, messages or chat template cannot be rendered to a prompt."""


class ModelError(JevmlxError):
    """A model cannot be found, loaded, converted or run."""


class ConfigError(JevmlxError, ValueError):
    """An argument or option is at fault."""


class ConstraintError(JevmlxError, ValueError):
    """Constraints that no answer satisfies, or that could not be solved exactly within the limit."""


class CalibrationError(JevmlxError, ValueError):
    """Labelled data that nothing can be fitted to, or a calibration made for something else."""


class AuditError(JevmlxError):
    """An audit log that cannot be written, read or trusted."""
