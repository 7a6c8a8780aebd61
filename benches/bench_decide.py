"""What does a decision cost beside the forward pass it cannot do without?"""

import gc
import statistics
import time

import numpy as np
import pytest

import jevmlx
from jevmlx.scoring.mlx_load import mx

WORDS = (
    *("the", "parcel", "was", "late", "and", "the", "box", "came", "damaged", "so", "I", "want", "my", "money", "back"),
    *("before", "the", "end", "of", "this", "week", "please"),
)
THREE = {
    "team": {"choices": ["billing", "technical", "sales"], "description": "Who should answer"},
    "urgent": {"type": "boolean", "description": "Needs a reply today"},
    "mood": {"choices": ["calm", "upset", "angry"], "description": "Mood of the writer"},
}
FIVE = THREE | {
    "language": {"choices": ["en", "de", "fr"], "description": "Language"},
    "spam": {"type": "boolean", "description": "Is spam"},
}


@pytest.fixture(scope="session")
def engine():
    return jevmlx.load("embedded")


def text_of(engine, tokens, seed=0):
    """A text of about so many tokens."""
    words = [WORDS[(index * 7 + seed) % len(WORDS)] for index in range(tokens * 2)]
    bounds = engine._text.token_bounds(" ".join(words))
    return " ".join(words)[: bounds[tokens]]


class Bare:
    """mlx-lm's model and cache, nothing else: the floor."""

    def __init__(self, engine, prefix):
        from mlx_lm.models.cache import KVCache

        self.body = engine.model.model
        self.prefix = [KVCache() for _ in engine.model.layers]
        if prefix:
            mx.eval(self.body(mx.array([prefix]), cache=self.prefix), [cache.state for cache in self.prefix])

    def forward(self, ids):
        """Hidden states of ``ids`` after the prefix, whose state is left as it is."""
        from mlx_lm.models.cache import KVCache

        caches = []
        for held in self.prefix:
            cache = KVCache()
            if held.offset:
                cache.keys, cache.values, cache.offset = held.keys, held.values, held.offset
            caches.append(cache)
        mx.eval(self.body(mx.array([ids]), cache=caches))


def paired(first, second, rounds):
    """Median seconds of both, measured in turn, so that what disturbs one disturbs the other."""
    times = ([], [])
    first(), second()
    for _ in range(rounds):
        for held, call in zip(times, (first, second), strict=True):
            start = time.perf_counter()
            call()
            held.append(time.perf_counter() - start)
    return tuple(statistics.median(held) for held in times)


def asked(engine, schema, text):
    compiled = engine.compile(schema)
    prompt = compiled.prompt(text)
    split = compiled.split(prompt)
    return prompt.ids[:split], prompt.ids[split:] + compiled.forest.tokens.tolist(), prompt.ids


@pytest.mark.parametrize(("tokens", "target"), [(300, "≤ 1.05"), (50, "≤ 1.12")])
def test_against_a_bare_forward(engine, benchmark, figure, tokens, target):
    text = text_of(engine, tokens)
    prefix, tail, whole = asked(engine, THREE, text)
    bare = Bare(engine, prefix)
    ours, floor = paired(lambda: engine.decide(THREE, text), lambda: bare.forward(tail), 5)
    figure(
        f"warm decide ÷ bare forward of its {len(tail)} tokens, {tokens}-token context",
        ours / floor,
        "×",
        target,
        f"{floor * 1e3:.0f} ms",
    )
    lean, floor = paired(lambda: engine.decide(THREE, text, legal_mass=False), lambda: bare.forward(tail), 3)
    figure(f"the same without legal mass, {tokens}-token context", lean / floor, "×", "report", f"{floor * 1e3:.0f} ms")
    if tokens == 50:
        ours, floor = paired(lambda: engine.decide(THREE, text), lambda: Bare(engine, []).forward(whole), 5)
        figure(
            "warm decide ÷ plain prefill of the whole prompt, 50-token context",
            ours / floor,
            "×",
            "≤ 0.55",
            f"{floor * 1e3:.0f} ms for {len(whole)} tokens",
        )
    benchmark.pedantic(engine.decide, (THREE, text), rounds=3)


class Recorded:
    """A backend that answers at once what the real one answered: what is left is everything else."""

    mode = "one-pass"

    def __init__(self, backend):
        self.backend = backend
        self.answer = None

    def score(self, *args, **kwargs):
        if self.answer is None:
            self.answer = self.backend.score(*args, **kwargs)
        return self.answer


def test_everything_else(engine, benchmark, figure):
    text = text_of(engine, 300)
    rest = jevmlx.Engine.__new__(jevmlx.Engine)
    rest.__dict__.update(engine.__dict__, _backend=Recorded(engine._backend))
    rest.decide(FIVE, text)
    schema = jevmlx.Schema(FIVE)
    compiled = rest.compile(schema)
    piece = compiled.prompt(text).text
    tokenizing, _ = paired(lambda: engine._text.encode_piece(piece, False), lambda: None, 300)
    benchmark.pedantic(rest.decide, (schema, text), rounds=300, warmup_rounds=20)
    own = benchmark.stats.stats.median - tokenizing
    figure(
        "decide less tokenization and forward pass, 5 fields",
        own * 1e6,
        "µs",
        "≤ 150 µs",
        f"tokenizing {tokenizing * 1e6:.0f} µs",
    )


