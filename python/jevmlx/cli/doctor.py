"""What a bug report needs to say about the machine."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .. import __version__

_PACKAGES = ("mlx", "mlx-lm", "transformers", "tokenizers", "numpy", "scipy-openblas32")


def report() -> dict[str, Any]:
    """Versions, device and BLAS, as plain data."""
    from ..scoring.mlx_load import device_report

    found: dict[str, Any] = {
        "jevmlx": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    found.update(device_report())
    return found
