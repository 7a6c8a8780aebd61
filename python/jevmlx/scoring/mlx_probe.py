"""What a model can do, found out by running it on a few tokens.

mlx-lm has some hundred model classes. Instead of a list of those a forest works with, each model is asked: a tiny forest must
give what the model's plain call gives. What fails is served by the next simpler way, and the reason is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlx_lm.models.cache import KVCache, RotatingKVCache, make_prompt_cache

from .forest import TokenForest
from .mlx_forward import added, forward, wrap_rotary
from .mlx_head import Head, OutputHead, WholeHead
from .mlx_load import mx, nn
from .mlx_memory import Needs

# Two rows of eight tokens that part after the sixth: three held, two more of the prompt, three nodes each with a shared first.
_HELD, _PROMPT, _LENGTH = 3, 5, 8
_FOREST = TokenForest(
    tokens=np.zeros(5, np.int32),
    parents=np.array([-1, 0, 1, 0, 3], np.int32),
    depths=np.array([0, 1, 2, 1, 2], np.int32),
    branch_nodes=np.array([2, 4], np.int32),
    branch_offsets=np.zeros(3, np.int32),
    branch_tokens=np.zeros(0, np.int32),
)
# Largest difference that is rounding, relative to the largest logit; a wrong position or mask gives several times that.
_CLOSE = {mx.float32: 1e-3, mx.float16: 2e-2, mx.bfloat16: 6e-2}


@dataclass(frozen=True)
class Abilities:
    """How a model is run.

    Attributes:
        head: From hidden states to logits.
        windows: Per cache, the sliding window its layer has by itself; ``None`` if a forest cannot be run.
        reason: Why not; empty if it can.
        needs: What passes take.
    """

    head: Head
    windows: tuple[int | None, ...] | None
    reason: str
    needs: Needs


def probe(model: Any) -> Abilities:
    """Finds out how a model is run; wraps its rotary embeddings."""
    materialize(model)
    rows = _rows()
    expected = model(rows)
    mx.eval(expected)
    head = _find_head(model, rows, expected)
    windows, reason = _find_windows(model)
    layer_bytes = 0
    if windows is not None:
        reason, layer_bytes = _try_forest(head, windows, rows, expected)
    return Abilities(head, None if reason else windows, reason, _needs(model, expected, layer_bytes))


def _needs(model: Any, logits: mx.array, layer_bytes: int) -> Needs:
    kinds = (nn.Linear, nn.QuantizedLinear, nn.Embedding, nn.QuantizedEmbedding)
    widths = [
        int(module.weight.shape[0])
        for name, module in model.named_modules()
        if isinstance(module, kinds) and "layers" in name
    ]
    args = getattr(model, "args", None)
    return Needs(
        heads=getattr(args, "num_attention_heads", None) or 64,
        dims=getattr(args, "hidden_size", None) or max(widths, default=0),
        # A fused layer makes several of these at once.
        widest=max(widths, default=0),
        vocabulary=int(logits.shape[-1]),
        layer_bytes=layer_bytes,
        item_bytes=int(logits.dtype.size),
    )


def materialize(model: Any) -> None:
    """Computes the arrays a model holds beside its parameters (rotary frequencies).

    An array that is not computed yet belongs to the thread it was made in; these would tie the model to one thread.
    """
    for module in model.modules():
        mx.eval([value for value in (*module.values(), *vars(module).values()) if isinstance(value, mx.array)])


def _rows() -> mx.array:
    ids = np.arange(2 * _LENGTH, dtype=np.int32).reshape(2, _LENGTH) * 5 + 1
    ids[1, : _PROMPT + 1] = ids[0, : _PROMPT + 1]
    return mx.array(ids)


def _find_head(model: Any, rows: mx.array, expected: mx.array) -> Head:
    try:
        head = OutputHead(model)
        hidden = head.body(rows, cache=None)[0]
        allowed = mx.array([3] * _LENGTH)
        if _close(head.all_logits(hidden), expected[0]) and _close(head.logits(hidden, allowed), expected[0, :, 3]):
            return head
    except Exception:  # noqa: S110 - whatever a model class raises when it is run in parts: it is then run whole
        pass
    return WholeHead(model)


def _find_windows(model: Any) -> tuple[tuple[int | None, ...] | None, str]:
    windows: list[int | None] = []
    for cache in make_prompt_cache(model):
        if type(cache) is KVCache:
            windows.append(None)
        elif type(cache) is RotatingKVCache and cache.keep == 0:
            windows.append(cache.max_size)
        else:
            return None, f"a layer keeps its state in a {type(cache).__name__}, not as keys and values of single tokens"
    return tuple(windows), ""


def _try_forest(head: Head, windows: tuple[int | None, ...], rows: mx.array, expected: mx.array) -> tuple[str, int]:
    """Runs the tiny forest; says what is wrong, or nothing, and what one token's keys and values take in a layer."""
    if not wrap_rotary(head.body):
        return "it has no rotary embedding, so positions cannot be given one by one", 0
    ids = np.array(rows)
    forest = replace(_FOREST, tokens=np.concatenate([ids[0, _PROMPT:], ids[1, _PROMPT + 1 :]]))
    try:
        _hidden, caches = forward(head.body, windows, ids[0, :_HELD], None, ())
        held = added(caches, _HELD)
        hidden, _ = forward(head.body, windows, ids[0, _HELD:_PROMPT], forest, (held,))
        wanted = mx.concatenate([expected[0, _HELD:], expected[1, _PROMPT + 1 :]])
        same = _close(head.all_logits(hidden), wanted)
    except Exception as error:
        return f"its class does not take such a cache: {type(error).__name__}: {error}", 0
    if not same:
        return "a forest gives other logits than its plain call", 0
    return "", max(keys.nbytes + values.nbytes for keys, values in held) // _HELD


def _close(found: mx.array, expected: mx.array) -> bool:
    found, wanted = found.astype(mx.float32), expected.astype(mx.float32)
    return found.shape == wanted.shape and bool(
        mx.abs(found - wanted).max() <= _CLOSE[expected.dtype] * mx.abs(wanted).max()
    )
