"""From a name to a folder, and from a folder to a loaded model, with every way in which that can fail."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from tokenizers import Tokenizer, models, pre_tokenizers

from isolation import run
from jevmlx.errors import ConfigError, JevmlxError
from jevmlx.models import load_tokenizer, resolve
from jevmlx.models.weights import parameters, read_config
from jevmlx.scoring.mlx_load import load_model, on_cpu

TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
VOCABULARY = 96
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}
QUANTIZED = {"group_size": 32, "bits": 4, "model.embed_tokens": {"group_size": 32, "bits": 8}}

cpu_only = pytest.mark.skipif(not on_cpu(), reason="weights stay as they are on a GPU")


def write_tokenizer(folder: Path, tokens: int = VOCABULARY, template: str | None = TEMPLATE) -> None:
    vocabulary = {"<unk>": 0, **{f"t{index}": index for index in range(1, tokens)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_model(folder: Path, quantization: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A small random Llama in mlx-lm's format, in float16."""
    from mlx_lm.models import llama

    folder.mkdir(parents=True)
    config = {**CONFIG, **changes}
    mx.random.seed(3)
    model = llama.Model(llama.ModelArgs.from_dict(config))
    model.set_dtype(mx.float16)
    if quantization:
        config["quantization"] = quantization
        nn.quantize(
            model,
            group_size=quantization["group_size"],
            bits=quantization["bits"],
            mode=quantization.get("mode", "affine"),
            class_predicate=lambda path, module: hasattr(module, "to_quantized") and quantization.get(path, True),
        )
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def code_of(action: Any) -> tuple[str, str]:
    with pytest.raises(JevmlxError) as caught:
        action()
    return caught.value.code, caught.value.message


def test_a_folder_is_its_own_name(folder: Path) -> None:
    source = resolve(str(folder))
    assert (source.path, source.model_id, source.revision) == (folder, str(folder), None)
    loaded = load_model(source)
    assert loaded.context_window == 128
    assert loaded.model(mx.array([[1, 2, 3]])).shape == (1, 3, VOCABULARY)
    assert load_tokenizer(source).encode("t1 t2") == loaded.tokenizer.encode("t1 t2") == [1, 2]


