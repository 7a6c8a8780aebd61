"""Many contexts: a stream of results in the order of the contexts, with the device kept busy."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._core import Schema
from .errors import JevmlxError, PromptError
from .merge import merged_forest, unmerged
from .options import Options
from .questions import Question
from .results import Decision, DecisionError
from .scoring.backend import BranchScores

if TYPE_CHECKING:
    from .engine import Engine

# Groups handed to the device ahead of the one whose results are awaited: it never waits for the tokenizer.
_AHEAD = 2
# Tokens that merged contexts may have together; attention costs grow with their square.
MERGE_TOKENS = 1024

Outcome = list[BranchScores] | JevmlxError


@dataclass(frozen=True)
class Item:
    """One context of the batch: its questions, or why there are none."""

    index: int
    questions: Sequence[Question]
    error: JevmlxError | None = None


def stream(
    engine: Engine, schema: Schema, contexts: Iterable[Any], options: Options
) -> Iterator[Decision | DecisionError]:
    """Results in order; closing the iterator drops what is queued and not started.

    Args:
        engine: The engine.
        schema: A schema that compiles.
        contexts: Texts, UTF-8 bytes, or lists of chat messages.
        options: Checked options.
    """
    items = (_prepare(engine, schema, index, context, options) for index, context in enumerate(contexts))
    groups = _groups(items) if options.merge else ([item] for item in items)
    pending: deque[tuple[list[Item], Future[list[Outcome]]]] = deque()
    try:
        for group in groups:
            pending.append((group, engine.submit(_score, engine, group, options)))
            if len(pending) >= _AHEAD:
                yield from _results(engine, *pending.popleft(), options)
        while pending:
            yield from _results(engine, *pending.popleft(), options)
    finally:
        for _, future in pending:
            future.cancel()


def _prepare(engine: Engine, schema: Schema, index: int, context: Any, options: Options) -> Item:
    try:
        if isinstance(context, bytes):
            context = context.decode("utf-8")
        if isinstance(context, str):
            return Item(index, engine.ask(schema, context, None, options))
        if isinstance(context, Sequence):
            return Item(index, engine.ask(schema, None, context, options))
        message = f"a context must be a text, UTF-8 bytes or a list of messages, not a {type(context).__name__}"
        return Item(index, (), PromptError("prompt.context", message, "context"))
    except UnicodeDecodeError as error:
        message = f"the context is not UTF-8: byte {error.start} cannot be read; re-encode it"
        return Item(index, (), PromptError("prompt.encoding", message, "context"))
    except JevmlxError as error:
        return Item(index, (), error)


def _groups(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Neighbours whose prompts start with the same tokens and that fit together."""
    group: list[Item] = []
    prefix: list[int] | None = None
    tokens = 0
    for item in items:
        size = 0
        if item.questions:
            question = item.questions[0]
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


def _score(engine: Engine, group: list[Item], options: Options) -> list[Outcome]:
    """One outcome per item with questions; runs on the device's thread."""
    asked = [item.questions for item in group if item.questions]
    if len(asked) > 1:
        try:
            first = asked[0][0]
            forest, parts = merged_forest([questions[0] for questions in asked])
            scores = engine.score(first.prompt.ids[: first.split], first.split, forest, options)
            return [[part] for part in unmerged(scores, parts)]
        except JevmlxError:
            # What one context did wrong is found by asking each alone.
            pass
    outcomes: list[Outcome] = []
    for questions in asked:
        try:
            outcomes.append(engine.score_questions(questions, options))
        except JevmlxError as error:
            outcomes.append(error)
    return outcomes


def _results(
    engine: Engine, group: list[Item], future: Future[list[Outcome]], options: Options
) -> Iterator[Decision | DecisionError]:
    outcomes = iter(future.result())
    merged = sum(bool(item.questions) for item in group)
    for item in group:
        outcome = next(outcomes) if item.questions else item.error
        if isinstance(outcome, JevmlxError):
            yield DecisionError(item.index, outcome.code, outcome.message, outcome.path)
        elif outcome is not None:
            yield engine.decision(item.questions, outcome, options, merged if merged > 1 else 0)
