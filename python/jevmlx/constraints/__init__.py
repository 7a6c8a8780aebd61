"""Constraints on answers, solved exactly: between the options of a multi field, and between fields.

Scores are whole micro-nats, every answer is proven best, ties have one outcome, and a problem too hard to prove is an error.
"""

from __future__ import annotations

from .cases import CaseProgram, CaseSolution
from .micro import MICRO_LIMIT, micro_nats
from .sets import SetProgram
from .solver import WORK_LIMIT

__all__ = ["MICRO_LIMIT", "WORK_LIMIT", "CaseProgram", "CaseSolution", "SetProgram", "micro_nats"]
