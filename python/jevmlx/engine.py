"""The engine: a loaded model that decides."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from . import batch
from ._core import Schema, __version__
from .compiled import CompiledSchema
from .decisions import field_result, row_scores
from .device import DeviceQueue
from .models import ModelSource, resolve
from .models.cache import folder_hash
from .options import Options, check_supported
from .overflow import ERROR
from .profiles import Profile, resolve_profile
from .prompts import compile_plan
from .questions import Question, ask_alone, ask_together
from .results import Decision, DecisionError, FieldResult, Provenance, Timings
from .scoring.backend import Backend, BranchScores
from .scoring.forest import TokenForest
from .tokenizers import TextTokenizer, adapt

# Compiled schemas held; one of 255 choices takes some 50 kB.
_MAX_PLANS = 256

SchemaLike = Schema | Mapping[str, Any] | str
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
) -> Engine:
    """Loads a model.

    Args:
        model: ``"embedded"`` (SmolLM2-135M, shows the mechanism, not the accuracy), a folder in mlx-lm's format, or a hub id.
        revision: Hub revision; recorded in every result.
        dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``; by default float32 on a CPU and the model's own on a GPU.
        prefix_cache_bytes: Bound of the cache of schema prefixes' KV state; ``None`` for the backend's own.
        memory_budget_bytes: Bound of the memory one decision's rows may take beside its prompt; ``None`` for no bound.

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
        # A folder names its bytes; a hub revision already does.
        self._revision = source.revision or source.content_hash or folder_hash(source.path)
        self._plans: OrderedDict[tuple[Schema, str], CompiledSchema] = OrderedDict()
        self._plans_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Engine({self.source.model_id!r}, dtype={self._dtype!r}, profile={self.profile.name!r})"

    def close(self) -> None:
        """Finishes what is queued and ends the device's thread; calls after that raise ``model.closed``."""
        self._finalizer()

    def compile(self, schema: SchemaLike, scoring: str = "labels") -> CompiledSchema:
        """Compiles a schema for this model, or takes it from the plans held.

        Raises:
            SchemaError: The schema is at fault.
            CompileError: This model's tokenizer cannot tell the answers apart.
        """
        if not isinstance(schema, Schema):
            schema = Schema(schema)
        key = (schema, scoring)
        with self._plans_lock:
            if key in self._plans:
                self._plans.move_to_end(key)
                return self._plans[key]
        compiled = CompiledSchema.of(compile_plan(schema, self._text, scoring), self._text, self.profile)
        with self._plans_lock:
            self._plans[key] = compiled
            while len(self._plans) > _MAX_PLANS:
                self._plans.popitem(last=False)
        return compiled

    def decide(
        self,
        schema: SchemaLike,
        context: str | None = None,
        *,
        messages: Messages | None = None,
        scoring: str = "labels",
        temperature: float = 1.0,
        nonce_key: bytes | None = None,
        legal_mass: bool = True,
        isolate: bool = False,
        overflow: str = ERROR,
        progress: Progress | None = None,
    ) -> Decision:
        """Decides every field of a schema for a context.

        Args:
            schema: What may be answered.
            context: The text to decide on.
            messages: Chat messages in place of a context.
            scoring: ``"labels"`` or ``"slots"``.
            temperature: What log scores are divided by, once, at the end.
            nonce_key: A secret for the fence's nonce; see :func:`render_prompt`.
            legal_mass: Whether to report how much probability the allowed answers had; costs a projection on the vocabulary
                and changes no score.
            isolate: Whether every field is asked alone under a neutral name, so that no field sees or influences another.
            overflow: What to do with a context that does not fit: ``"error"``, ``"keep_head"`` or ``"keep_tail"``.
            progress: Told (tokens computed, tokens to compute) while a long prompt is computed, from the device's thread.

        Raises:
            SchemaError: The schema is at fault, or this tokenizer cannot tell its answers apart.
            PromptError: The context or the messages are at fault, or the prompt does not fit the model.
            ModelError: The model gave logits that are no numbers, or ran out of memory.
            ConfigError: An argument is at fault.
        """
        options = Options(scoring, temperature, nonce_key, legal_mass, isolate, overflow)
        asked = self.ask(schema, context, messages, options)
        scores = self._queue.run(self.score_questions, asked, options, progress)
        return self.decision(asked, scores, options)

    async def adecide(
        self,
        schema: SchemaLike,
        context: str | None = None,
        *,
        messages: Messages | None = None,
        scoring: str = "labels",
        temperature: float = 1.0,
        nonce_key: bytes | None = None,
        legal_mass: bool = True,
        isolate: bool = False,
        overflow: str = ERROR,
    ) -> Decision:
        """:meth:`decide` for asyncio; cancelling it frees its place in the queue."""
        options = Options(scoring, temperature, nonce_key, legal_mass, isolate, overflow)
        asked = await asyncio.to_thread(self.ask, schema, context, messages, options)
        scores = await self._queue.run_async(self.score_questions, asked, options, None)
        return self.decision(asked, scores, options)

    def decide_many(
        self,
        schema: SchemaLike,
        contexts: Iterable[str | bytes | Messages],
        *,
        scoring: str = "labels",
        temperature: float = 1.0,
        nonce_key: bytes | None = None,
        legal_mass: bool = True,
        isolate: bool = False,
        overflow: str = ERROR,
        merge: bool = False,
    ) -> Iterator[Decision | DecisionError]:
        """Decides a stream of contexts, in order; the next one is tokenized while the device computes this one.

        Args:
            schema: What may be answered.
            contexts: Texts, UTF-8 bytes, or lists of chat messages; taken one by one as results are taken.
            scoring: See :meth:`decide`, as for the other arguments.
            temperature: Likewise.
            nonce_key: Likewise.
            legal_mass: Likewise.
            isolate: Likewise.
            overflow: Likewise.
            merge: Whether several contexts share a forward pass. Faster where the device gains from it, but then a result can
                differ in its last digits with its neighbours; the result says so. Without it every result is the same, bit for
                bit, as from :meth:`decide`.

        Yields:
            One result per context: a decision, or what was wrong with that context.

        Raises:
            SchemaError: The schema is at fault.
            ConfigError: An argument is at fault.
        """
        options = Options(scoring, temperature, nonce_key, legal_mass, isolate, overflow, merge)
        schema = schema if isinstance(schema, Schema) else Schema(schema)
        # What is wrong with the schema is wrong with every context: it is said at once.
        check_supported(schema, isolate)
        for part in schema.isolated() if isolate else (schema,):
            self.compile(part, scoring)
        return batch.stream(self, schema, contexts, options)

    def ask(
        self, schema: SchemaLike, context: str | None, messages: Messages | None, options: Options
    ) -> Sequence[Question]:
        """Everything up to the device: compiles, renders and tokenizes.

        Raises:
            JevmlxError: Schema, context, messages or options are at fault.
        """
        if not isinstance(schema, Schema):
            schema = Schema(schema)
        check_supported(schema, options.isolate)
        if options.isolate:
            return ask_alone(self.compile, schema, context, messages, options, self.context_window)
        return [ask_together(self.compile, schema, context, messages, options, self.context_window)]

    def submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queues a call for the device's thread."""
        return self._queue.submit(call, *args, **kwargs)

    def score(
        self, ids: list[int], split: int, forest: TokenForest, options: Options, progress: Progress | None = None
    ) -> BranchScores:
        """One prompt's branch logits; call it on the device's thread only.

        Raises:
            ModelError: The model gave logits that are no numbers, or ran out of memory.
        """
        return self._backend.score(
            ids, split, forest, legal_mass=options.legal_mass, budget_bytes=self._budget, progress=progress
        )

    def score_questions(
        self, asked: Sequence[Question], options: Options, progress: Progress | None = None
    ) -> list[BranchScores]:
        """Every question's branch logits, each in a computation of its own; call it on the device's thread only.

        Raises:
            ModelError: The model gave logits that are no numbers, or ran out of memory.
        """
        return [self.score(q.prompt.ids, q.split, q.compiled.forest, options, progress) for q in asked]

    def decision(
        self, asked: Sequence[Question], scores: Sequence[BranchScores], options: Options, merged: int = 0
    ) -> Decision:
        """Everything after the device: values, probabilities and the record."""
        fields: dict[str, FieldResult] = {}
        for question, found in zip(asked, scores, strict=True):
            fields.update(_field_results(question, found, options.temperature))
        first = asked[0]
        return Decision(
            fields=MappingProxyType(fields),
            provenance=Provenance(
                package_version=__version__,
                prompt_version=first.prompt.version,
                model_id=self.source.model_id,
                model_revision=self._revision,
                dtype=self._dtype,
                computation=self._backend.mode,
                profile=self.profile.name,
                template_kwargs=self.profile.template_kwargs,
                tokenizer_sha256=self._text.sha256,
                **_hashes(asked, options.isolate),
                scoring=options.scoring,
                temperature=options.temperature,
                merged=merged,
                truncation=first.truncation,
            ),
            timings=_timings(asked, scores),
        )


