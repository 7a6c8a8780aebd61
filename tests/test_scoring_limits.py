"""The MLX backend at its limits: several threads, little memory, and none."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import mlx.core as mx
import numpy as np
import pytest

from jevmlx import ConfigError, ModelError
from jevmlx.scoring import mlx_memory
from jevmlx.scoring.mlx import MlxBackend
from jevmlx.scoring.mlx_onepass import Shapes
from test_scoring import TOLERANCE, expected, forest_of, prompt_of, wide_forest
from tiny_models import CONFIGS, HYBRID, make

SCALED = CONFIGS["llama, scaled rotary"]


@pytest.mark.parametrize("config", [SCALED, HYBRID])
def test_any_thread_gets_the_same_bits(config):
    """Loaded in one thread and called from others: nothing that is kept belongs to the thread that made it."""
    backend, lock = MlxBackend(make(config)), Lock()
    asked = [(prompt_of(40 + number % 3, seed=number % 3), 20, wide_forest(2 + number % 2)) for number in range(12)]

    def ask(question):
        with lock:
            return backend.score(*question)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, asked))
    for question, scores in zip(asked, found, strict=True):
        again = MlxBackend(make(config)).score(*question) if question is asked[0] else backend.score(*question)
        assert np.array_equal(scores.logits, again.logits)
        assert np.array_equal(scores.log_z, again.log_z)


def test_memory_stays_below_what_is_said_to_be_needed():
    """The bound that a budget is compared with holds, for short and long prompts, small and large forests."""
    config = {**SCALED, "hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 8, "vocab_size": 4096}
    backend = MlxBackend(make(config))
    for length, rows in ((40, 2), (400, 2), (400, 60), (1500, 60)):
        forest, prompt = wide_forest(rows), prompt_of(length)
        backend.score(prompt, length - 1, forest)
        before = mx.get_active_memory()
        peak = backend.score(prompt, length - 1, forest).stats.peak_bytes
        # The largest budget that is refused is one byte less than the need.
        need = _need(backend, prompt, forest)
        assert peak - before <= need <= 20 * (peak - before)
        backend.score(prompt, length - 1, forest, budget_bytes=need)


def _need(backend, prompt, forest):
    low, high = 0, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        try:
            backend._admit(backend.prefixes.get(np.array(prompt[:-1], np.int32)), 1, forest, True, middle)
            high = middle
        except ConfigError:
            low = middle
    return high


def test_a_budget_that_is_too_small_is_refused():
    backend = MlxBackend(make(SCALED))
    with pytest.raises(ConfigError, match=r"take up to \d+ bytes, 1000 are allowed") as caught:
        backend.score(prompt_of(30), 10, wide_forest(), budget_bytes=1000)
    assert (caught.value.code, caught.value.path) == ("config.memory_budget", "memory_budget_bytes")


def leave(monkeypatch, backend, tokens, keys):
    """Lets the system have only the memory that a pass of so many tokens over so many keys needs."""
    monkeypatch.setattr(mlx_memory, "_UNCHECKED_BYTES", 0)
    monkeypatch.setattr(mlx_memory, "available_memory", lambda: backend._needs.of_pass(tokens, keys))


@pytest.mark.parametrize("length", [12, 13, 40])
def test_a_wave_is_halved_where_memory_runs_out(monkeypatch, length):
    backend = MlxBackend(make(SCALED), shapes=Shapes(wave=32, least=64, most=64, step=1, scores=10**9))
    forest, prompt = wide_forest(), prompt_of(length)
    whole = backend.score(prompt, 10, forest)
    assert whole.stats.halved == 0
    # The first wave does not fit beside the prompt's last chunk; then the two waves of 31 nodes do not fit whole either.
    for room, halved in ((32, 1), (30, 3)):
        leave(monkeypatch, backend, room, length + room)
        found = backend.score(prompt, 10, forest)
        assert found.stats.halved == halved
        assert (found.stats.waves > whole.stats.waves) == (halved > 1)
        np.testing.assert_allclose(found.logits, whole.logits, atol=TOLERANCE)
        np.testing.assert_allclose(found.log_z, whole.log_z, atol=TOLERANCE)
        again = backend.score(prompt, 10, forest)
        assert np.array_equal(found.logits, again.logits)


def test_memory_that_halving_does_not_save_is_an_error(monkeypatch):
    backend = MlxBackend(make(SCALED))
    backend.score(prompt_of(40), 39, wide_forest())
    leave(monkeypatch, backend, 2, 40)
    with pytest.raises(ModelError, match="40 prompt tokens and 81 tokens of answers") as caught:
        backend.score(prompt_of(40), 39, wide_forest())
    assert caught.value.code == "model.out_of_memory"


@pytest.mark.parametrize("said", ["[metal::malloc] Unable to allocate 8 bytes", "cudaMallocAsync: out of memory"])
def test_a_device_without_memory_is_understood(said):
    """MLX's GPU allocators raise in the middle of a pass; no GPU is needed to raise the same."""
    model = make(SCALED)
    backend = MlxBackend(model)

    def fail(_x):
        raise RuntimeError(said)

    model.model.layers[1].mlp = fail
    with pytest.raises(ModelError, match=re.escape(said)) as caught:
        backend.score(prompt_of(40), 10, wide_forest())
    assert caught.value.code == "model.out_of_memory"


def test_other_errors_keep_their_own_kind():
    def stop(_done, _total):
        raise RuntimeError("stopped by the caller")

    with pytest.raises(RuntimeError, match="stopped by the caller"):
        MlxBackend(make(SCALED)).score(prompt_of(40), 10, wide_forest(), progress=stop)


def test_a_tree_deeper_than_a_wave_is_one_wave():
    model = make(SCALED)
    backend = MlxBackend(model, shapes=Shapes(wave=4, least=64, most=64, step=1, scores=10**9))
    forest = forest_of([-1, *range(7), 0], list(range(9)), [(7, [1, 2]), (8, [3, 4]), (0, [5, 6])])
    found = backend.score(prompt_of(20), 8, forest)
    np.testing.assert_allclose(found.logits, expected(model, prompt_of(20), forest)[0], atol=TOLERANCE)
    assert found.stats.waves == 2
