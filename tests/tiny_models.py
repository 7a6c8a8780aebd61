"""Small models with random weights, of every kind of attention, head and rotary embedding that must score alike."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path

VOCABULARY = 320
_COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
_LONGROPE = {"type": "longrope", "long_factor": [1.5] * 8, "short_factor": [1.0] * 8}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama, scaled rotary": {"model_type": "llama", "tie_word_embeddings": True, "rope_scaling": _LLAMA3, **_COMMON},
    "llama, traditional rotary, own head": {
        "model_type": "llama",
        "tie_word_embeddings": False,
        "rope_traditional": True,
        **_COMMON,
    },
    "llama, alternating sliding window": {
        "model_type": "llama",
        "tie_word_embeddings": True,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        **_COMMON,
    },
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True, "rope_theta": 1e6, **_COMMON},
    "qwen3, yarn": {
        "model_type": "qwen3",
        "tie_word_embeddings": True,
        "rope_theta": 1e6,
        "head_dim": 16,
        "rope_scaling": _YARN,
        **_COMMON,
    },
    "gemma2, soft-capped": {"model_type": "gemma2", "head_dim": 16, **_COMMON},
    "gemma3, sliding window": {
        "model_type": "gemma3_text",
        "head_dim": 16,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        **_COMMON,
    },
    "phi3, partial longrope": {
        "model_type": "phi3",
        "partial_rotary_factor": 1.0,
        "rope_scaling": _LONGROPE,
        "original_max_position_embeddings": 64,
        **_COMMON,
    },
    "stablelm, partial rotary": {
        "model_type": "stablelm",
        "rope_theta": 1e4,
        "use_qkv_bias": True,
        "partial_rotary_factor": 0.5,
        "layer_norm_eps": 1e-5,
        **_COMMON,
    },
    "cohere, scaled logits": {"model_type": "cohere", "layer_norm_eps": 1e-5, **_COMMON},
    "granite, multipliers": {
        "model_type": "granite",
        "logits_scaling": 4.0,
        "attention_multiplier": 0.25,
        "embedding_multiplier": 2.0,
        "residual_multiplier": 0.5,
        "attention_bias": False,
        "mlp_bias": False,
        "rope_theta": 1e4,
        **_COMMON,
    },
    "gpt_neox, head inside the body": {
        "model_type": "gpt_neox",
        "rotary_pct": 0.25,
        "rotary_emb_base": 10000,
        "use_parallel_residual": True,
        "layer_norm_eps": 1e-5,
        **_COMMON,
    },
}
RECURRENT = {
    "model_type": "mamba2",
    "num_heads": 4,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "state_size": 16,
    "num_hidden_layers": 2,
    "layer_norm_epsilon": 1e-5,
    "conv_kernel": 4,
    "n_groups": 1,
    "use_bias": False,
    "use_conv_bias": True,
    "tie_word_embeddings": True,
    "time_step_limit": (0.0, 100.0),
    "time_step_rank": "auto",
}
# Rotating keys and values in one layer, a recurrent state in the others.
HYBRID = {
    "model_type": "recurrent_gemma",
    "attention_bias": False,
    "conv1d_width": 4,
    "logits_soft_cap": 30.0,
    "rope_theta": 1e4,
    "attention_window_size": 16,
    "block_types": ["recurrent", "recurrent", "attention"],
    **_COMMON,
}
LEARNED_POSITIONS = {
    "model_type": "gpt2",
    "n_ctx": 512,
    "n_embd": 64,
    "n_head": 4,
    "n_layer": 2,
    "n_positions": 512,
    "layer_norm_epsilon": 1e-5,
    "vocab_size": VOCABULARY,
}


def make(config: dict[str, Any], *, seed: int = 0, quantized: bool = False) -> Any:
    """A model with random weights large enough that its answers differ."""
    module = import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(seed)
    model = module.Model(module.ModelArgs.from_dict(config))

    def spread(name: str, value: mx.array) -> mx.array:
        if "norm" in name or value.ndim < 2:
            return value
        return mx.random.normal(value.shape) * (
            1.0 if "embed" in name or "lm_head" in name else value.shape[-1] ** -0.5
        )

    model.update(tree_map_with_path(spread, model.parameters()))
    if quantized:
        nn.quantize(model, group_size=32, bits=8)
    mx.eval(model.parameters())
    return model
