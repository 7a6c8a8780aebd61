"""From the name of a model to a folder in mlx-lm's format."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, ModelError
from . import embedded
from .cache import content_hash
from .weights import check_files

EMBEDDED = "embedded"

# What mlx-lm fetches, less program files: a model's own code is never run.
_PATTERNS = [
    "*.json",
    "model*.safetensors",
    "tokenizer.model",
    "*.tiktoken",
    "*.txt",
    "*.jsonl",
    "*.jinja",
]
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


@dataclass(frozen=True)
class ModelSource:
    """Where a model's files are, and what names them in a record.

    Attributes:
        path: A folder in mlx-lm's format.
        model_id: A hub id, the folder as given, or ``embedded/…``.
        revision: The hub's commit hash, or the embedded model's package version; ``None`` for a folder.
        content_hash: SHA-256 over the files where they are hashed anyway (the embedded model).
    """

    path: Path
    model_id: str
    revision: str | None = None
    content_hash: str | None = None


def resolve(
    model: str | Path, *, revision: str | None = None, progress: embedded.Progress | None = None
) -> ModelSource:
    """Finds a model, fetching it if it is not on this machine yet.

    Args:
        model: ``"embedded"``, a folder, or a hub id (``org/name``). A folder in the hub's cache is read as its hub id.
        revision: Branch, tag or commit, for a hub id.
        progress: Told what is being done, a line a step.

    Raises:
        ModelError: ``model.not_found``, ``model.offline``, ``model.incomplete``, ``model.corrupt``,
            ``model.embedded.missing`` or ``model.cache``.
        ConfigError: ``config.revision`` where there is only one revision.
    """
    name = str(model)
    if name == EMBEDDED:
        _refuse(revision, "the embedded model has one revision")
        folder = embedded.embedded_folder(progress)
        return ModelSource(folder, embedded.MODEL_ID, embedded.REVISION, content_hash(folder))
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        _refuse(revision, f"{name} is a folder, which has no revisions")
        source = _local(folder)
    elif folder.exists() or not _HUB_ID.fullmatch(name):
        raise ModelError(
            "model.not_found",
            f"{name!r} is not a folder, and cannot be a hub id (org/name); give one of these, or 'embedded'",
        )
    else:
        source = _from_hub(name, revision)
    check_files(source.path)
    return source


def pull(model: str, *, revision: str | None = None, progress: embedded.Progress | None = None) -> ModelSource:
    """Fetches a model so that later use needs no network; the same as :func:`resolve`, which see."""
    return resolve(model, revision=revision, progress=progress)


def load_tokenizer(source: ModelSource) -> Any:
    """The transformers tokenizer of a model, without its weights; a model's own code is never run.

    Raises:
        ModelError: ``model.tokenizer`` where it cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(source.path, local_files_only=True)
    except Exception as error:
        raise tokenizer_error(source, error) from error


def tokenizer_error(source: ModelSource, error: Exception) -> ModelError:
    """The error for a tokenizer that could not be read: transformers raises whatever its parts raise."""
    return ModelError(
        "model.tokenizer",
        f"the tokenizer of {source.model_id} cannot be read: {type(error).__name__}: {error}; fetch the "
        f"model again, or repair the tokenizer files in {source.path}",
    )


def _refuse(revision: str | None, why: str) -> None:
    if revision is not None:
        raise ConfigError("config.revision", f"revision={revision!r}: {why}; leave revision out", "revision")


def _local(folder: Path) -> ModelSource:
    """A folder, or a snapshot in the hub's cache (``models--org--name/snapshots/<commit>``)."""
    whole = folder.absolute()
    repository = whole.parent.parent.name
    if whole.parent.name == "snapshots" and repository.startswith("models--"):
        model_id = repository.removeprefix("models--").replace("--", "/", 1)
        return ModelSource(folder, model_id, whole.name)
    return ModelSource(folder, str(folder))


def _from_hub(model_id: str, revision: str | None) -> ModelSource:
    from huggingface_hub import errors, snapshot_download

    try:
        path = snapshot_download(model_id, revision=revision, allow_patterns=_PATTERNS)
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise ModelError(
            "model.not_found",
            f"the hub has no model {model_id!r} at revision {revision or 'main'!r}, or it is private or gated "
            "(HF_TOKEN); a folder must exist, and the model that needs no hub is called 'embedded'",
        ) from error
    except (errors.HFValidationError, ValueError) as error:
        raise ModelError("model.not_found", f"{model_id!r} is not a hub id: {error}") from error
    except Exception as error:  # The HTTP client's own errors, by whatever name.
        why = "offline mode is on (HF_HUB_OFFLINE)" if embedded.offline() else str(error)
        raise ModelError(
            "model.offline",
            f"{model_id!r} at revision {revision or 'main'!r} is not in the hub's cache and cannot be fetched: {why}. "
            f"With a network, run 'jevmlx models pull {model_id}'; or give a folder",
        ) from error
    return ModelSource(Path(path), model_id, Path(path).name)