def hub_snapshot(folder: Path, cache: Path, commit: str) -> Path:
    repository = cache / "models--some-org--Qwen3-tiny"
    snapshot = repository / "snapshots" / commit
    shutil.copytree(folder, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return snapshot


def test_a_path_into_the_hubs_cache_is_a_hub_id(folder: Path, tmp_path: Path) -> None:
    snapshot = hub_snapshot(folder, tmp_path / "hub", "a" * 40)
    source = resolve(snapshot)
    assert (source.model_id, source.revision) == ("some-org/Qwen3-tiny", "a" * 40)


@pytest.mark.parametrize("revision", [None, "main", "b" * 40])
def test_a_cached_hub_model_is_found_offline(folder: Path, tmp_path: Path, revision: str | None) -> None:
    snapshot = hub_snapshot(folder, tmp_path / "hub", "b" * 40)
    done = run(
        "from jevmlx.models import resolve\n"
        f"source = resolve('some-org/Qwen3-tiny', revision={revision!r})\n"
        "print(source.path, source.model_id, source.revision)",
        HF_HUB_CACHE=str(tmp_path / "hub"),
        HF_HUB_OFFLINE="1",
    )
    assert done.stdout.split() == [str(snapshot), "some-org/Qwen3-tiny", "b" * 40]


@pytest.mark.parametrize("variables", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_a_hub_model_that_cannot_be_fetched(tmp_path: Path, variables: dict[str, str]) -> None:
    done = run(
        "from jevmlx import ModelError\nfrom jevmlx.models import resolve\n"
        "try:\n    resolve('some-org/absent')\nexcept ModelError as error:\n"
        "    print(error.code)\n    print(error.message)",
        HF_HUB_CACHE=str(tmp_path),
        **variables,
    )
    code, message = done.stdout.strip().split("\n", 1)
    assert code == "model.offline"
    assert "jevmlx models pull some-org/absent" in message


@pytest.mark.parametrize("name", ["./absent", "/absent/folder", "a/b/c", "", "a b", "~/absent-model"])
def test_what_is_neither_folder_nor_hub_id(name: str) -> None:
    code, message = code_of(lambda: resolve(name))
    assert code == "model.not_found"
    assert "embedded" in message


def test_a_file_is_not_a_model(folder: Path) -> None:
    assert code_of(lambda: resolve(folder / "config.json"))[0] == "model.not_found"


def test_revisions_belong_to_the_hub(folder: Path) -> None:
    for name in ("embedded", str(folder)):
        with pytest.raises(ConfigError) as caught:
            resolve(name, revision="main")
        assert caught.value.code == "config.revision"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    code, message = code_of(lambda: resolve(folder))
    assert code == "model.incomplete"
    assert name in message


def test_a_missing_shard_is_named(folder: Path) -> None:
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors").rename(folder / shards["a"])
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    code, message = code_of(lambda: resolve(folder))
    assert code == "model.incomplete"
    assert shards["b"] in message


def corrupt(content: bytes, how: str) -> bytes:
    return {
        "empty": b"",
        "header cut": content[:100],
        "data cut": content[:-1],
        "data added": content + b"\0",
        "length": b"\xff" * 8 + content[8:],
        "no JSON": content[:8] + b"\0" * 64 + content[72:],
        "no offsets": struct.pack("<Q", 10) + b'{"a": {} }',
    }[how]


@pytest.mark.parametrize("how", ["empty", "header cut", "data cut", "data added", "length", "no JSON", "no offsets"])
def test_a_damaged_weight_file_is_named(folder: Path, how: str) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(corrupt(path.read_bytes(), how))
    code, message = code_of(lambda: resolve(folder))
    assert code == "model.corrupt"
    assert str(path) in message


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"model_type": 3}', "\xff"])
def test_a_damaged_config(folder: Path, text: str) -> None:
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    assert code_of(lambda: resolve(folder))[0] == "model.corrupt"


def edit(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"model_type": "no_such_thing"}, "model.unsupported", "no_such_thing"),
        ({"model_file": "evil.py"}, "model.unsupported", "never run"),
        ({"num_hidden_layers": 3}, "model.corrupt", "config.json"),
        ({"hidden_size": 32}, "model.corrupt", "config.json"),
        ({"num_hidden_layers": "two"}, "model.corrupt", "config.json"),
    ],
)
def test_a_config_that_does_not_fit(folder: Path, changes: dict[str, Any], code: str, says: str) -> None:
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    edit(folder, **changes)
    found, message = code_of(lambda: load_model(resolve(folder)))
    assert found == code
    assert says in message


def test_a_tokenizer_larger_than_the_embedding(folder: Path) -> None:
    write_tokenizer(folder, VOCABULARY + 1)
    code, message = code_of(lambda: load_model(resolve(folder)))
    assert code == "model.vocabulary"
    assert f"up to {VOCABULARY}" in message
    assert f"{VOCABULARY} rows" in message


def test_a_tokenizer_smaller_than_the_embedding_is_fine(folder: Path) -> None:
    write_tokenizer(folder, VOCABULARY - 10)
    assert load_model(resolve(folder)).dtype


def test_no_chat_template(folder: Path) -> None:
    write_tokenizer(folder, template=None)
    assert code_of(lambda: load_model(resolve(folder)))[0] == "model.no_chat_template"


def test_a_damaged_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": 3}')
    source = resolve(folder)
    assert code_of(lambda: load_model(source))[0] == "model.tokenizer"
    assert code_of(lambda: load_tokenizer(source))[0] == "model.tokenizer"


def test_an_unknown_dtype(folder: Path) -> None:
    code, message = code_of(lambda: load_model(resolve(folder), "int8"))
    assert code == "config.dtype"
    assert "bfloat16" in message


