"""The slow, obvious scorer: one full forward pass per node of each candidate's path, no cache, no batch, full softmax."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import numpy as np

Row = tuple[list[int], list[list[int]]]  # (shared ids with the lead-in, remainders)


def rows_of(plan: dict[str, Any]) -> list[tuple[str, str, Row]]:
    """(field, row, tokens) of every row of a plan, in plan order."""
    lead_in = plan["lead_in_ids"]
    rows = []
    for name, spec in plan["fields"].items():
        if "options" in spec:
            for code, shared, remainders in zip(
                spec["codes"], spec["suffix_ids_list"], spec["remainders"], strict=True
            ):
                rows.append((name, code, (lead_in + shared, remainders)))
            count = spec["count"]
            rows.append((name, "count", (lead_in + count["shared_ids"], count["remainders"])))
        else:
            rows.append((name, "", (lead_in + spec["shared_ids"], spec["remainders"])))
    return rows


def next_logits(model: Any, ids: list[int]) -> np.ndarray:
    """Logits of the next token over the whole vocabulary, float64."""
    out = model(mx.array([ids]))[0, -1].astype(mx.float32)
    return np.asarray(out).astype(np.float64)


def score_row(model: Any, prompt: list[int], row: Row) -> tuple[list[float], list[float], list[float]]:
    """Log score, product and least of the legal masses of each candidate of a row."""
    shared, remainders = row
    scores, masses, least = [], [], []
    known: dict[tuple[int, ...], np.ndarray] = {}
    for remainder in remainders:
        score, mass, smallest = 0.0, 1.0, 1.0
        for depth in range(len(remainder)):
            allowed = sorted({r[depth] for r in remainders if r[:depth] == remainder[:depth] and len(r) > depth})
            if len(allowed) == 1:
                continue
            path = tuple(remainder[:depth])
            if path not in known:
                known[path] = next_logits(model, prompt + shared + list(path))
            logits = known[path]
            among = _log_sum_exp(logits[allowed])
            score += logits[remainder[depth]] - among
            here = math.exp(among - _log_sum_exp(logits))
            mass *= here
            smallest = min(smallest, here)
        scores.append(score)
        masses.append(mass)
        least.append(smallest)
    return scores, masses, least


def _log_sum_exp(values: np.ndarray) -> float:
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))
