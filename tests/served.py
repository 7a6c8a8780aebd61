"""A real server process, and a small model that answers in milliseconds where only the server matters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx


def small_model(folder: Path) -> Path:
    """A random Llama of a megabyte's depth with the embedded model's tokenizer, in mlx-lm's format."""
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.models import llama

    from jevmlx.models import resolve

    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": 49152,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    }
    folder.mkdir(parents=True)
    source = resolve("embedded").path
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (source / name).exists():
            (folder / name).write_bytes((source / name).read_bytes())
    mx.random.seed(11)
    model = llama.Model(llama.ModelArgs.from_dict(config))
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


class Server:
    """``jevmlx serve`` on a free port.

    Attributes:
        url: Where it listens.
        log: Its log's events so far.
    """

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None, wait: bool = True) -> None:
        self.log: list[dict[str, Any]] = []
        command = [sys.executable, "-m", "jevmlx", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )
        self._listening = threading.Event()
        self.url = ""
        threading.Thread(target=self._read, daemon=True).start()
        assert self._listening.wait(60), self.log
        if wait:
            self.wait_until(lambda: httpx.get(f"{self.url}/ready").status_code == 200)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            event = json.loads(line) if line.startswith("{") else {"event": line}
            self.log.append(event)
            if event["event"] == "listening":
                self.url = f"http://127.0.0.1:{event['port']}"
                self._listening.set()

    def wait_until(self, true: Any, seconds: float = 60) -> None:
        """Waits until something is so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(self.log)
            try:
                if true():
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError(self.log)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log's events of one kind."""
        return [event for event in self.log if event["event"] == name]

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Ends it; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(60)
