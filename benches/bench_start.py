"""How long does it take to start: importing the package, and a whole command?"""

import subprocess
import sys
import time

from conftest import seconds


def run(*arguments):
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=120)


def test_import(benchmark, figure):
    floor = seconds(lambda: run("-c", "import json"), 15)
    benchmark.pedantic(run, ("-c", "import jevmlx"), rounds=15, warmup_rounds=2)
    own = (benchmark.stats.stats.median - floor) * 1e3
    figure("import jevmlx less import json", own, "ms", "≤ 60 ms", f"import json {floor * 1e3:.0f} ms")
    loaded = "import jevmlx, sys; sys.exit(bool({'mlx', 'transformers', 'numpy'} & set(sys.modules)))"
    run("-c", loaded)


def test_command(benchmark, figure, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text('{"urgent": {"type": "boolean", "description": "Needs a reply today"}}')
    command = ("-m", "jevmlx", "decide", str(schema), "My card was charged twice and nobody answers.")
    run(*command)
    benchmark.pedantic(run, command, rounds=3)
    whole = benchmark.stats.stats.median
    steps = _breakdown(schema.read_text())
    shown = ", ".join(f"{name} {took:.2f} s" for name, took in steps.items())
    figure("jevmlx decide to the printed answer, embedded model", whole, "s", "≤ 4 s", shown)


def _breakdown(schema):
    """The same steps inside one fresh process."""
    code = f"""
import time
laps = []
def lap(name, start):
    laps.append(f"{{name}}={{time.perf_counter() - start}}")
    return time.perf_counter()
t = time.perf_counter()
import jevmlx, jevmlx.cli.app
t = lap("import", t)
import jevmlx.scoring.mlx_load, jevmlx.scoring.mlx
t = lap("import mlx", t)
import transformers, mlx_lm.utils
t = lap("import mlx-lm and transformers", t)
engine = jevmlx.load("embedded")
t = lap("load weights and tokenizer", t)
engine.decide({schema!r}, "My card was charged twice and nobody answers.")
t = lap("first decision", t)
print(";".join(laps))
"""
    start = time.perf_counter()
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120).stdout
    whole = time.perf_counter() - start
    steps = {name: float(took) for name, took in (lap.split("=") for lap in out.strip().splitlines()[-1].split(";"))}
    return {"interpreter": whole - sum(steps.values()), **steps}
