"""The MLX backend against the slow reference, on small random models of every kind."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten

from jevmlx import ModelError
from jevmlx.scoring.forest import TokenForest
from jevmlx.scoring.mlx import MlxBackend
from jevmlx.scoring.mlx_head import WholeHead
from jevmlx.scoring.mlx_onepass import Shapes
from reference.scorer import next_logits
from tiny_models import CONFIGS, HYBRID, LEARNED_POSITIONS, RECURRENT, VOCABULARY, make

# Logits of these models are around 8; float32 passes of other shapes differ by this much at most.
TOLERANCE = 2e-4

MODELS = {name: (config, False) for name, config in CONFIGS.items()} | {
    "llama, quantized, tied": (CONFIGS["llama, scaled rotary"], True),
    "llama, quantized, own head": (CONFIGS["llama, traditional rotary, own head"], True),
}


# Small enough that short prompts and small forests are computed in several parts.
SMALL = Shapes(wave=16, least=32, most=64, step=32, scores=6_000)


@pytest.fixture(scope="module")
def backends():
    held = {}

    def of(name, shapes=None):
        if (name, shapes) not in held:
            config, quantized = MODELS[name]
            model = make(config, quantized=quantized)
            held[name, shapes] = (model, MlxBackend(model, shapes=shapes))
        return held[name, shapes]

    return of


def forest_of(parents, tokens, branches):
    """A forest from parents, tokens and (node, allowed tokens) pairs."""
    depths = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    offsets = np.cumsum([0] + [len(allowed) for _, allowed in branches])
    flat = [token for _, allowed in branches for token in allowed]
    arrays = (tokens, parents, depths, [node for node, _ in branches], offsets, flat)
    return TokenForest(*(np.array(values, np.int32) for values in arrays))


@st.composite
def forests(draw):
    size = draw(st.integers(0, 12))
    parents = [draw(st.integers(-1, node - 1)) for node in range(size)]
    tokens = [draw(st.integers(0, VOCABULARY - 1)) for _ in range(size)]
    nodes = draw(st.lists(st.integers(-1, size - 1), min_size=1, max_size=6))
    allowed = st.lists(st.integers(0, VOCABULARY - 1), min_size=2, max_size=5, unique=True)
    return forest_of(parents, tokens, [(node, draw(allowed)) for node in nodes])


def expected(model, prompt, forest):
    """Each branch by one full pass over the prompt and the path to it."""
    logits, log_z = [], []
    for branch, node in enumerate(forest.branch_nodes.tolist()):
        path = []
        while node >= 0:
            path.append(int(forest.tokens[node]))
            node = int(forest.parents[node])
        full = next_logits(model, prompt + path[::-1])
        allowed = forest.branch_tokens[forest.branch_offsets[branch] : forest.branch_offsets[branch + 1]]
        logits.extend(full[allowed])
        log_z.append(np.log(np.exp(full - full.max()).sum()) + full.max())
    return np.array(logits), np.array(log_z)


def prompt_of(length, seed=1):
    return np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()


@pytest.mark.parametrize("name", MODELS)
def test_one_pass_is_used(backends, name):
    _, backend = backends(name)
    assert backend.mode == "one-pass", backend.reason
    # Only a class whose head cannot be run by itself is asked for the logits of every position.
    assert isinstance(backend._head, WholeHead) == (name == "gpt_neox, head inside the body")


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(forest=forests(), length=st.integers(2, 60), where=st.floats(0, 1))
def test_equals_separate_passes(backends, name, forest, length, where):
    model, backend = backends(name)
    prompt = prompt_of(length)
    found = backend.score(prompt, int(where * (length - 1)), forest)
    logits, log_z = expected(model, prompt, forest)
    np.testing.assert_allclose(found.logits, logits, atol=TOLERANCE)
    np.testing.assert_allclose(found.log_z, log_z, atol=TOLERANCE)
    assert found.logits.dtype == found.log_z.dtype == np.float32


@pytest.mark.parametrize("name", ["llama, scaled rotary", "gemma3, sliding window"])
def test_long_prompts_are_computed_in_chunks(backends, name):
    """Chunks are counted from the split, shorter where more is attended to, and told as they are done."""
    forest = forest_of([-1, 0, 0], [5, 6, 7], [(1, [1, 2]), (2, [3, 4]), (-1, [8, 9])])
    model, backend = backends(name, SMALL)
    prompt = prompt_of(230)
    for cached, ends in ((0, [64, 96, 100, 132, 164, 196, 228, 230]), (100, [132, 164, 196, 228, 230])):
        seen = []
        found = backend.score(prompt, 100, forest, progress=lambda *step, seen=seen: seen.append(step))
        np.testing.assert_allclose(found.logits, expected(model, prompt, forest)[0], atol=TOLERANCE)
        assert seen == [(end - cached, 230 - cached) for end in ends]
        assert (found.stats.cached_tokens, found.stats.computed_tokens) == (cached, 230 - cached)


def wide_forest(rows=40):
    parents, tokens, branches = [-1], [3], []
    for row in range(rows):
        parents += [0, len(parents)]
        tokens += [10 + row, 60 + row]
        branches.append((len(parents) - 1, [100 + row, 200 + row]))
    return forest_of(parents, tokens, branches)


def test_waves_hold_every_branch_once(backends):
    forest = wide_forest()
    parts = forest.waves(16)
    assert [len(part.tokens) <= 16 for part in parts] == [True] * len(parts)
    assert np.array_equal(np.concatenate([part.branch_tokens for part in parts]), forest.branch_tokens)
    model, backend = backends("gemma3, sliding window", SMALL)
    # With the last chunk of the prompt; and after it, where both do not fit into one pass.
    for length in (40, 10 + 64):
        prompt = prompt_of(length)
        found = backend.score(prompt, 10, forest)
        np.testing.assert_allclose(found.logits, expected(model, prompt, forest)[0], atol=TOLERANCE)
        assert found.stats.waves == len(parts) > 1
        assert found.stats.row_tokens == sum(len(part.tokens) for part in parts)


@pytest.mark.parametrize("shapes", [None, SMALL])
@pytest.mark.parametrize("name", ["llama, scaled rotary", "gemma2, soft-capped", "gemma3, sliding window"])
def test_the_same_bits(backends, name, shapes):
    """Cold, warm, computed anew, without the legal mass, after other questions, under a budget: no bit changes."""
    model, backend = backends(name, shapes)
    forest, prompt = wide_forest(), prompt_of(190, seed=2)
    cold = backend.score(prompt, 50, forest)
    warm = backend.score(prompt, 50, forest)
    assert (cold.stats.cached_tokens, warm.stats.cached_tokens) == (0, 50)
    backend.score(prompt_of(33, seed=3), 7, wide_forest(3))
    plain = backend.score(prompt, 50, forest, legal_mass=False)
    assert plain.log_z is None
    others = [warm, plain, backend.score(prompt, 50, forest, budget_bytes=2**24)]
    others.append(MlxBackend(model, prefix_cache_bytes=0, shapes=shapes).score(prompt, 50, forest))
    assert others[-1].stats.cached_tokens == 0
    for other in others:
        assert np.array_equal(cold.logits, other.logits)
        assert other.log_z is None or np.array_equal(cold.log_z, other.log_z)


def test_every_split_is_served(backends):
    """Nothing before the split, nothing after it; with a branch at the prompt's end and without."""
    model, backend = backends("qwen2")
    prompt = prompt_of(30)
    at_end = forest_of([], [], [(-1, [8, 9])])
    below = forest_of([-1, 0], [5, 6], [(1, [1, 2])])
    for forest in (at_end, below):
        for split in (0, 1, 29, 30):
            logits, log_z = expected(model, prompt, forest)
            found = backend.score(prompt, split, forest)
            np.testing.assert_allclose(found.logits, logits, atol=TOLERANCE)
            np.testing.assert_allclose(found.log_z, log_z, atol=TOLERANCE)


