"""Full-speed matrix products for MLX on Linux CPUs.

MLX's CPU wheel brings the reference BLAS. Before MLX is imported, :func:`enable` puts OpenBLAS (the package
``scipy-openblas32``) in its place; ``JEVMLX_BLAS=off`` keeps the reference. Elsewhere there is nothing to do: macOS has
Accelerate, and with CUDA the products run on the GPU.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from . import _core
from .limits import cpu_count

_CUDA_BACKENDS = ("mlx-cuda-12", "mlx-cuda-13")

# OpenBLAS reads these itself; where one is set, the user has chosen.
_THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_DEFAULT_NUM_THREADS",
)
# An idle thread of OpenBLAS spins for 2**26 cycles before it sleeps, which takes the CPU from whoever has work: a decision of 0.5 s
# took 6 s beside another process like it, and takes 1.2 s with this. Alone it costs 3 %, for waking threads up.
_TIMEOUT_VARIABLE = "OPENBLAS_THREAD_TIMEOUT"
_TIMEOUT = "4"


@dataclass(frozen=True)
class BlasStatus:
    """Which BLAS serves MLX's matrix products on the CPU.

    Attributes:
        active: Whether OpenBLAS is in place.
        reason: Why, or why not; one sentence.
        library: The OpenBLAS file.
        threads: Threads OpenBLAS uses.
        config: OpenBLAS's description of itself: version, build options, CPU kernel.
    """

    active: bool
    reason: str
    library: str | None = None
    threads: int | None = None
    config: str | None = None


_lock = threading.Lock()
_status: BlasStatus | None = None


def enable() -> BlasStatus:
    """Puts OpenBLAS in place of the reference BLAS, where that applies; later calls return the first one's status.

    Call it before MLX is imported. Warns where the slow BLAS is going to be used although a fast one could be.
    """
    global _status
    with _lock:
        if _status is None:
            _status = _enable()
        return _status


def status() -> BlasStatus:
    """What :func:`enable` did."""
    return _status or BlasStatus(False, "not asked for yet")


def confirm(multiply: Callable[[], object]) -> BlasStatus:
    """Checks that MLX's products do arrive at OpenBLAS, and warns if not.

    They do not if MLX was imported before :func:`enable` was called, or if another CBLAS was in the process's global
    symbol scope first (``LD_PRELOAD``).

    Args:
        multiply: Computes a float32 matrix product with MLX on the CPU.
    """
    global _status
    with _lock:
        if _status is not None and _status.active:
            before = _core.blas_calls()
            multiply()
            if _core.blas_calls() == before:
                reason = (
                    "MLX is bound to another BLAS than the OpenBLAS jevmlx loaded, probably its slow reference one: "
                    "import mlx after jevmlx.load, or after jevmlx.blas.enable()"
                )
                _status = replace(_status, active=False, reason=reason)
                _warn(reason)
    return status()


def _enable() -> BlasStatus:
    if not sys.platform.startswith("linux"):
        return BlasStatus(False, "not needed: only MLX's Linux CPU wheel lacks a fast BLAS")
    if os.environ.get("JEVMLX_BLAS", "").lower() in ("off", "0"):
        return BlasStatus(False, "switched off by JEVMLX_BLAS")
    if any(_installed(name) for name in _CUDA_BACKENDS):
        return BlasStatus(False, "not needed: MLX's CUDA backend is installed")
    library = _find()
    if library is None:
        return _slow("the package scipy-openblas32 is not installed: pip install 'jevmlx[cpu]'")
    os.environ.setdefault(_TIMEOUT_VARIABLE, _TIMEOUT)
    try:
        _core.blas_load(str(library))
    except OSError as error:
        return _slow(f"OpenBLAS cannot be loaded: {error}")
    if not any(os.environ.get(name) for name in _THREAD_VARIABLES):
        # OpenBLAS follows the CPU affinity, but knows nothing of a container's quota.
        threads = cpu_count()
        if threads < (_core.blas_threads() or 1):
            _core.blas_set_threads(threads)
    return BlasStatus(
        True,
        "OpenBLAS is in place of the reference BLAS",
        str(library),
        _core.blas_threads(),
        _core.blas_config(),
    )


def _find() -> Path | None:
    """OpenBLAS's file, found without importing the package (which would load it globally)."""
    spec = find_spec("scipy_openblas32")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for library in sorted(Path(folder, "lib").glob("libscipy_openblas*.so*")):
            return library
    return None


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _slow(reason: str) -> BlasStatus:
    _warn(f"MLX multiplies with its slow reference BLAS: {reason}")
    return BlasStatus(False, reason)


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)
