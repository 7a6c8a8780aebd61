"""The engine: a loaded model that decides."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack

from . import batch
from ._core import (
    DEPENDS_SUFFIX,
    PROMPT_VERSION_ISOLATED_KEYED,
    PROMPT_VERSION_KEYED,
    PROMPT_VERSION_MESSAGES,
    Schema,
    __version__,
)
from .asking import Asking, SchemaLike, case_program
from .compiled import CompiledSchema
from .deciding import Deciding
from .device import DeviceQueue
from .inputs import choose_schema, judge_schema, rate_schema, schema_of
from .lru import LruCache
from .models import ModelSource, resolve
from .models.cache import folder_hash
from .options import DecideOptions, Options, check_schema
from .profiles import Profile, resolve_profile
from .prompts import compile_plan
from .questions import Asked, Question, ask_alone, ask_together
from .results import Decision, DecisionError, FieldResult, PromptRecord, Provenance, Timings
from .scorer import QuestionScorer, prior_cache
from .scoring.backend import Backend, BranchScores
from .scoring.forest import TokenForest
from .tokenizers import TextTokenizer, adapt
from .watch import Watch

if TYPE_CHECKING:
    from .audit import AuditLog

# Compiled schemas held; one of 255 choices takes some 50 kB.
_MAX_PLANS = 256

Messages = Sequence[Mapping[str, str]]
Progress = Callable[[int, int], None]
P = ParamSpec("P")
T = TypeVar("T")


def load(
    model: str = "embedded",
    *,
    revision: str | None = None,
    dtype: str | None = None,
    prefix_cache_bytes: int | None = None,
    memory_budget_bytes: int | None = None,
    audit: AuditLog | None = None,
) -> Engine:
    """Loads a model.

    Args:
        model: ``"embedded"`` (SmolLM2-135M, shows the mechanism, not the accuracy), a folder in mlx-lm's format, or a hub id.
        revision: Hub revision; recorded in every result.
        dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``; by default float32 on a CPU and the model's own on a GPU.
        prefix_cache_bytes: Bound of the cache of schema prefixes' KV state; ``None`` for the backend's own.
        memory_budget_bytes: Bound of the memory one decision's rows may take beside its prompt; ``None`` for no bound.
        audit: Where every decision is recorded before it is given; see :class:`jevmlx.audit.AuditLog`.

    Raises:
        ModelError: The model cannot be found, is incomplete, does not fit, or is of a kind that cannot be scored.
        PromptError: The tokenizer has no usable chat template.
    """
    from .scoring.mlx import MlxBackend
    from .scoring.mlx_load import load_model, release_thread

    source = resolve(model, revision=revision)
    queue = DeviceQueue(release_thread)
    try:
        # What a model computes while it is made is bound to the thread it is made in.
        loaded = queue.run(load_model, source, dtype)
        backend = queue.run(MlxBackend, loaded.model, prefix_cache_bytes=prefix_cache_bytes)
        return Engine(
            source=source,
            model=loaded.model,
            tokenizer=loaded.tokenizer,
            backend=backend,
            queue=queue,
            dtype=loaded.dtype,
            context_window=loaded.context_window,
            memory_budget_bytes=memory_budget_bytes,
            audit=audit,
        )
    except BaseException:
        queue.close()
        raise


class Engine:
    """A loaded model that decides; made by :func:`load`.

    One engine may be called from many threads and from asyncio: calls are served in the order they come.

    Attributes:
        model: The mlx-lm model.
        tokenizer: Its tokenizer.
        profile: Its chat template profile.
        source: Where it came from.
        context_window: Tokens the model was made for; ``None`` where its configuration does not say.
    """

    def __init__(
        self,
        *,
        source: ModelSource,
        model: Any,
        tokenizer: Any,
        backend: Backend,
        queue: DeviceQueue,
        dtype: str,
        context_window: int | None,
        memory_budget_bytes: int | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self.source = source
        self.model = model
        self.tokenizer = tokenizer
        self.profile: Profile = resolve_profile(source.model_id, tokenizer)
        self.context_window = context_window
        self._text: TextTokenizer = adapt(tokenizer)
        self._backend = backend
        self._queue = queue
        # Also run at exit, where a device thread that still has its streams would abort the process.
        self._finalizer = weakref.finalize(self, queue.close)
        self._dtype = dtype
        self._budget = memory_budget_bytes
        self._audit = audit
        # A folder names its bytes; a hub revision already does.
        self._revision = source.revision or source.content_hash or folder_hash(source.path)
        self._plans = LruCache[tuple[Schema, str], CompiledSchema](_MAX_PLANS)
        self._plans_lock = threading.Lock()
        # Read and written on the device's thread only.
        self._priors = prior_cache()

    def __repr__(self) -> str:
        return f"Engine({self.source.model_id!r}, dtype={self._dtype!r}, profile={self.profile.name!r})"

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def weights_bytes(self) -> int:
        """Bytes that the weights take in memory."""
        return self._backend.weights_bytes

    def close(self) -> None:
        """Finishes what is queued and ends the device's thread; calls after that raise ``model.closed``."""
        self._finalizer()

    def compile(self, schema: SchemaLike, scoring: str = "labels") -> CompiledSchema:
        """Compiles a schema for this model, or takes it from the plans held.

        Raises:
            SchemaError: The schema is at fault.
            CompileError: This model's tokenizer cannot tell the answers apart.
        """
        schema = schema_of(schema).schema
        key = (schema, scoring)
        with self._plans_lock:
            held = self._plans.get(key)
        if held is not None:
            return held
        compiled = CompiledSchema.of(compile_plan(schema, self._text, scoring), self._text, self.profile)
        with self._plans_lock:
            self._plans.put(key, compiled)
        return compiled

    def decide(
        self,
        schema: SchemaLike,
        context: str | None = None,
        *,
        messages: Messages | None = None,
        progress: Progress | None = None,
        **options: Unpack[DecideOptions],
    ) -> Decision:
        """Decides every field of a schema for a context.

        Args:
            schema: What may be answered: a schema, or anything :func:`jevmlx.schema_of` takes.
            context: The text to decide on.
            messages: Chat messages in place of a context.
            progress: Told (tokens computed, tokens to compute) while a long prompt is computed, from the device's thread.
            **options: See :class:`jevmlx.DecideOptions`.

        Raises:
            SchemaError: The schema is at fault, or this tokenizer cannot tell its answers apart.
            PromptError: The context or the messages are at fault, or the prompt does not fit the model.
            ConstraintError: No answer satisfies the constraints.
            CalibrationError: The calibration was made for something else.
            ModelError: The model gave logits that are no numbers, or ran out of memory.
            ConfigError: An option is at fault.
            AuditError: The decision cannot be recorded.
        """
        asking = self.asking(schema, options)
        asked = self.ask(asking, context, messages)
        decision = self._queue.run(self._decide, asking, asked, Watch(progress))
        self.record(asking, context, messages, decision)
        return decision

    def choose(
        self,
        context: str,
        choices: Sequence[str] | Mapping[str, str],
        question: str = "",
        *,
        several: bool = False,
        allow_none: bool = False,
        **options: Unpack[DecideOptions],
    ) -> Decision:
        """Which of these? One question about a text; its result is ``Decision.answer``. See :func:`jevmlx.inputs.choose_schema`."""
        return self.decide(choose_schema(choices, question, several=several, allow_none=allow_none), context, **options)

    def judge(self, context: str, question: str, **options: Unpack[DecideOptions]) -> Decision:
        """Is this so? See :meth:`choose` and :func:`jevmlx.inputs.judge_schema`."""
        return self.decide(judge_schema(question), context, **options)

    def rate(
        self,
        context: str,
        levels: Sequence[str] | Mapping[str, str] | int,
        question: str = "",
        **options: Unpack[DecideOptions],
    ) -> Decision:
        """How much? See :meth:`choose` and :func:`jevmlx.inputs.rate_schema`."""
        return self.decide(rate_schema(levels, question), context, **options)

    async def adecide(
        self,
        schema: SchemaLike,
        context: str | None = None,
        *,
        messages: Messages | None = None,
        check: Callable[[Asked], None] | None = None,
        on_field: Callable[[FieldResult], None] | None = None,
        **options: Unpack[DecideOptions],
    ) -> Decision:
        """:meth:`decide` for asyncio; cancelling it frees its place in the queue, or ends the computation at its next step.

        Args:
            schema: What may be answered.
            context: The text to decide on.
            messages: Chat messages in place of a context.
            check: Called with what is asked before anything is computed; what it raises is raised here.
            on_field: Told each field's result as soon as it is settled, from the device's thread.
            **options: See :class:`jevmlx.DecideOptions`.
        """

        def ready() -> tuple[Asking, Asked]:
            asking = self.asking(schema, options)
            return asking, self.ask(asking, context, messages)

        asking, asked = await asyncio.to_thread(ready)
        if check is not None:
            check(asked)
        watch = Watch(on_field=on_field)
        try:
            decision = await self._queue.run_async(self._decide, asking, asked, watch)
        except asyncio.CancelledError:
            watch.stopped.set()
            raise
        if self._audit is not None:
            await asyncio.to_thread(self.record, asking, context, messages, decision)
        return decision

    def decide_many(
        self,
        schema: SchemaLike,
        contexts: Iterable[str | bytes | Messages],
        *,
        merge: bool = False,
        **options: Unpack[DecideOptions],
    ) -> Iterator[Decision | DecisionError]:
        """Decides a stream of contexts, in order; the next one is tokenized while the device computes this one.

        Args:
            schema: What may be answered.
            contexts: Texts, UTF-8 bytes, or lists of chat messages; taken one by one as results are taken.
            merge: Whether several contexts share a forward pass. Faster where the device gains from it, but then a result can
                differ in its last digits with its neighbours; the result says so. Without it every result is the same, bit for
                bit, as from :meth:`decide`.
            **options: See :class:`jevmlx.DecideOptions`.

        Yields:
            One result per context: a decision, or what was wrong with that context.

        Raises:
            SchemaError: The schema is at fault.
            ConfigError: An argument is at fault.
        """
        asking = self.asking(schema, options, merge=merge)
        # What is wrong with the schema is wrong with every context: it is said at once.
        for part in asking.schema.isolated() if asking.options.isolate else (asking.schema,):
            self.compile(part, asking.options.scoring)
        return batch.stream(self, asking, contexts)

    def asking(self, schema: SchemaLike, options: Mapping[str, Any], *, merge: bool = False) -> Asking:
        """Checks what is the same for all contexts.

        Raises:
            JevmlxError: Schema or options are at fault.
        """
        given = schema_of(schema)
        checked = Options.of(options, merge=merge)
        check_schema(given.schema, checked)
        return Asking(given, checked, case_program(given.schema, checked.constraints))

    def ask(self, asking: Asking, context: str | None, messages: Messages | None) -> Asked:
        """Everything up to the device: compiles, renders and tokenizes.

        Raises:
            JevmlxError: Schema, context, messages or options are at fault.
        """
        ask = ask_alone if asking.options.isolate else ask_together
        asked = ask(self.compile, asking.schema, context, messages, asking.options, self.context_window)
        self._check_calibration(asked, asking.options)
        return asked

    def submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queues a call for the device's thread."""
        return self._queue.submit(call, *args, **kwargs)

    def score(
        self,
        ids: list[int],
        split: int,
        forest: TokenForest,
        options: Options,
    ) -> BranchScores:
        """One prompt's branch logits; call it on the device's thread only.

        Raises:
            ModelError: The model gave logits that are no numbers, or ran out of memory.
        """
        return self._backend.score(ids, split, forest, legal_mass=options.legal_mass, budget_bytes=self._budget)

    def score_asked(self, asking: Asking, asked: Asked, watch: Watch | None = None) -> Deciding:
        """Scores every question, each in a computation of its own, wave by wave; call it on the device's thread only.

        Raises:
            ModelError: The model gave logits that are no numbers, or ran out of memory.
            ConstraintError: No answer satisfies the constraints, given what later waves were conditioned on.
            StoppedError: Nobody waits any more.
        """
        watch = watch or Watch()
        deciding = Deciding(asked, asking.options, asking.cases)
        # Fields asked alone depend on no other: there are several groups or several waves, never both.
        for at, group in enumerate(asked.groups):
            scorers = [
                QuestionScorer(self._backend, group, question, asking.options, self._budget, self._priors)
                for question in group.questions
            ]
            keep = deciding.depth > 0
            deciding.hold(at, [(None, scorer.first(watch.step, keep=keep)) for scorer in scorers])
            watch.tell(deciding.settled)
            for depth in range(1, deciding.depth + 1):
                decided = deciding.decided()
                deciding.hold(at, [scorer.wave(depth, decided) for scorer in scorers])
                watch.tell(deciding.settled)
        return deciding

    def _decide(self, asking: Asking, asked: Asked, watch: Watch) -> Decision:
        # Where the scores are: another thread would wait for them to reach its CPU, and an event loop must not solve constraints.
        return self.decision(asking, self.score_asked(asking, asked, watch))

    def decision(self, asking: Asking, deciding: Deciding) -> Decision:
        """Everything after the device: values, probabilities and the record.

        Raises:
            ConstraintError: No answer satisfies the constraints.
        """
        fields = deciding.results()
        decision = Decision(
            fields=fields,
            provenance=self._provenance(asking.options, deciding),
            timings=_timings(deciding),
        )
        return decision.restored_by(asking.restore)

    def record(
        self,
        asking: Asking,
        context: str | bytes | None,
        messages: Messages | None,
        result: Decision | DecisionError,
    ) -> None:
        """Writes a result to the audit log, if there is one.

        Raises:
            AuditError: It cannot be written; the result must not be given then.
        """
        if self._audit is not None:
            self._audit.record(asking.source, context, messages, asking.options, result)

    def _provenance(self, options: Options, deciding: Deciding) -> Provenance:
        asked = deciding.asked
        first = asked.first
        calibration = options.calibration
        return Provenance(
            package_version=__version__,
            prompt_version=_version(first, deciding.depth),
            model_id=self.source.model_id,
            model_revision=self._revision,
            dtype=self._dtype,
            computation=self._backend.mode,
            profile=self.profile.name,
            template_kwargs=self.profile.template_kwargs,
            tokenizer_sha256=self._text.sha256,
            prompt_sha256=_joined(asked, lambda question: question.prompt.sha256),
            plan_hash=_joined(asked, lambda question: question.compiled.plan.plan_hash),
            schema_sha256=_schema_sha256(asked.schema),
            prompts=_prompt_records(deciding, options.isolate),
            scoring=options.scoring,
            temperature=None if calibration else options.temperature or 1.0,
            calibration_sha256=calibration.sha256 if calibration else None,
            prior_correction=options.prior_correction,
            permutations=options.permutations,
            rotate_scales=options.rotate_scales,
            nonce=_nonce(first),
            merged=deciding.merged,
            truncation=first.truncation,
        )

    def _check_calibration(self, asked: Asked, options: Options) -> None:
        if options.calibration is None:
            return
        first = asked.first
        options.calibration.check(
            model_id=self.source.model_id,
            model_revision=self._revision,
            prompt_version=_version(first, max(first.compiled.depths)),
            scoring=options.scoring,
            prior_correction=options.prior_correction,
            permutations=options.permutations,
            rotate_scales=options.rotate_scales,
        )


