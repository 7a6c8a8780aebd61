"""An append-only record of decisions that shows when it was changed.

A log is JSON Lines. Each line ends in its own SHA-256 and holds that of the line before it, so that no line can be changed,
removed, inserted or moved without breaking the chain; only the end can be cut off. See ``docs/audit.md``.
"""

from __future__ import annotations

from .chain import Broken
from .log import AuditLog
from .replaying import Difference, Replayed, replay
from .verification import Verification, verify

__all__ = ["AuditLog", "Broken", "Difference", "Replayed", "Verification", "replay", "verify"]
