"""What every benchmark shares: a paired measurement, and the table of figures that is printed and written at the end."""

import statistics
import time
from pathlib import Path

import pytest

from jevmlx import blas

# Before anything imports MLX, which binds its BLAS at once.
blas.enable()

_ROWS = []
_TABLE = Path(__file__).parent.parent / "bench-results" / "figures.md"


def seconds(call, rounds, number=1):
    """Median seconds of one call, over ``rounds`` runs of ``number`` calls each."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(number):
            call()
        times.append((time.perf_counter() - start) / number)
    return statistics.median(times)


@pytest.fixture
def figure(request):
    """Reports one figure: ``figure(what, value, unit, to_reach, floor=None)``; the row is printed and kept in the JSON."""

    def report(what, value, unit, to_reach, floor=None):
        row = {"what": what, "value": value, "unit": unit, "to_reach": to_reach, "floor": floor}
        _ROWS.append(row)
        print(f"\n{_line(row)}", flush=True)
        benchmark = request.node.funcargs.get("benchmark")
        if benchmark is not None:
            benchmark.extra_info[what] = row

    return report


def pytest_terminal_summary(terminalreporter):
    if not _ROWS:
        return
    lines = ["| figure | measured | to reach | compared to |", "|---|---|---|---|", *map(_line, _ROWS)]
    terminalreporter.section("figures")
    for line in lines:
        terminalreporter.write_line(line)
    _TABLE.parent.mkdir(exist_ok=True)
    _TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(row):
    return f"| {row['what']} | {row['value']:.4g} {row['unit']} | {row['to_reach']} | {row['floor'] or '–'} |"
