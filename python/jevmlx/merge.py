"""Several contexts in one forward pass: their tokens become branches of one forest after the prefix they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .questions import Question
from .scoring.backend import BranchScores
from .scoring.forest import TokenForest

# Allowed tokens and branches of one question among the merged ones.
Part = tuple[slice, slice]


def merged_forest(questions: Sequence[Question]) -> tuple[TokenForest, list[Part]]:
    """One forest under the shared prefix: for each question the rest of its prompt as a chain, then its rows.

    Returns:
        The forest, and which part of the results belongs to each question.
    """
    columns: dict[str, list[np.ndarray]] = {name: [] for name in TokenForest.__dataclass_fields__}
    parts: list[Part] = []
    nodes = entries = branches = 0
    for question in questions:
        rest = np.asarray(question.prompt.ids[question.split :], np.int32)
        forest = question.compiled.forest
        chain = np.arange(len(rest), dtype=np.int32)
        last = nodes + len(rest) - 1
        rows = nodes + len(rest)
        columns["tokens"] += [rest, forest.tokens]
        columns["parents"] += [np.where(chain > 0, chain - 1 + nodes, -1), _moved(forest.parents, rows, last)]
        columns["depths"] += [chain, forest.depths + len(rest)]
        columns["branch_nodes"].append(_moved(forest.branch_nodes, rows, last))
        columns["branch_offsets"].append(forest.branch_offsets[:-1] + entries)
        columns["branch_tokens"].append(forest.branch_tokens)
        parts.append(
            (slice(entries, entries + len(forest.branch_tokens)), slice(branches, branches + len(forest.branch_nodes)))
        )
        nodes += len(rest) + len(forest.tokens)
        entries += len(forest.branch_tokens)
        branches += len(forest.branch_nodes)
    columns["branch_offsets"].append(np.array([entries]))
    return TokenForest(**{name: np.concatenate(column).astype(np.int32) for name, column in columns.items()}), parts


def _moved(nodes: np.ndarray, by: int, root: int) -> np.ndarray:
    """Node numbers in the merged forest; what hung on the prompt's end hangs on the chain's."""
    return np.where(nodes < 0, root, nodes + by)


def unmerged(scores: BranchScores, parts: Sequence[Part]) -> list[BranchScores]:
    """Each question's part of the results; times and tokens are shared out evenly."""
    share = scores.stats.share(len(parts))
    return [
        replace(
            scores,
            logits=scores.logits[entries],
            log_z=None if scores.log_z is None else scores.log_z[branches],
            stats=share,
        )
        for entries, branches in parts
    ]
