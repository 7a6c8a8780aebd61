"""The engine with the embedded model: real decisions, checked against the slow reference, and the same bits every way."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import jevmlx
from reference.scorer import rows_of, score_row

SCHEMA = {
    "team": {
        "choices": ["billing", "technical", "sales"],
        "description": "Who should answer",
        "choice_descriptions": {"billing": "charges, invoices, refunds"},
    },
    "priority": {"choices": ["low", "normal", "high"], "ordered": True, "description": "How soon it needs an answer"},
    "urgent": {"type": "boolean", "description": "Needs a reply today"},
    "topics": {"type": "multi", "choices": ["refund", "outage", "delivery"], "description": "What it mentions"},
    "only": {"choices": ["always"]},
}
TEXT = "My card was charged twice and nobody answers."
TOLERANCE = 2e-3  # nats, float32: passes of other shapes differ by less


def bits(decision):
    """Everything of a decision that must not depend on how it was made."""
    data = decision.to_dict()
    del data["timings"]
    return json.dumps(data, sort_keys=True)


@pytest.mark.parametrize("scoring", ["labels", "slots"])
def test_decisions_agree_with_the_slow_reference(engine, scoring):
    decision = engine.decide(SCHEMA, TEXT, scoring=scoring)
    plan = jevmlx.compile_plan(SCHEMA, engine.tokenizer, scoring)
    prompt = jevmlx.render_prompt(plan, TEXT, engine.tokenizer, engine.profile)
    assert decision.provenance.prompt_sha256 == prompt.sha256
    assert decision.provenance.plan_hash == plan.plan_hash
    for field, row, tokens in rows_of(plan.to_dict()):
        scores, masses, least = score_row(engine.model, prompt.ids, tokens)
        result = decision[field]
        if result.type != "multi":
            assert list(result.log_scores.values()) == pytest.approx(scores, abs=TOLERANCE)
            best = max(range(len(scores)), key=scores.__getitem__)
            assert result.value == list(result.probabilities)[best]
            assert result.legal_mass == pytest.approx(masses[best], rel=1e-2)
            assert result.min_legal_mass == pytest.approx(least[best], rel=1e-2)
        elif row == "count":
            assert result.count.log_score_margin == pytest.approx(
                sorted(scores)[-1] - sorted(scores)[-2], abs=TOLERANCE
            )
        else:
            option = list(result.options)[int(row)]
            assert result.log_scores[option] == pytest.approx(scores[0], abs=TOLERANCE)


def test_what_comes_out_is_typed_and_whole(engine):
    decision = engine.decide(SCHEMA, TEXT)
    assert list(decision.values) == list(SCHEMA)
    assert decision["team"].value in SCHEMA["team"]["choices"]
    assert decision["urgent"].value in (True, False)
    assert list(decision["urgent"].probabilities) == [True, False]
    assert isinstance(decision["topics"].value, tuple)
    for name in ("team", "priority", "urgent"):
        assert sum(decision[name].probabilities.values()) == pytest.approx(1)
        assert decision[name].probability == max(decision[name].probabilities.values())
        assert 0 <= decision[name].confidence <= 1
        assert 0 < decision[name].legal_mass <= 1
    only = decision["only"]
    assert (only.value, only.probability, only.confidence, only.legal_mass) == ("always", 1, 1, 1)
    assert only.log_scores == {"always": 0}
    data = json.loads(decision.to_json())
    assert data["fields"]["urgent"]["probabilities"].keys() == {"true", "false"}
    assert data["provenance"]["model_id"].startswith("embedded/")
    assert "  team        billing  █" in repr(decision)


PAIRS = [
    (
        {"topic": {"choices": ["weather", "food"], "description": "Topic of the text"}},
        ("It rained all day and the wind was cold.", "I ate pizza and soup for dinner."),
    ),
    (
        {"positive": {"type": "boolean", "description": "The review is positive"}},
        ("I love it, wonderful and great!", "Terrible, I hate it, it broke."),
    ),
]


@pytest.mark.parametrize(("schema", "texts"), PAIRS)
def test_the_text_moves_the_answer(engine, schema, texts):
    """The embedded model is too small to be right; but the first answer is likelier for the text it is true of."""
    name = next(iter(schema))
    true_of, not_of = (next(iter(engine.decide(schema, text)[name].probabilities.values())) for text in texts)
    assert true_of > not_of + 0.05


def test_temperature_is_applied_once_at_the_end(engine):
    plain, warm = engine.decide(SCHEMA, TEXT), engine.decide(SCHEMA, TEXT, temperature=2.0)
    assert plain["team"].log_scores == warm["team"].log_scores
    assert plain["team"].probability > warm["team"].probability > 1 / 3


def test_legal_mass_changes_no_score(engine):
    with_mass, without = engine.decide(SCHEMA, TEXT), engine.decide(SCHEMA, TEXT, legal_mass=False)
    for name, result in with_mass.fields.items():
        assert result.log_scores == without[name].log_scores
        assert without[name].legal_mass is None or name == "only"


def test_messages(engine):
    messages = [
        {"role": "system", "content": "Tickets of a web shop."},
        {"role": "user", "content": "Hello?"},
        {"role": "assistant", "content": "How can I help?"},
        {"role": "user", "content": TEXT},
    ]
    decision = engine.decide(SCHEMA, messages=messages)
    assert decision.provenance.prompt_version == "jevmlx-parallel-v10-messages"
    again = engine.decide(SCHEMA, messages=messages)
    assert bits(decision) == bits(again)
    assert again.timings.cached_tokens > 0


def test_the_same_bits_cold_warm_batched_threaded_and_async(engine):
    texts = [f"{TEXT} Ticket {number}, {'please ' * (number % 5)}help." for number in range(12)]
    fresh = jevmlx.load("embedded", prefix_cache_bytes=0)
    cold = [bits(fresh.decide(SCHEMA, text)) for text in texts]
    fresh.close()
    warm = [bits(engine.decide(SCHEMA, text)) for text in texts]
    batched = [bits(found) for found in engine.decide_many(SCHEMA, iter(texts))]
    with ThreadPoolExecutor(4) as pool:
        threaded = [bits(found) for found in pool.map(lambda text: engine.decide(SCHEMA, text), texts)]

    async def together():
        return await asyncio.gather(*(engine.adecide(SCHEMA, text) for text in texts))

    awaited = [bits(found) for found in asyncio.run(together())]
    assert cold == warm == batched == threaded == awaited


def test_questions_asked_alone_do_not_see_each_other(engine):
    whole = engine.decide(SCHEMA, TEXT, isolate=True)
    assert whole.provenance.prompt_version == "jevmlx-isolated-v1"
    assert [made.field for made in whole.provenance.prompts] == list(SCHEMA)
    turned = dict(reversed([(f"renamed_{name}", spec) for name, spec in SCHEMA.items() if name != "priority"]))
    fewer = engine.decide(turned, TEXT, isolate=True)
    for name in SCHEMA.keys() - {"priority"}:
        one, other = whole[name].to_dict(), fewer[f"renamed_{name}"].to_dict()
        del one["name"], other["name"]
        assert one == other
    # The context is computed for the first question and held for the others.
    assert fewer.timings.computed_tokens < fewer.timings.cached_tokens


def test_many_contexts_stream_in_order_and_a_bad_one_is_a_record(engine):
    taken = []

    def contexts():
        for item in ("one", b"two", b"\xff\xfe", ["no message"], "three", 4, [{"role": "user", "content": "five"}]):
            taken.append(item)
            yield item

    stream = engine.decide_many({"urgent": {"type": "boolean"}}, contexts())
    first = next(stream)
    assert isinstance(first, jevmlx.Decision)
    assert len(taken) <= 3, "contexts are taken as results are"
    rest = list(stream)
    codes = [found.code if isinstance(found, jevmlx.DecisionError) else "" for found in rest]
    assert codes == ["", "prompt.encoding", "prompt.messages.type", "", "prompt.context", ""]
    assert [found.index for found in rest if isinstance(found, jevmlx.DecisionError)] == [2, 3, 5]
    with pytest.raises(jevmlx.SchemaError):
        engine.decide_many({}, ["x"])


def test_merged_contexts_say_so_and_stay_close(engine):
    texts = [f"{TEXT} Ticket {number}." for number in range(6)]
    alone = list(engine.decide_many(SCHEMA, texts))
    merged = list(engine.decide_many(SCHEMA, texts, merge=True))
    assert [found.provenance.merged for found in merged] == [6] * 6
    assert [found.provenance.merged for found in alone] == [0] * 6
    for one, other in zip(alone, merged, strict=True):
        assert one.values == other.values
        for name in one.fields:
            for choice, score in one[name].log_scores.items():
                assert other[name].log_scores[choice] == pytest.approx(score, abs=TOLERANCE)


def test_a_cancelled_call_frees_its_place(engine):
    async def scenario():
        started = threading.Event()
        release = threading.Event()

        def hold():
            started.set()
            release.wait(30)

        held = engine.submit(hold)
        await asyncio.to_thread(started.wait, 30)
        waiting = asyncio.create_task(engine.adecide({"urgent": {"type": "boolean"}}, "cancel me"))
        after = asyncio.create_task(engine.adecide({"urgent": {"type": "boolean"}}, "serve me"))
        await asyncio.sleep(0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        held.result(30)
        return await asyncio.wait_for(after, 30)

    assert isinstance(asyncio.run(scenario()), jevmlx.Decision)


def test_a_context_that_does_not_fit(engine):
    long = "The parcel is late. " * 2500
    with pytest.raises(jevmlx.PromptError) as caught:
        engine.decide({"urgent": {"type": "boolean"}}, long)
    assert caught.value.code == "prompt.too_long"
    assert str(engine.context_window)[:2] in caught.value.message or "fit" in caught.value.message


@pytest.mark.parametrize("keep", ["keep_head", "keep_tail"])
def test_truncation_keeps_the_fence_and_is_recorded(engine, keep):
    schema = {"urgent": {"type": "boolean"}}
    text = "first " + "The parcel is late. " * 40 + "last"
    short = jevmlx.Engine.__new__(jevmlx.Engine)
    short.__dict__.update(engine.__dict__, context_window=200)
    decision = short.decide(schema, text, overflow=keep)
    cut = decision.provenance.truncation
    assert cut.kept == keep
    assert 0 < cut.kept_tokens < cut.context_tokens
    kept = text[: cut.kept_characters] if keep == "keep_head" else text[-cut.kept_characters :]
    compiled = short.compile(schema)
    prompt = compiled.prompt(kept)
    assert decision.provenance.prompt_sha256 == prompt.sha256
    assert len(prompt.ids) + compiled.row_depth <= 200
    nonce = jevmlx.context_nonce(kept)
    assert f"<<<CONTEXT:{nonce}\n{kept}\nCONTEXT:{nonce}>>>" in prompt.text
    with pytest.raises(jevmlx.PromptError):
        short.decide(schema, text)


def test_any_folder_in_mlx_lms_format_decides_the_same(engine, tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    for path in engine.source.path.iterdir():
        if path.name != "manifest.json":
            (folder / path.name).symlink_to(path)
    own = jevmlx.load(str(folder))
    decision = own.decide(SCHEMA, TEXT)
    assert decision.provenance.model_id == str(folder)
    assert len(decision.provenance.model_revision) == 64
    expected = engine.decide(SCHEMA, TEXT)
    assert {n: r.to_dict() for n, r in decision.fields.items()} == {n: r.to_dict() for n, r in expected.fields.items()}
    # The model it loaded is the caller's to use, from any thread.
    import mlx.core as mx

    assert own.model(mx.array([[1, 2, 3]])).shape[1] == 3
    own.close()
    own.close()
    with pytest.raises(jevmlx.ModelError) as caught:
        own.decide(SCHEMA, TEXT)
    assert caught.value.code == "model.closed"


BAD = [
    ({"temperature": 0}, "config.temperature"),
    ({"temperature": float("nan")}, "config.temperature"),
    ({"temperature": True}, "config.temperature"),
    ({"scoring": "both"}, "config.scoring"),
    ({"overflow": "drop"}, "config.overflow"),
    ({"nonce_key": "text"}, "config.nonce_key"),
    ({"nonce_key": b""}, "prompt.nonce_key"),
    ({"messages": []}, "config.context"),
    ({"isolate": True, "context": None, "messages": [{"role": "user", "content": "x"}]}, "config.isolate"),
]


@pytest.mark.parametrize(("options", "code"), BAD)
def test_bad_options(engine, options, code):
    with pytest.raises(jevmlx.JevmlxError) as caught:
        engine.decide(SCHEMA, **({"context": TEXT} | options))
    assert caught.value.code == code
