"""The tokenizers of the golden vectors: three real ones, unpacked from ``golden/tokenizers``, and a fake one."""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FAKE = "fake"


class FakeTokenizer:
    """Ids are ``ord(c) % 60``; the chat template joins the contents with LF and ignores everything else."""

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        return [ord(character) % 60 for character in text]

    def apply_chat_template(
        self,
        messages: Sequence[dict[str, str]],
        tokenize: bool = True,
        add_generation_prompt: bool = False,
        **kwargs: Any,
    ) -> str | list[int]:
        text = "\n".join(message["content"] for message in messages)
        return self.encode(text) if tokenize else text


@functools.cache
def load_tokenizer(name: str, golden: Path = GOLDEN) -> Any:
    """A transformers tokenizer, or the fake one; *name* is a folder of ``golden/tokenizers`` or ``"fake"``."""
    if name == FAKE:
        return FakeTokenizer()
    from transformers import AutoTokenizer

    folder = golden / "tokenizers" / name
    with tempfile.TemporaryDirectory() as unpacked:
        _unpack(folder, Path(unpacked))
        return AutoTokenizer.from_pretrained(unpacked)


def _unpack(folder: Path, target: Path) -> None:
    (target / "tokenizer.json").write_bytes(lzma.decompress((folder / "tokenizer.json.xz").read_bytes()))
    (target / "tokenizer_config.json").write_bytes((folder / "tokenizer_config.json").read_bytes())


def revisions(golden: Path = GOLDEN) -> dict[str, dict[str, str]]:
    """Tokenizer → model id, revision and the hash of its files, as recorded beside them."""
    recorded: dict[str, dict[str, str]] = json.loads((golden / "tokenizers" / "revisions.json").read_text())
    return recorded


def content_sha256(name: str, golden: Path = GOLDEN) -> str:
    """sha256 over ``tokenizer.json`` (unpacked) and ``tokenizer_config.json``, one after the other."""
    folder = golden / "tokenizers" / name
    digest = hashlib.sha256(lzma.decompress((folder / "tokenizer.json.xz").read_bytes()))
    digest.update((folder / "tokenizer_config.json").read_bytes())
    return digest.hexdigest()
