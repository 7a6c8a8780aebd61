"""Loads a model with MLX, in the form its device computes fastest.

On a GPU a model keeps its own types. On a CPU, MLX's 16-bit and quantized products are slower than float32 ones by two to three
orders of magnitude, so weights are held in float32 there; dequantized weights have the same values.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from .. import blas
from ..errors import ConfigError, ModelError
from ..limits import available_memory
from ..models.resolve import ModelSource, tokenizer_error
from ..models.weights import check_files, context_window, parameters, read_config

# Before the first import of MLX: its extension binds its BLAS while it is loaded.
blas.enable()

try:
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten, tree_map_with_path, tree_unflatten
except ImportError as error:
    raise ModelError(
        "model.backend",
        f"MLX cannot be imported: {error}. On Linux it comes with 'jevmlx[cpu]' or, for an NVIDIA GPU, 'jevmlx[cuda]'",
    ) from error

# The other files get MLX from here, so that the BLAS is in place first.
__all__ = [
    "LoadedModel",
    "device_report",
    "load_model",
    "mx",
    "nn",
    "on_cpu",
    "prepare_device",
    "release_thread",
    "tree_flatten",
    "unpacked",
]

DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}

# Beside the weights: the process itself, activations and a short prompt's keys and values.
_WORKING_BYTES = 512 * 2**20


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be run.

    Attributes:
        model: The mlx-lm model.
        tokenizer: mlx-lm's wrapper around the transformers tokenizer.
        config: The model's configuration.
        dtype: What its activations are computed in: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
        device: ``"cpu"`` or ``"gpu"``.
        context_window: Tokens the model was made for; ``None`` where the configuration does not say.
    """

    model: Any
    tokenizer: Any
    config: dict[str, Any]
    dtype: str
    device: str
    context_window: int | None


def load_model(source: ModelSource, dtype: str | None = None) -> LoadedModel:
    """Loads weights and tokenizer; a model's own code is never run.

    Args:
        source: The model's folder.
        dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``; by default float32 on a CPU and the model's own on a GPU.

    Raises:
        ModelError: ``model.incomplete``, ``model.corrupt``, ``model.unsupported``, ``model.memory``,
            ``model.vocabulary``, ``model.tokenizer``, ``model.no_chat_template``.
        ConfigError: ``config.dtype``.
    """
    if dtype is not None and dtype not in DTYPES:
        allowed = ", ".join(DTYPES)
        raise ConfigError("config.dtype", f"dtype is {dtype!r}; allowed are {allowed}", "dtype")
    check_files(source.path)
    config = read_config(source.path)
    prepare_device()
    if on_cpu():
        _check_memory(source, config, dtype or "float32")
    model, config = _weights(source, config)
    # Before the weights are read from disk, which takes longest.
    tokenizer = _tokenizer(source, model, config)
    if on_cpu():
        _dequantize(model)
        dtype = dtype or "float32"
    if dtype is not None:
        _cast(model, DTYPES[dtype])
    _read(source, model)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        config=config,
        dtype=dtype or _own_dtype(model),
        device="cpu" if on_cpu() else "gpu",
        context_window=context_window(config),
    )


def on_cpu() -> bool:
    """Whether MLX computes on the CPU by default."""
    return bool(mx.default_device().type == mx.DeviceType.cpu)


def prepare_device() -> None:
    """Settings of the process that make MLX fast on this device; a second call changes nothing."""
    if not on_cpu():
        return
    blas.confirm(lambda: mx.eval(mx.matmul(mx.ones((2, 2)), mx.ones((2, 2)))))
    if sys.platform.startswith("linux"):
        # Fused kernels are built by a C++ compiler, seconds each, into a predictable folder under the temporary
        # directory, and make a forward pass no faster here.
        mx.disable_compile()


def release_thread() -> None:
    """Ends the streams of the calling thread; call it before a thread that used MLX ends."""
    mx.clear_streams()


def device_report() -> dict[str, Any]:
    """Device and BLAS, as plain data for a bug report."""
    prepare_device()
    state = blas.status()
    report: dict[str, Any] = {"device": "cpu" if on_cpu() else "gpu"}
    name = mx.device_info().get("device_name")
    if name:
        report["device_name"] = name
    report["blas"] = state.reason
    if state.active:
        report["blas_library"] = state.config
        report["blas_threads"] = state.threads
    return report


def _check_memory(source: ModelSource, config: dict[str, Any], dtype: str) -> None:
    size = 4 if dtype == "float32" else 2
    # A 16-bit copy is made from float32, a tensor at a time.
    needed = parameters(source.path, config) * size + _WORKING_BYTES
    free = available_memory()
    if free is not None and needed > free:
        raise ModelError(
            "model.memory",
            f"{source.model_id} needs {needed / 1e9:.1f} GB as {dtype} on the CPU, and {free / 1e9:.1f} GB are free; "
            "free some memory, take a smaller model, or use a machine with a GPU, where it stays quantized",
        )


