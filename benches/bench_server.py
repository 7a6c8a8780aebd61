"""What does HTTP cost beside a call in the same process, and what becomes of it under load?"""

import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path

import httpx2 as httpx
import pytest
from bench_decide import THREE, paired, text_of

import jevmlx
from served import Server, small_model

CLIENTS = 200
SECONDS = 30


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("models") / "small")


@pytest.mark.parametrize("model", ["embedded", "small"])
def test_over_http(benchmark, figure, small, model):
    source = {"embedded": "embedded", "small": str(small)}[model]
    engine = jevmlx.load(source)
    text = text_of(engine, 50)
    server = Server("-m", f"{model}={source}")
    with httpx.Client(base_url=server.url, timeout=60) as client:
        body = {"schema": THREE, "context": text}

        def over_http():
            return client.post("/v1/decide", json=body).json()

        assert over_http()["fields"] == json.loads(engine.decide(THREE, text).to_json())["fields"]
        rounds = 15 if model == "embedded" else 300
        http, inside = paired(over_http, lambda: engine.decide(THREE, text).to_json(), rounds)
        what = f"HTTP decide, 3 fields, {model} model"
        figure(
            f"{what} ÷ in the same process", http / inside, "×", "≤ 1.05, or ≤ 1.5 ms more", f"{inside * 1e3:.2f} ms"
        )
        figure(f"{what}: more", (http - inside) * 1e3, "ms", "≤ 1.5, or ≤ 1.05 ×")
        benchmark.pedantic(over_http, rounds=3)
    server.stop()
    engine.close()


def test_under_load(benchmark, figure, small):
    schema = {"team": THREE["team"]}
    with jevmlx.load(str(small)) as engine:
        texts = [f"Client {number} writes about parcel {number * 7919}." for number in range(CLIENTS)]
        expected = [json.loads(engine.decide(schema, text).to_json())["fields"] for text in texts]
    server = Server("-m", f"small={small}", "--queue", "32")
    found = benchmark.pedantic(lambda: asyncio.run(_load(server, schema, texts, expected)), rounds=1, warmup_rounds=0)
    counts, memory = found
    server.stop()
    answered = f"{counts['right']} answered, {counts['busy']} told to come again"
    figure(f"{CLIENTS} clients for {SECONDS} s, queue of 32: wrong, mixed or lost", counts["wrong"], "", "0", answered)
    figure("the same: 5xx", counts["5xx"], "", "0")
    figure("the same: memory after 5 s to the end", (memory[-1] / memory[0] - 1) * 100, "%", "≤ 5 %", _mb(memory[0]))
    assert counts["right"] > 0


def _mb(size):
    return f"{size / 1e6:.0f} MB after 5 s"


async def _load(server, schema, texts, expected):
    counts = Counter(wrong=0, right=0, busy=0, **{"5xx": 0})
    end = time.monotonic() + SECONDS
    memory = []

    async def client(number):
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
            while time.monotonic() < end:
                try:
                    answer = await http.post("/v1/decide", json={"schema": schema, "context": texts[number]})
                except httpx.TransportError:
                    counts["wrong"] += 1
                    continue
                if answer.status_code == 429:
                    counts["busy"] += 1
                    await asyncio.sleep(float(answer.headers["retry-after"]) / 4)
                elif answer.status_code >= 500:
                    counts["5xx"] += 1
                elif answer.status_code == 200 and answer.json()["fields"] == expected[number]:
                    counts["right"] += 1
                else:
                    counts["wrong"] += 1

    async def watch():
        await asyncio.sleep(5)
        while time.monotonic() < end:
            memory.append(_resident(server.process.pid))
            await asyncio.sleep(1)
        memory.append(_resident(server.process.pid))

    await asyncio.gather(watch(), *(client(number) for number in range(CLIENTS)))
    return counts, memory


def _resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