def test_warm_against_cold(engine, benchmark, figure):
    glosses = {f"choice {index}": " ".join(WORDS[:7]) for index in range(75)}
    schema = {"kind": {"choices": list(glosses), "choice_descriptions": glosses, "description": "Kind"}}
    text = text_of(engine, 50)
    prefix, _, _ = asked(engine, schema, text)

    def cold():
        prefixes = engine._backend.prefixes
        engine._backend.prefixes = type(prefixes)(prefixes.most_bytes)
        engine.decide(schema, text)

    warm, floor = paired(lambda: engine.decide(schema, text), cold, 2)
    figure(
        f"warm ÷ cold, {len(prefix)}-token prefix, 50-token context", warm / floor, "×", "≤ 0.25", f"{floor:.2f} s cold"
    )
    benchmark.pedantic(engine.decide, (schema, text), rounds=3)


def test_many_options(engine, benchmark, figure):
    text = text_of(engine, 300)
    schemas = [
        {"tags": {"type": "multi", "choices": [f"topic {i}" for i in range(n)], "description": "Topics"}}
        for n in (64, 2)
    ]
    ours = paired(*(lambda s=s: engine.decide(s, text) for s in schemas), 2)
    floors = []
    for schema in schemas:
        prefix, tail, _ = asked(engine, schema, text)
        floors.append((Bare(engine, prefix), tail))
    bare = paired(*(lambda b=b, t=t: b.forward(t) for b, t in floors), 2)
    ratio, floor = ours[0] / ours[1], bare[0] / bare[1]
    figure("64-option ÷ 2-option multi field, 300-token context", ratio, "×", "report", f"bare forwards {floor:.2f} ×")
    figure(
        "the same ÷ that of the bare forwards",
        ratio / floor,
        "×",
        "≤ 1.10",
        f"{len(floors[0][1])} and {len(floors[1][1])} tokens",
    )
    benchmark.pedantic(engine.decide, (schemas[0], text), rounds=2)


def test_peak_memory(engine, benchmark, figure, monkeypatch):
    schema = {"tags": {"type": "multi", "choices": [f"topic {i}" for i in range(64)], "description": "Topics"}}
    compiled = engine.compile(schema)
    text = text_of(engine, 2000 - len(compiled.prompt("").ids))
    tokens = len(compiled.prompt(text).ids)
    args = engine.model.args
    head = args.head_dim or args.hidden_size // args.num_attention_heads
    kv = 2 * args.num_hidden_layers * args.num_key_value_heads * head * 4 * tokens
    monkeypatch.setattr(engine._backend, "prefixes", type(engine._backend.prefixes)(0))
    gc.collect()
    mx.clear_cache()
    held = mx.get_active_memory()
    decision = benchmark.pedantic(engine.decide, (schema, text), rounds=1)
    extra = decision.timings.peak_bytes - held
    figure(
        f"peak extra memory, 65 rows, {tokens} prompt tokens ÷ their KV state",
        extra / kv,
        "×",
        "≤ 1.3",
        f"{kv / 1e6:.0f} MB",
    )


def test_isolated_questions(engine, benchmark, figure):
    text = text_of(engine, 1000)
    eight = {f"q{index}": {"type": "boolean", "description": f"Question {index}: {WORDS[index]}"} for index in range(8)}
    one = {"q0": eight["q0"]}

    def fresh(schema):
        engine._backend.prefixes = type(engine._backend.prefixes)(engine._backend.prefixes.most_bytes)
        return engine.decide(schema, text, isolate=True)

    many, single = paired(lambda: fresh(eight), lambda: fresh(one), 2)
    figure("8 isolated questions ÷ 1, 1,000-token context", many / single, "×", "≤ 1.5", f"{single:.2f} s for one")
    benchmark.pedantic(fresh, (one,), rounds=1)


def test_merging(engine, benchmark, figure):
    texts = [text_of(engine, 50, seed) for seed in range(8)]
    alone, merged = paired(
        lambda: list(engine.decide_many(THREE, texts)), lambda: list(engine.decide_many(THREE, texts, merge=True)), 1
    )
    drift = 0.0
    pairs = zip(engine.decide_many(THREE, texts), engine.decide_many(THREE, texts, merge=True), strict=True)
    for one, other in pairs:
        for name in THREE:
            scores = [np.array(list(found[name].log_scores.values())) for found in (one, other)]
            drift = max(drift, float(np.abs(scores[0] - scores[1]).max()))
    figure(
        "merge=True ÷ one by one, 8 contexts of 50 tokens",
        merged / alone,
        "×",
        "report",
        f"drift at most {drift:.1e} nats",
    )
    benchmark.pedantic(lambda: list(engine.decide_many(THREE, texts, merge=True)), rounds=1)
