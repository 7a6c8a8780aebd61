"""The engine: a loaded model that decides."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ._core import Plan, Schema, __version__
from .compiled import CompiledSchema
from .decisions import field_result, row_scores
from .errors import ConfigError
from .models import ModelSource, resolve
from .profiles import Profile, resolve_profile
from .prompts import Prompt, compile_plan
from .results import Decision, FieldResult, Provenance, Timings
from .scoring.backend import Backend, BranchScores
from .tokenizers import TextTokenizer, adapt

# Compiled schemas held; one of 255 choices takes some 50 kB.
_MAX_PLANS = 256


def load(model: str = "embedded", *, revision: str | None = None, dtype: str | None = None) -> Engine:
    """Loads a model.

    Args:
        model: ``"embedded"`` (SmolLM2-135M, shows the mechanism, not the accuracy), a folder in mlx-lm's format, or a hub id.
        revision: Hub revision; recorded in every result.
        dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``; by default float32 on a CPU and the model's own on a GPU.

    Raises:
        ModelError: The model cannot be found, is incomplete, does not fit, or is of a kind that cannot be scored.
        PromptError: The tokenizer has no usable chat template.
    """
    from .scoring.mlx import MlxBackend
    from .scoring.mlx_load import load_model

    source = resolve(model, revision=revision)
    loaded = load_model(source, dtype)
    return Engine(
        source=source,
        model=loaded.model,
        tokenizer=loaded.tokenizer,
        backend=MlxBackend(loaded.model),
        dtype=loaded.dtype,
        context_window=loaded.context_window,
    )


class Engine:
    """A loaded model that decides; made by :func:`load`.

    Attributes:
        model: The mlx-lm model.
        tokenizer: Its tokenizer.
        profile: Its chat template profile.
        source: Where it came from.
    """

    def __init__(
        self,
        *,
        source: ModelSource,
        model: Any,
        tokenizer: Any,
        backend: Backend,
        dtype: str,
        context_window: int | None,
    ) -> None:
        self.source = source
        self.model = model
        self.tokenizer = tokenizer
        self.profile: Profile = resolve_profile(source.model_id, tokenizer)
        self._text: TextTokenizer = adapt(tokenizer)
        self._backend = backend
        self._dtype = dtype
        self._context_window = context_window
        self._plans: OrderedDict[tuple[Schema, str], CompiledSchema] = OrderedDict()
        self._plans_lock = threading.Lock()
        # One decision has the device at a time.
        self._device = threading.Lock()

    def __repr__(self) -> str:
        return f"Engine({self.source.model_id!r}, dtype={self._dtype!r}, profile={self.profile.name!r})"

    def compile(self, schema: Schema | Mapping[str, Any] | str, scoring: str = "labels") -> CompiledSchema:
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
        schema: Schema | Mapping[str, Any] | str,
        context: str | None = None,
        *,
        messages: Sequence[Mapping[str, str]] | None = None,
        scoring: str = "labels",
        temperature: float = 1.0,
        nonce_key: bytes | None = None,
        legal_mass: bool = True,
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

        Raises:
            SchemaError: The schema is at fault, or this tokenizer cannot tell its answers apart.
            PromptError: The context or the messages are at fault.
            ModelError: The prompt does not fit the model, or the model gave logits that are no numbers.
            ConfigError: An argument is at fault.
        """
        temperature = _check_temperature(temperature)
        started = time.perf_counter()
        compiled = self.compile(schema, scoring)
        _check_supported(compiled.plan.schema)
        compiled_at = time.perf_counter()
        prompt = compiled.prompt(context, messages, nonce_key)
        split = compiled.split(prompt)
        rendered_at = time.perf_counter()
        with self._device:
            scores = self._backend.score(prompt.ids, split, compiled.forest, legal_mass=legal_mass)
        fields = _field_results(compiled, scores, temperature)
        total = time.perf_counter() - started
        return Decision(
            fields=MappingProxyType(fields),
            provenance=self._provenance(compiled.plan, prompt, temperature),
            timings=_timings(scores, compiled_at - started, rendered_at - compiled_at, total),
        )

    def _provenance(self, plan: Plan, prompt: Prompt, temperature: float) -> Provenance:
        return Provenance(
            package_version=__version__,
            prompt_version=prompt.version,
            model_id=self.source.model_id,
            model_revision=self.source.revision or self.source.content_hash,
            dtype=self._dtype,
            profile=self.profile.name,
            template_kwargs=self.profile.template_kwargs,
            tokenizer_sha256=self._text.sha256,
            prompt_sha256=prompt.sha256,
            plan_hash=plan.plan_hash,
            scoring=plan.scoring,
            temperature=temperature,
        )


def _field_results(compiled: CompiledSchema, scores: BranchScores, temperature: float) -> dict[str, FieldResult]:
    log_z = None if scores.log_z is None else scores.log_z.tolist()
    rows = iter(row_scores(compiled.paths, scores.logits.tolist(), log_z))
    results = {}
    for spec in compiled.plan.schema.fields:
        count = len(spec.choices) + 1 if spec.type == "multi" else 1
        results[spec.name] = field_result(spec, [next(rows) for _ in range(count)], temperature)
    return results


def _timings(scores: BranchScores, compile_s: float, render_s: float, total_s: float) -> Timings:
    stats = scores.stats
    return Timings(
        compile_s=compile_s,
        render_s=render_s,
        prefill_s=stats.prefill_s,
        rows_s=stats.rows_s,
        projection_s=stats.projection_s,
        total_s=total_s,
        cached_tokens=stats.cached_tokens,
        computed_tokens=stats.computed_tokens,
        row_tokens=stats.row_tokens,
        padding_tokens=stats.padding,
        peak_bytes=stats.peak_bytes,
    )


def _check_temperature(temperature: float) -> float:
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float)) or not 0 < temperature < float("inf"):
        raise ConfigError(
            "config.temperature", f"temperature is {temperature!r}; a positive number is needed", "temperature"
        )
    return float(temperature)


def _check_supported(schema: Schema) -> None:
    """What this version compiles but does not yet apply is refused: an answer that ignores it would be wrong."""
    for spec in schema.fields:
        for key, given in (("set_constraints", spec.set_constraints), ("depends_on", spec.depends_on)):
            if given:
                raise ConfigError(
                    "config.unsupported",
                    f"{key} is part of the schema format, but this version of the engine does not apply it; remove it",
                    f"{spec.name}.{key}",
                )
