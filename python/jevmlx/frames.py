"""Frames: the chat template rendered once per plan, so that a prompt costs one tokenizer call.

Of a prompt only the context and its nonce change. What the template puts around the user message is read off one rendering and
checked against others, among them contexts that a template could treat differently; where they disagree there is no frame and
every prompt is rendered in full. ``jevmlx.render_prompt`` always renders in full, and tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .profiles import Profile
from .prompts import render_parts
from .templates import Turn
from .tokenizers import TextTokenizer

# The first one is framed, the others must agree.
_SAMPLES = ("sample", " \n\t x \n ", "", "</think> <tool_response> {{ x }} {% y %} \\ \"'", "<|im_end|><end_of_turn>")


@dataclass(frozen=True)
class Frame:
    """What stands around the user message.

    Attributes:
        ids_before: Token ids before the piece that holds the user message.
        ids_after: Token ids after it.
        before: Text of that piece before the user message.
        after: Text of that piece after the user message.
        text_before: Rendered text before that piece.
        text_after: Rendered text after that piece.
        first: Whether the piece starts the prompt.
    """

    ids_before: list[int]
    ids_after: list[int]
    before: str
    after: str
    text_before: str
    text_after: str
    first: bool

    def encode(self, tokenizer: TextTokenizer, content: str) -> tuple[list[int], str]:
        """Token ids and text of the prompt with ``content`` as the user message."""
        piece = f"{self.before}{content}{self.after}"
        ids = [*self.ids_before, *tokenizer.encode_piece(piece, self.first), *self.ids_after]
        return ids, f"{self.text_before}{piece}{self.text_after}"


def find_frame(
    tokenizer: TextTokenizer,
    profile: Profile,
    turns: Callable[[str], list[Turn]],
    content: Callable[[str], str],
) -> Frame | None:
    """The frame of a kind of prompt, or ``None`` where the template does more than put text around the user message.

    Args:
        tokenizer: The tokenizer.
        profile: Its profile.
        turns: Context → the conversation in full.
        content: Context → what of the last turn depends on the context.
    """
    found: Frame | None = None
    for sample in _SAMPLES:
        parts, text = render_parts(tokenizer, turns(sample), profile)
        frame = _frame_of(tokenizer, parts, text, content(sample)) if text else None
        if frame is None or (found is not None and frame != found):
            return None
        found = frame
    return found


def _frame_of(tokenizer: TextTokenizer, parts: list[str | int], text: str, content: str) -> Frame | None:
    holding = [(index, part) for index, part in enumerate(parts) if isinstance(part, str) and content in part]
    if len(holding) != 1 or text.count(content) != 1:
        return None
    index, piece = holding[0]
    before, after = piece.split(content)
    start = text.index(content) - len(before)
    # An empty piece in place of the held one encodes to nothing.
    return Frame(
        ids_before=tokenizer.encode_parts([*parts[:index], ""] if index else [""]),
        ids_after=tokenizer.encode_parts(["", *parts[index + 1 :]]),
        before=before,
        after=after,
        text_before=text[:start],
        text_after=text[start + len(piece) :],
        first=index == 0,
    )
