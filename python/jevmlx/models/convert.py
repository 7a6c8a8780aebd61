"""SmolLM2 from GGUF to a folder in mlx-lm's format.

Weights stay quantized: GGUF's Q4_1 and Q8_0 are exactly MLX's affine groups of 32, so the folder holds the same values as the
GGUF in the same 98 MB (float32 would take 540 MB). How they are held in memory is decided when the model is loaded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .gguf import BLOCK, F32, Q4_1, GgufFile, affine_groups

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}

# GGUF's token type of control tokens.
_CONTROL = 3


def convert(gguf: Path, folder: Path) -> None:
    """Writes ``config.json``, ``model.safetensors``, ``tokenizer.json`` and ``tokenizer_config.json``.

    Args:
        gguf: A Llama model with tied embeddings, in F32, Q4_1 and Q8_0.
        folder: An existing folder.

    Raises:
        ValueError: The file is damaged or is another kind of model.
    """
    from safetensors.numpy import save_file

    source = GgufFile(gguf)
    if source.metadata.get("general.architecture") != "llama" or "output.weight" in source.tensors:
        raise ValueError(f"{gguf.name} is not a Llama model with tied embeddings")
    config = model_config(source.metadata)
    save_file(_weights(source, config), folder / "model.safetensors", metadata={"format": "mlx"})
    _write_json(folder / "config.json", config)
    _write_tokenizer(source.metadata, folder)


def model_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """mlx-lm's configuration of the model that GGUF metadata describes."""

    def value(key: str) -> Any:
        return metadata[f"llama.{key}"]

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": value("embedding_length"),
        "intermediate_size": value("feed_forward_length"),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": value("attention.head_count"),
        "num_key_value_heads": value("attention.head_count_kv"),
        "max_position_embeddings": value("context_length"),
        "vocab_size": value("vocab_size"),
        # The shortest number that names the same float32.
        "rms_norm_eps": float(str(np.float32(value("attention.layer_norm_rms_epsilon")))),
        "rope_theta": value("rope.freq_base"),
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "quantization": {
            "group_size": BLOCK,
            "bits": 4,
            "model.embed_tokens": {"group_size": BLOCK, "bits": 8},
        },
    }


def _weights(source: GgufFile, config: dict[str, Any]) -> dict[str, NDArray[Any]]:
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    found: dict[str, NDArray[Any]] = {}
    for stored, tensor in source.tensors.items():
        parts = stored.split(".")
        layered = parts[0] == "blk"
        short = parts[2] if layered else parts[0]
        name = f"model.layers.{parts[1]}.{_LAYER_NAMES[short]}" if layered else _OUTER_NAMES[short]
        if tensor.kind == F32:
            found[f"{name}.weight"] = _halved(tensor.data)
            continue
        if (tensor.kind == Q4_1) is (short == "token_embd"):
            raise ValueError(f"{stored} is not quantized as this conversion expects")
        weight, scales, biases = affine_groups(tensor)
        for suffix, array in (("weight", weight), ("scales", scales), ("biases", biases)):
            rows = _split_halves(array, heads[short]) if short in heads else array
            found[f"{name}.{suffix}"] = rows
    return found


def _split_halves(array: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows of q or k in the order of rotary embedding by halves.

    llama.cpp rotates neighbouring rows (0, 1), (2, 3), …; mlx-lm rotates row i with row i + head size ÷ 2.
    """
    rows, columns = array.shape
    pairs = array.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)


def _halved(values: NDArray[Any]) -> NDArray[Any]:
    """Float16 where it holds the values exactly, so that nothing in the model is promoted to float32 on a GPU."""
    half = values.astype(np.float16)
    return half if np.array_equal(half.astype(np.float32), values) else values


def _write_tokenizer(metadata: dict[str, Any], folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in control])
    tokenizer.save(str(folder / "tokenizer.json"))

    def token(role: str) -> str:
        index: int = metadata[f"tokenizer.ggml.{role}_token_id"]
        return tokens[index]

    _write_json(
        folder / "tokenizer_config.json",
        {
            # The class that takes tokenizer.json as it is; others rebuild the splitting of text from their own rules.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": token("bos"),
            "eos_token": token("eos"),
            "pad_token": token("padding"),
            "unk_token": token("unknown"),
            "chat_template": metadata["tokenizer.chat_template"],
            "clean_up_tokenization_spaces": False,
            "model_max_length": metadata["llama.context_length"],
        },
    )


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