@lru_cache(_MAX_PLANS)
def _schema_sha256(schema: Schema) -> str:
    text = json.dumps(schema.to_dict(), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _version(first: Question, depth: int) -> str:
    return first.prompt.version + (DEPENDS_SUFFIX if depth else "")


def _nonce(first: Question) -> Literal["plain", "keyed", "none"]:
    if first.prompt.version == PROMPT_VERSION_MESSAGES:
        return "none"
    keyed = (PROMPT_VERSION_KEYED, PROMPT_VERSION_ISOLATED_KEYED)
    return "keyed" if first.prompt.version in keyed else "plain"


def _joined(asked: Asked, hash_of: Callable[[Question], str]) -> str:
    """What names all groups' questions in the record: the hash itself where there is one."""
    hashes = [hash_of(group.questions[0]) for group in asked.groups]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(",".join(hashes).encode()).hexdigest()


def _prompt_records(deciding: Deciding, isolate: bool) -> tuple[PromptRecord, ...]:
    return tuple(
        PromptRecord(
            role=question.role,
            field=group.fields[0][0] if isolate else None,
            prompt_sha256=question.prompt.sha256,
            plan_hash=question.compiled.plan.plan_hash,
            waves=tuple(hashes),
        )
        for group, waves in zip(deciding.asked.groups, deciding.waves, strict=True)
        for question, hashes in zip(group.questions, waves, strict=True)
    )


def _timings(deciding: Deciding) -> Timings:
    questions, stats = list(deciding.asked.questions), deciding.stats
    return Timings(
        compile_s=sum(question.compile_s for question in questions),
        render_s=sum(question.render_s for question in questions),
        prefill_s=sum(stat.prefill_s for stat in stats),
        rows_s=sum(stat.rows_s for stat in stats),
        projection_s=sum(stat.projection_s for stat in stats),
        total_s=time.perf_counter() - questions[0].started,
        cached_tokens=sum(stat.cached_tokens for stat in stats),
        computed_tokens=sum(stat.computed_tokens for stat in stats),
        rows=deciding.rows,
        row_tokens=sum(stat.row_tokens for stat in stats),
        padding_tokens=sum(stat.padding for stat in stats),
        waves=sum(stat.waves for stat in stats),
        halved=sum(stat.halved for stat in stats),
        peak_bytes=max((stat.peak_bytes for stat in stats if stat.peak_bytes is not None), default=None),
    )
