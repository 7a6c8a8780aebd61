"""What a model folder holds, read from file names and safetensors headers alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import ModelError

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json", "vocab.txt")
_INDEX = "model.safetensors.index.json"

# No real header comes near; a length beyond it means that the file is not safetensors.
_MAX_HEADER = 100_000_000
# What architectures call the tokens they were made for.
_WINDOW_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")


def check_files(folder: Path) -> None:
    """Checks that nothing is missing and no weight file is cut short.

    Raises:
        ModelError: ``model.incomplete`` naming the missing file, ``model.corrupt`` naming the broken one.
    """
    read_config(folder)
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise _incomplete(folder, "tokenizer.json")
    for path in weight_files(folder):
        header(path)


def read_config(folder: Path) -> dict[str, Any]:
    """The model's ``config.json``.

    Raises:
        ModelError: ``model.incomplete``, ``model.corrupt``.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise _incomplete(folder, path.name)
    config = _json(path, path.read_bytes())
    if not isinstance(config.get("model_type"), str):
        raise ModelError("model.corrupt", f"{path} names no model_type; it is not the configuration of a model")
    return config


def context_window(config: dict[str, Any]) -> int | None:
    """Tokens a model was made for; ``None`` where its configuration does not say."""
    for part in (config, config.get("text_config") or {}):
        for key in _WINDOW_KEYS:
            if isinstance(part.get(key), int):
                return int(part[key])
    return None


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files, by the index where there is one.

    Raises:
        ModelError: ``model.incomplete``, ``model.corrupt``.
    """
    index = folder / _INDEX
    if index.is_file():
        names = _json(index, index.read_bytes()).get("weight_map")
        if not isinstance(names, dict):
            raise ModelError("model.corrupt", f"{index} has no weight_map; fetch the model again")
        paths = [folder / str(name) for name in sorted(set(names.values()))]
    else:
        paths = sorted(folder.glob("model*.safetensors")) or [folder / "model.safetensors"]
    for path in paths:
        if not path.is_file():
            raise _incomplete(folder, path.name)
    return paths


def header(path: Path) -> dict[str, Any]:
    """A safetensors file's tensors: name → ``dtype``, ``shape``, ``data_offsets``.

    Raises:
        ModelError: ``model.corrupt`` where the header is unreadable or the file's size is another than it says.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length) if length <= min(size, _MAX_HEADER) else b""
    tensors = _json(path, text)
    tensors.pop("__metadata__", None)
    try:
        end = max((tensor["data_offsets"][1] for tensor in tensors.values()), default=0)
    except (KeyError, TypeError, IndexError) as error:
        raise ModelError("model.corrupt", f"{path} has no safetensors header") from error
    if size != 8 + length + end:
        raise ModelError(
            "model.corrupt",
            f"{path} has {size} bytes where its header says {8 + length + end}: it was cut short or damaged; "
            "fetch the model again",
        )
    return tensors


def parameters(folder: Path, config: dict[str, Any]) -> int:
    """The number of weights, quantized ones counted unpacked."""
    tensors = {name: info for path in weight_files(folder) for name, info in header(path).items()}
    quantization = config.get("quantization") or config.get("quantization_config") or {}
    default = quantization.get("group_size") or 64
    count = 0
    for name, info in tensors.items():
        stem, _, kind = name.rpartition(".")
        scales = tensors.get(f"{stem}.scales")
        if scales is None or kind not in ("weight", "scales", "biases"):
            count += math.prod(info["shape"])
        elif kind == "weight":
            own = quantization.get(stem)
            group = own.get("group_size", default) if isinstance(own, dict) else default
            count += math.prod(scales["shape"]) * group
    return count


def _json(path: Path, text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ModelError("model.corrupt", f"{path} is damaged: {error}; fetch the model again") from error
    if not isinstance(value, dict):
        raise ModelError("model.corrupt", f"{path} does not hold a JSON object")
    return value


def _incomplete(folder: Path, name: str) -> ModelError:
    return ModelError(
        "model.incomplete",
        f"{name} is missing in {folder}; a model folder needs config.json, model*.safetensors and tokenizer.json "
        "(fetch it again, or make one with mlx_lm.convert)",
    )
