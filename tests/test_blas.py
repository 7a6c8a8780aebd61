"""OpenBLAS in place of the reference BLAS: in use, right, and harmless where it cannot be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from isolation import run, site_without

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a BLAS is interposed on Linux only")

# Writes each product and the calls that it forwarded; argument 1 is the file.
PRODUCTS = """
import sys, warnings
warnings.simplefilter("ignore")
from jevmlx import _core, blas
blas.enable()
import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
rng = np.random.default_rng(7)
TYPES = {"s": (np.float32, mx.float32), "d": (np.float64, mx.float64), "c": (np.complex64, mx.complex64)}
SHAPES = [((1, 1), (1, 1)), ((3, 7), (7, 5)), ((65, 33), (33, 129)), ((257, 511), (511, 63)),
          ((2, 5, 9), (2, 9, 4)), ((3, 1, 6, 17), (5, 17, 8)), ((4, 0), (0, 6)), ((0, 3), (3, 2))]

def draw(shape, kind):
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if kind == "c" else values

out = {}
for kind, (array_type, mlx_type) in TYPES.items():
    for index, (left, right) in enumerate(SHAPES):
        for turned in ("nn", "nt", "tn", "tt"):
            a, b = draw(left, kind).astype(array_type), draw(right, kind).astype(array_type)
            stored = [np.ascontiguousarray(x.swapaxes(-1, -2)) if t == "t" else x for x, t in zip((a, b), turned)]
            given = [mx.array(x, dtype=mlx_type) for x in stored]
            given = [x.swapaxes(-1, -2) if t == "t" else x for x, t in zip(given, turned)]
            before = _core.blas_calls()
            product = mx.matmul(*given)
            mx.eval(product)
            name = f"{kind}-{index}-{turned}"
            out[f"{name}-a"], out[f"{name}-b"], out[f"{name}-product"] = a, b, np.array(product)
            out[f"{name}-calls"] = np.array(_core.blas_calls() - before)
np.savez(OUT, **out)
"""


def products(path: Path, **variables: str) -> dict[str, np.ndarray]:
    run(f"OUT = {str(path)!r}\n{PRODUCTS}", **variables)
    with np.load(path) as data:
        return dict(data)


def status(**variables: str) -> dict[str, object]:
    done = run(
        "import json, dataclasses\nfrom jevmlx import blas\nprint(json.dumps(dataclasses.asdict(blas.enable())))",
        **variables,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return products(tmp_path_factory.mktemp("blas") / "fast.npz")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return products(tmp_path_factory.mktemp("blas") / "slow.npz", JEVMLX_BLAS="off")


def names(data: dict[str, np.ndarray]) -> list[str]:
    return [key.removesuffix("-product") for key in data if key.endswith("-product")]


def test_every_product_that_has_work_is_forwarded(fast: dict[str, np.ndarray]) -> None:
    for name in names(fast):
        has_work = fast[f"{name}-a"].size and fast[f"{name}-b"].size
        assert (fast[f"{name}-calls"] > 0) == bool(has_work), name


def test_switched_off_forwards_nothing(slow: dict[str, np.ndarray]) -> None:
    assert all(slow[f"{name}-calls"] == 0 for name in names(slow))


def test_fast_and_slow_agree(fast: dict[str, np.ndarray], slow: dict[str, np.ndarray]) -> None:
    """Each sum of k products is within (k + 2) · eps · Σ|a·b| of the truth, twice that where complex."""
    assert len(names(fast)) == 96
    for name in names(fast):
        a, b, one, other = (
            fast[f"{name}-a"],
            fast[f"{name}-b"],
            fast[f"{name}-product"],
            slow[f"{name}-product"],
        )
        assert np.array_equal(a, slow[f"{name}-a"])
        size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
        bound = 4 * (a.shape[-1] + 2) * np.finfo(a.dtype).eps * size
        exact = np.matmul(a.astype(np.clongdouble), b.astype(np.clongdouble))
        assert one.shape == other.shape == size.shape, name
        assert (np.abs(one - other) <= bound).all(), name
        assert (np.abs(one - exact) <= bound).all(), name


def test_status_says_what_is_in_place() -> None:
    found = status()
    assert found["active"], found
    assert "OpenBLAS" in str(found["config"])
    assert Path(str(found["library"])).is_file()


def test_threads_follow_the_environment_and_the_affinity() -> None:
    assert status(OPENBLAS_NUM_THREADS="1")["threads"] == 1
    done = run(
        "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from jevmlx import blas\nprint(blas.enable().threads)"
    )
    assert done.stdout.split() == ["1"]


def test_enabling_twice_and_from_many_threads_gives_one_status() -> None:
    done = run(
        "from concurrent.futures import ThreadPoolExecutor\nfrom jevmlx import blas\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    found = list(pool.map(lambda _: blas.enable(), range(64)))\n"
        "print(all(x is found[0] for x in found), found[0].active, blas.status() is found[0])"
    )
    assert done.stdout.split() == ["True", "True", "True"]


MULTIPLY = """
import mlx.core as mx
mx.set_default_device(mx.cpu)
product = mx.matmul(mx.array([[1.0, 2.0]]), mx.array([[3.0], [5.0]])).item()
print(product, _core.blas_calls(), blas.status().active)
print(blas.status().reason)
"""


def test_without_the_package_nothing_changes(tmp_path: Path) -> None:
    site = site_without(tmp_path / "site", "scipy_openblas32")
    done = run(f"from jevmlx import _core, blas\nblas.enable()\n{MULTIPLY}", site=site)
    assert done.stdout.splitlines()[0] == "13.0 0 False"
    assert "scipy-openblas32 is not installed" in done.stdout
    assert "RuntimeWarning" in done.stderr


def test_a_library_that_cannot_be_loaded_changes_nothing(tmp_path: Path) -> None:
    site = site_without(tmp_path / "site", "scipy_openblas32")
    library = site / "scipy_openblas32" / "lib" / "libscipy_openblas.so"
    library.parent.mkdir(parents=True)
    (site / "scipy_openblas32" / "__init__.py").touch()
    library.write_bytes(b"not a library")
    done = run(f"from jevmlx import _core, blas\nblas.enable()\n{MULTIPLY}", site=site)
    assert done.stdout.splitlines()[0] == "13.0 0 False"
    assert "cannot be loaded" in done.stdout


def test_a_global_extension_without_a_target_uses_mlx_own_blas() -> None:
    """Whoever loads extensions globally puts the forwarding functions in front of MLX before they have a target."""
    done = run(
        f"import os, sys\nsys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)\nfrom jevmlx import _core, blas\n{MULTIPLY}"
    )
    assert done.stdout.splitlines()[0] == "13.0 0 False"


def test_mlx_imported_first_is_noticed() -> None:
    done = run(
        "import mlx.core as mx\nfrom jevmlx import _core, blas\nblas.enable()\n"
        "multiply = lambda: mx.eval(mx.matmul(mx.ones((2, 2)), mx.ones((2, 2)), stream=mx.cpu))\n"
        f"blas.confirm(multiply)\n{MULTIPLY}"
    )
    assert done.stdout.splitlines()[0] == "13.0 0 False"
    assert "import mlx after" in done.stdout
    assert "RuntimeWarning" in done.stderr
