"""Control tokens in data: they are encoded as the ordinary text they are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import Tokenizer

from .prompt import Message

# The HTML tags among Gemma's added tokens; they are ordinary text, so that HTML keeps its ids.
_TAGS = (
    "table caption thead tbody tfoot tr th td h1 h2 h3 h4 h5 h6 blockquote strong em b i u s sub sup code".split()  # noqa: SIM905
)
HTML_TAGS = {form for tag in _TAGS for form in (f"<{tag}>", f"</{tag}>")}
PRIVATE_USE = range(0xE000, 0xF900)


def is_control(text: str, special: bool) -> bool:
    """Whether an added token steers the model, by the default rule."""
    ordinary = text.strip() == "" or text.strip("▁") == "" or text in HTML_TAGS
    return special or not ordinary


class DataEncoder:
    """A tokenizer's private copy that knows no control token, and the ids of the control tokens beside it."""

    def __init__(self, backend: Tokenizer) -> None:
        spec: dict[str, Any] = json.loads(backend.to_str())
        self.control: dict[str, int] = {}
        for token in spec["added_tokens"]:
            if is_control(token["content"], token["special"]):
                token["special"] = True
                self.control[token["content"]] = token["id"]
        self.copy = Tokenizer.from_str(json.dumps(spec))
        self.copy.encode_special_tokens = True
        self.longest_first = sorted(self.control, key=len, reverse=True)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Candidates and other data: no control token comes out."""
        return [self.copy.encode(text, add_special_tokens=False).ids for text in texts]

    def render(self, turns: Sequence[Message], template: Callable[[list[Message]], str]) -> tuple[str, list[int]]:
        """The rendered text and its ids: only the control tokens that the template itself wrote become control ids."""
        taken = set("".join(turn["content"] for turn in turns))
        free = (chr(c) for c in PRIVATE_USE if chr(c) not in taken)
        stand_ins = {token: next(free) for token in self.longest_first if _occurs(token, turns)}

        def hide(text: str) -> str:
            for token, character in stand_ins.items():
                text = text.replace(token, character)
            return text

        def show(text: str) -> str:
            for token, character in stand_ins.items():
                text = text.replace(character, token)
            return text

        hidden = template([turn | {"content": hide(turn["content"])} for turn in turns])
        pattern = "|".join(re.escape(token) for token in self.longest_first)
        pieces = re.split(f"({pattern})", hidden)
        ids: list[int] = []
        for i, piece in enumerate(pieces):
            ids += [self.control[piece]] if i % 2 else self.encode([show(piece)])[0]
        return show(hidden), ids


def _occurs(token: str, turns: Sequence[Message]) -> bool:
    return any(token in turn["content"] for turn in turns)
