"""How fast is the user message rendered, against the hash it cannot do without?"""

import hashlib

import pytest
from bench_compile import FIVE

import jevmlx
from conftest import seconds


class Characters:
    def encode(self, text):
        return [ord(c) for c in text]


@pytest.mark.parametrize(("size", "rounds", "number"), [(4096, 50, 200), (1 << 20, 30, 5)])
def test_user_message(benchmark, figure, size, rounds, number):
    plan = jevmlx.compile_plan(FIVE, Characters())
    context = "x" * size
    data = context.encode()
    floor = seconds(lambda: hashlib.sha256(data).digest(), rounds, number)
    benchmark.pedantic(plan.user_content, (context,), rounds=rounds, iterations=number, warmup_rounds=2)
    took = benchmark.stats.stats.median
    if size == 4096:
        figure("user message, 4 kB context", took * 1e6, "µs", "≤ 15 µs", f"sha256 alone {floor * 1e6:.1f} µs")
    else:
        figure(
            "user message, 1 MB context",
            size / took / 1e9,
            "GB/s",
            "≥ 1 GB/s",
            f"sha256 alone {size / floor / 1e9:.2f} GB/s",
        )