def test_the_prefix_cache_keeps_its_bound():
    model = make(CONFIGS["llama, scaled rotary"])
    per_token = 3 * 2 * 2 * 16 * 4  # layers, keys and values, heads, dims, bytes
    backend = MlxBackend(model, prefix_cache_bytes=100 * per_token)
    forest = wide_forest(2)
    prompts = [prompt_of(60, seed) for seed in range(4)]
    for prompt in prompts:
        backend.score(prompt, 40, forest)
        assert backend.prefixes.held_bytes <= 100 * per_token
    assert backend.score(prompts[3], 40, forest).stats.cached_tokens == 40
    assert backend.score(prompts[0], 40, forest).stats.cached_tokens == 0
    assert backend.score(prompt_of(200), 150, forest).stats.cached_tokens == 0
    assert backend.score(prompt_of(200), 150, forest).stats.cached_tokens == 0, "larger than the bound: not held"


@pytest.mark.parametrize(
    ("config", "why"), [(RECURRENT, "ArraysCache"), (HYBRID, "ArraysCache"), (LEARNED_POSITIONS, "rotary")]
)
def test_what_cannot_take_a_forest_falls_back_and_agrees(config, why):
    model = make(config)
    backend = MlxBackend(model, shapes=SMALL)
    assert backend.mode == "per-path"
    assert why in backend.reason
    forest, prompt = forest_of([-1, 0, 0], [5, 6, 7], [(1, [1, 2]), (2, [3, 4]), (-1, [8, 9])]), prompt_of(90)
    logits, log_z = expected(model, prompt, forest)
    cold, warm = backend.score(prompt, 5, forest), backend.score(prompt, 5, forest)
    assert (cold.stats.cached_tokens, warm.stats.cached_tokens) == (0, 5)
    np.testing.assert_allclose(cold.logits, logits, atol=TOLERANCE)
    np.testing.assert_allclose(cold.log_z, log_z, atol=TOLERANCE)
    assert np.array_equal(cold.logits, warm.logits)


def test_numbers_that_are_none_are_an_error():
    for value in ("nan", "inf"):
        model = make(CONFIGS["qwen2"])
        backend = MlxBackend(model)
        model.model.norm.weight = model.model.norm.weight * mx.array(float(value))
        with pytest.raises(ModelError) as caught:
            backend.score(prompt_of(10), 3, wide_forest(2))
        assert caught.value.code == "model.non_finite"


def test_the_model_itself_is_unchanged(backends):
    """Wrapping the rotary embedding leaves what the model computes for others as it was."""
    config = CONFIGS["qwen3, yarn"]
    plain, wrapped = make(config), make(config)
    MlxBackend(wrapped)
    ids = mx.array([prompt_of(30)])
    assert mx.array_equal(plain(ids), wrapped(ids))
    names = [sorted(dict(tree_flatten(model.parameters()))) for model in (plain, wrapped)]
    assert names[0] == names[1]


def test_nothing_in_question_computes_nothing(backends):
    _, backend = backends("qwen2")
    found = backend.score(prompt_of(10), 3, forest_of([], [], []))
    assert (len(found.logits), found.stats.computed_tokens) == (0, 0)