def _field_results(question: Question, scores: BranchScores, temperature: float) -> dict[str, FieldResult]:
    log_z = None if scores.log_z is None else scores.log_z.tolist()
    rows = iter(row_scores(question.compiled.paths, scores.logits.tolist(), log_z))
    results = {}
    for name, spec in question.fields:
        count = len(spec.choices) + 1 if spec.type == "multi" else 1
        results[name] = field_result(name, spec, [next(rows) for _ in range(count)], temperature)
    return results


def _hashes(asked: Sequence[Question], isolate: bool) -> dict[str, Any]:
    """What names the prompts and plans in the record."""
    if not isolate:
        return {"prompt_sha256": asked[0].prompt.sha256, "plan_hash": asked[0].compiled.plan.plan_hash}
    own = {
        question.fields[0][0]: {
            "prompt_sha256": question.prompt.sha256,
            "plan_hash": question.compiled.plan.plan_hash,
        }
        for question in asked
    }
    joined = {key: ",".join(hashes[key] for hashes in own.values()) for key in ("prompt_sha256", "plan_hash")}
    return {key: hashlib.sha256(text.encode()).hexdigest() for key, text in joined.items()} | {"isolated": own}


def _timings(asked: Sequence[Question], scores: Sequence[BranchScores]) -> Timings:
    stats = [found.stats for found in scores]
    return Timings(
        compile_s=sum(question.compile_s for question in asked),
        render_s=sum(question.render_s for question in asked),
        prefill_s=sum(stat.prefill_s for stat in stats),
        rows_s=sum(stat.rows_s for stat in stats),
        projection_s=sum(stat.projection_s for stat in stats),
        total_s=time.perf_counter() - asked[0].started,
        cached_tokens=sum(stat.cached_tokens for stat in stats),
        computed_tokens=sum(stat.computed_tokens for stat in stats),
        rows=sum(len(question.compiled.paths.rows) for question in asked),
        row_tokens=sum(stat.row_tokens for stat in stats),
        padding_tokens=sum(stat.padding for stat in stats),
        waves=sum(stat.waves for stat in stats),
        peak_bytes=max((stat.peak_bytes for stat in stats if stat.peak_bytes is not None), default=None),
    )
