"""How long does the exact alias search take, and how much better is its optimum than a bounded search?"""

import statistics
import time

import pytest

import jevmlx
from jevmlx.tokenizers import adapt
from reference import codebook
from reference.loading import load_tokenizer

# The reference's bounded search is Python; a small cap keeps it to seconds and its results what a capped search gives.
VISITS = 200


@pytest.mark.parametrize("name", ["qwen2.5", "gemma"])
def test_every_size(benchmark, figure, name):
    tokenizer = adapt(load_tokenizer(name))
    singles, pairs = codebook.pools()[2], codebook.pools()[3]
    ids = {
        pool: tokenizer.encode_data([f'{{"field": "{code}"}}' for code in codes])
        for pool, codes in (("1", singles), ("2", pairs))
    }
    worst, times, better = 0.0, [], 0
    for n in range(2, 256):
        candidates = ids["1"] if n <= len(singles) else ids["2"]
        start = time.perf_counter()
        found = jevmlx._core.best_codes(candidates, n)
        times.append(time.perf_counter() - start)
        worst = max(worst, times[-1])
        assert found is not None
        if n in (2, 3, 16, 26, 36, 64, 128, 255):
            codes = singles if n <= len(singles) else pairs
            bounded = codebook.bounded(list(zip(codes, map(tuple, candidates), strict=True)), n, visit_cap=VISITS)
            if bounded is not None:
                held = codebook.cost(bounded)[:4]
                assert found[1] <= tuple(held), (n, found[1], held)
                better += found[1] < tuple(held)
    benchmark(jevmlx._core.best_codes, ids["2"], 255)
    figure(
        f"codebook search, worst n of 2–255, {name}",
        worst * 1e3,
        "ms",
        "≤ 1 ms",
        f"median {statistics.median(times) * 1e3:.2f} ms",
    )
    figure(f"sizes where the exact optimum beats the bounded search, {name}", better, "of 8", "never worse")