@cpu_only
def test_a_model_too_large_for_memory(folder: Path) -> None:
    """A sparse file of a tebibyte, whose header is right."""
    path = folder / "model.safetensors"
    size = 2**40
    head = json.dumps({"w": {"dtype": "F16", "shape": [size // 2], "data_offsets": [0, size]}})
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head.encode())
        file.truncate(8 + len(head) + size)
    code, message = code_of(lambda: load_model(resolve(folder)))
    assert code == "model.memory"
    assert "2199.6 GB" in message


@cpu_only
def test_sixteen_bit_weights_are_held_in_float32(folder: Path) -> None:
    loaded = load_model(resolve(folder))
    assert (loaded.device, loaded.dtype) == ("cpu", "float32")
    stored = mx.load(str(folder / "model.safetensors"))
    held = dict(tree_flatten(loaded.model.parameters()))
    assert stored.keys() == held.keys()
    for name, value in held.items():
        assert value.dtype == mx.float32
        np.testing.assert_array_equal(np.array(value), np.array(stored[name]).astype(np.float32))


def codes(packed: np.ndarray, bits: int) -> np.ndarray:
    per_word = 32 // bits
    shifts = np.arange(per_word, dtype=np.uint32) * bits
    spread = packed[..., None] >> shifts & (2**bits - 1)
    return spread.reshape(*packed.shape[:-1], -1)


@cpu_only
def test_affine_weights_are_dequantized_exactly(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "quantized", QUANTIZED)
    loaded = load_model(resolve(folder))
    stored = {name: np.array(v) for name, v in mx.load(str(folder / "model.safetensors")).items()}
    held = {name: np.array(v) for name, v in tree_flatten(loaded.model.parameters())}
    compared = 0
    for name, value in held.items():
        stem = name.removesuffix(".weight")
        if f"{stem}.scales" not in stored:
            continue
        q = codes(stored[name], 8 if "embed" in stem else 4).astype(np.float64)
        scale, bias = (
            np.repeat(stored[f"{stem}.{part}"].astype(np.float64), 32, axis=-1) for part in ("scales", "biases")
        )
        # Exact in float64, so that one rounding remains.
        np.testing.assert_array_equal(value, (q * scale + bias).astype(np.float32))
        compared += 1
    assert compared == 2 * 7 + 2
    assert loaded.model(mx.array([[1, 2]])).dtype == mx.float32


@cpu_only
@pytest.mark.parametrize(
    "quantization",
    [
        {"group_size": 32, "bits": 4, "mode": "mxfp4"},
        {"group_size": 16, "bits": 4, "mode": "nvfp4"},
        {"group_size": 32, "bits": 8, "mode": "mxfp8"},
    ],
)
def test_other_quantizations_give_the_same_logits(tmp_path: Path, quantization: dict[str, Any]) -> None:
    """Against mlx-lm's own quantized products; sums of 64 to 128 products of float32 differ by their order."""
    from mlx_lm.utils import load_model as load_quantized

    folder = write_model(tmp_path / "quantized", quantization)
    quantized, _ = load_quantized(folder)
    quantized.set_dtype(mx.float32)
    ids = mx.array([[5, 6, 7]])
    loaded = load_model(resolve(folder))
    assert not any("Quantized" in type(m).__name__ for m in loaded.model.modules())
    np.testing.assert_allclose(np.array(loaded.model(ids)), np.array(quantized(ids)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("quantization", [None, QUANTIZED])
def test_weights_are_counted_unpacked(tmp_path: Path, quantization: dict[str, Any] | None) -> None:
    folder = write_model(tmp_path / "model", quantization)
    layer = 4 * 64 * 64 + 3 * 64 * 128 + 2 * 64
    assert parameters(folder, read_config(folder)) == 2 * 64 * VOCABULARY + 2 * layer + 64


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_dtype_asked_for_is_what_is_computed_in(folder: Path, dtype: str) -> None:
    loaded = load_model(resolve(folder), dtype)
    assert loaded.dtype == dtype
    assert str(loaded.model(mx.array([[1]])).dtype).endswith(dtype)
