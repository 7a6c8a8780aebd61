"""How often the order of the choices decides: the same questions with their choices moved, counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .checks import is_whole
from .errors import ConfigError
from .inputs import schema_of
from .results import Decision

if TYPE_CHECKING:
    from .engine import Engine


@dataclass(frozen=True)
class FlipRate:
    """How often an answer changed with the order.

    Attributes:
        contexts: Contexts that were decided in every order.
        refused: Contexts that could not be.
        flips: Field → contexts whose answer was not the same in all orders; unordered enums of two choices or more.
    """

    contexts: int
    refused: int
    flips: Mapping[str, int]

    @property
    def rates(self) -> dict[str, float]:
        """Field → share of contexts whose answer flipped; 0 where there were none."""
        return {name: count / self.contexts if self.contexts else 0.0 for name, count in self.flips.items()}


def flip_rate(engine: Engine, schema: Any, contexts: Iterable[str], *, rotations: int = 2, **options: Any) -> FlipRate:
    """Decides every context with the choices in several orders, and counts the answers that change.

    Compare it with and without ``permutations=k`` to see what debiasing does for a model.

    Args:
        engine: The model.
        schema: What is asked, in any form.
        contexts: Texts.
        rotations: Orders to compare: the choices moved by ⌊j·n/rotations⌋ places, j from 0.
        **options: See :class:`jevmlx.DecideOptions`.

    Raises:
        ConfigError: ``config.rotations``: fewer than two.
        JevmlxError: Schema or options are at fault.
    """
    if not is_whole(rotations, 2):
        message = (
            f"rotations is {rotations!r}; a whole number from 2 is needed, since one order has nothing to differ from"
        )
        raise ConfigError("config.rotations", message, "rotations")
    parsed = schema_of(schema).schema
    texts = list(contexts)
    orders = [parsed, *(parsed.rotated(step, rotations) for step in range(1, rotations))]
    found = [list(engine.decide_many(order, texts, **options)) for order in orders]
    names = [spec.name for spec in parsed.fields if spec.type == "enum" and not spec.ordered and len(spec.choices) > 1]
    flips = dict.fromkeys(names, 0)
    decided = 0
    for results in zip(*found, strict=True):
        decisions = [result for result in results if isinstance(result, Decision)]
        if len(decisions) < len(results):
            continue
        decided += 1
        for name in names:
            # By the choice: in another order "none of the above" is one like any other, and no None.
            scores = [decision[name].log_scores for decision in decisions]
            flips[name] += len({max(found, key=found.__getitem__) for found in scores}) > 1
    return FlipRate(decided, len(texts) - decided, flips)