def _weights(source: ModelSource, config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """mlx-lm's model with its weights not read from disk yet."""
    from mlx_lm import utils

    if config.get("model_file") is not None:
        raise ModelError(
            "model.unsupported",
            f"{source.model_id} brings its own program ({config['model_file']!r}), which is never run; take a model "
            "of an architecture that mlx-lm knows",
        )
    try:
        utils._get_classes(utils.load_config(source.path))
    except ValueError as error:
        raise ModelError(
            "model.unsupported",
            f"mlx-lm knows no architecture {config['model_type']!r}, which {source.model_id} has; take another "
            "model, or a newer mlx-lm",
        ) from error
    try:
        model, full_config = utils.load_model(source.path, lazy=True, strict=True)
    except Exception as error:  # A class of mlx-lm raises what its own code meets in a wrong configuration.
        reason = str(error).strip().splitlines() or [""]
        raise ModelError(
            "model.corrupt",
            f"the weights in {source.path} do not fit its config.json: {type(error).__name__}: {reason[0]}; fetch the "
            "model again, or convert it again with mlx_lm.convert",
        ) from error
    return model, full_config


def _tokenizer(source: ModelSource, model: Any, config: dict[str, Any]) -> Any:
    from mlx_lm import utils

    try:
        tokenizer = utils.load_tokenizer(source.path, eos_token_ids=config.get("eos_token_id"))
        largest = max(tokenizer.get_vocab().values(), default=0)
    except Exception as error:
        raise tokenizer_error(source, error) from error
    rows = _embedding_rows(model)
    if rows is not None and largest >= rows:
        raise ModelError(
            "model.vocabulary",
            f"the tokenizer of {source.model_id} has ids up to {largest}, its embedding only {rows} rows: they do not "
            "belong together; fetch both from one place, or remove the tokens that were added",
        )
    if not tokenizer.has_chat_template:
        raise ModelError(
            "model.no_chat_template",
            f"{source.model_id} has no chat template, so it is no chat model or was converted without one; take its "
            "instruction-tuned form, or put its chat_template.jinja into the folder",
        )
    return tokenizer


def _embedding_rows(model: Any) -> int | None:
    """Rows of the token embedding: the model's largest, beside which others (positions, types) are small."""
    kinds = (nn.Embedding, nn.QuantizedEmbedding)
    found = (module for _name, module in model.named_modules() if isinstance(module, kinds))
    return max((int(module.weight.shape[0]) for module in found), default=None)


def _dequantize(model: Any) -> None:
    """Replaces quantized layers by plain float32 ones of the same values, one at a time."""
    from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

    for name, module in model.named_modules():
        bias = "bias" in module
        if isinstance(module, nn.QuantizedEmbedding):
            weight = unpacked(module)
            plain = nn.Embedding(*weight.shape)
        elif isinstance(module, nn.QuantizedLinear):
            weight = unpacked(module)
            plain = nn.Linear(*weight.shape[::-1], bias=bias)
        elif isinstance(module, QuantizedSwitchLinear):
            weight = unpacked(module)
            plain = SwitchLinear(*weight.shape[::-1], bias=bias)
        else:
            continue
        plain.weight = weight
        if bias:
            plain.bias = module.bias
        model.update_modules(tree_unflatten([(name, plain)]))


def unpacked(module: Any) -> mx.array:
    """A quantized layer's weight in float32, with exactly the values that scales, biases and codes stand for."""
    scales, biases = module.scales, module.get("biases")
    if module.mode == "affine":
        # The result has the scales' type, and only float32 holds scale · q + bias unrounded.
        scales = scales.astype(mx.float32)
        biases = None if biases is None else biases.astype(mx.float32)
    return mx.dequantize(
        module.weight,
        scales,
        biases,
        module.group_size,
        module.bits,
        module.mode,
        global_scale=module.get("global_scale"),
        dtype=mx.float32,
    )


def _cast(model: Any, dtype: mx.Dtype) -> None:
    """Casts floating-point weights, but for those that the model's class keeps as they are."""
    wanted = getattr(model, "cast_predicate", lambda _name: True)

    def cast(name: str, value: mx.array) -> mx.array:
        floating = mx.issubdtype(value.dtype, mx.floating)
        return value.astype(dtype) if floating and wanted(name) else value

    model.update(tree_map_with_path(cast, model.parameters()))


def _read(source: ModelSource, model: Any) -> None:
    """Reads the weights from disk, one after the other, so that packed and unpacked forms are never all held at once."""
    try:
        for _name, value in tree_flatten(model.parameters()):
            mx.eval(value)
    except RuntimeError as error:
        raise ModelError(
            "model.corrupt",
            f"the weights of {source.model_id} cannot be read: {error}; fetch the model again",
        ) from error


def _own_dtype(model: Any) -> str:
    """The floating-point type most of a model's weights, or scales of weights, have."""
    types = Counter(value.dtype for _name, value in tree_flatten(model.parameters()) if value.dtype in DTYPES.values())
    common = types.most_common(1)[0][0] if types else mx.float32
    return next(name for name, dtype in DTYPES.items() if dtype == common)
