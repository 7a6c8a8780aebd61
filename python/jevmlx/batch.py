"""Many contexts: a stream of results in the order of the contexts, with the device kept busy."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .asking import Asking
from .deciding import Deciding
from .errors import JevmlxError, PromptError
from .merge import merged_forest, unmerged
from .questions import Asked
from .results import Decision, DecisionError

if TYPE_CHECKING:
    from .engine import Engine

# Groups handed to the device ahead of the one whose results are awaited: it never waits for the tokenizer.
_AHEAD = 2
# Tokens that merged contexts may have together; attention costs grow with their square.
MERGE_TOKENS = 1024

Outcome = Deciding | JevmlxError


@dataclass(frozen=True)
class Item:
    """One context of the batch: what is asked about it, or why nothing is."""

    index: int
    context: Any
    asked: Asked | JevmlxError


def stream(engine: Engine, asking: Asking, contexts: Iterable[Any]) -> Iterator[Decision | DecisionError]:
    """Results in order; closing the iterator drops what is queued and not started.

    Args:
        engine: The engine.
        asking: A schema that compiles, and checked options.
        contexts: Texts, UTF-8 bytes, or lists of chat messages.
    """
    items = (Item(index, context, _ask(engine, asking, context)) for index, context in enumerate(contexts))
    groups = _groups(items) if asking.options.merge else ([item] for item in items)
    pending: deque[tuple[list[Item], Future[list[Outcome]]]] = deque()
    try:
        for group in groups:
            pending.append((group, engine.submit(_score, engine, asking, group)))
            if len(pending) >= _AHEAD:
                yield from _results(engine, asking, *pending.popleft())
        while pending:
            yield from _results(engine, asking, *pending.popleft())
    finally:
        for _, future in pending:
            future.cancel()


def _ask(engine: Engine, asking: Asking, context: Any) -> Asked | JevmlxError:
    try:
        if isinstance(context, bytes):
            context = context.decode("utf-8")
        if isinstance(context, str):
            return engine.ask(asking, context, None)
        if isinstance(context, Sequence):
            return engine.ask(asking, None, context)
        message = f"a context must be a text, UTF-8 bytes or a list of messages, not a {type(context).__name__}"
        return PromptError("prompt.context", message, "context")
    except UnicodeDecodeError as error:
        message = f"the context is not UTF-8: byte {error.start} cannot be read; re-encode it"
        return PromptError("prompt.encoding", message, "context")
    except JevmlxError as error:
        return error


def _groups(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Neighbours whose prompts start with the same tokens and that fit together."""
    group: list[Item] = []
    prefix: list[int] | None = None
    tokens = 0
    for item in items:
        size = 0
        if isinstance(item.asked, Asked):
            question = item.asked.first
            own = question.prompt.ids[: question.split]
            size = len(question.prompt.ids) - question.split + len(question.compiled.forest.tokens)
            if group and (tokens + size > MERGE_TOKENS or (prefix is not None and prefix != own)):
                yield group
                group, tokens = [], 0
            prefix = own
        group.append(item)
        tokens += size
    if group:
        yield group


def _score(engine: Engine, asking: Asking, group: list[Item]) -> list[Outcome]:
    """One outcome per item; runs on the device's thread."""
    all_asked = [item.asked for item in group if isinstance(item.asked, Asked)]
    if len(all_asked) > 1:
        try:
            merged = iter(_score_merged(engine, asking, all_asked))
            return [item.asked if isinstance(item.asked, JevmlxError) else next(merged) for item in group]
        except JevmlxError:
            # What one context did wrong is found by asking each alone.
            pass
    return [_score_alone(engine, asking, item.asked) for item in group]


def _score_alone(engine: Engine, asking: Asking, asked: Asked | JevmlxError) -> Outcome:
    if isinstance(asked, JevmlxError):
        return asked
    try:
        return engine.score_asked(asking, asked)
    except JevmlxError as error:
        return error


def _score_merged(engine: Engine, asking: Asking, all_asked: Sequence[Asked]) -> list[Deciding]:
    first = all_asked[0].first
    forest, parts = merged_forest([asked.first for asked in all_asked])
    scores = engine.score(first.prompt.ids[: first.split], first.split, forest, asking.options)
    outcomes = []
    for asked, part in zip(all_asked, unmerged(scores, parts), strict=True):
        outcomes.append(Deciding(asked, asking.options, asking.cases, merged=len(all_asked)))
        outcomes[-1].hold(0, [(None, part)])
    return outcomes


def _results(
    engine: Engine, asking: Asking, group: list[Item], future: Future[list[Outcome]]
) -> Iterator[Decision | DecisionError]:
    for item, outcome in zip(group, future.result(), strict=True):
        result = _result(engine, asking, item.index, outcome)
        text = item.context if isinstance(item.context, (str, bytes)) else None
        engine.record(asking, text, None if text is not None else item.context, result)
        yield result


def _result(engine: Engine, asking: Asking, index: int, outcome: Outcome) -> Decision | DecisionError:
    try:
        if isinstance(outcome, JevmlxError):
            raise outcome
        return engine.decision(asking, outcome)
    except JevmlxError as error:
        return DecisionError(index=index, code=error.code, message=error.message, path=error.path)
