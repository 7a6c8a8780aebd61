"""Tokenizers, seen as two functions: text to token ids, and data to token ids that are never control tokens.

A chat template marks turns with *control tokens* (``<|im_end|>``, ``<end_of_turn>``, ``<think>``). Contexts, names and
choices are data: the same characters inside them must not become those ids. A private copy of the tokenizer, on which every
control token is special and special tokens are encoded as ordinary text, gives the ids for data; they equal the original's
for every text that holds no control token.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from .errors import PromptError, TokenizerError
from .prefix import witnesses

# Added tokens that are ordinary text: HTML keeps the ids Gemma gives it.
_PAIRED_TAGS = (
    *("table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "blockquote"),
    *("strong", "em", "b", "i", "u", "s", "sub", "sup", "code"),
)
HTML_TAGS = frozenset(f"<{slash}{tag}>" for tag in _PAIRED_TAGS for slash in ("", "/"))

# Tokenizers held by the module-level functions; each copy of a 150,000-token vocabulary takes some 60 MB.
_MAX_HELD = 4

# Scoring takes ids as signed 32-bit numbers.
_MAX_ID = 2**31

Encode = Callable[[Sequence[str]], list[list[int]]]


def is_control(content: str, special: bool) -> bool:
    """Whether an added token is one that data must never become.

    Args:
        content: The token's text.
        special: Whether the tokenizer marks it as special.
    """
    if special:
        return True
    return not (content.isspace() or not content.strip("▁") or content in HTML_TAGS)


class TextTokenizer:
    """A tokenizer as this package uses it.

    Attributes:
        control_ids: Control token text → id, longest text first.
        sha256: Hash of the tokenizer's serialized form; empty where it has none.
        original: The tokenizer it was made from.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.original = unwrap(tokenizer)
        backend = _backend(self.original)
        if backend is None:
            self._init_plain()
        else:
            self._init_backend(backend)
        pattern = "|".join(self._pattern(token) for token in self.control_ids)
        self._control = re.compile(f"({pattern})") if pattern else None

    def _init_backend(self, backend: Any) -> None:
        serialized = backend.to_str()
        self.sha256 = hashlib.sha256(serialized.encode()).hexdigest()
        spec = json.loads(serialized)
        added = spec.get("added_tokens") or []
        self._added = {token["content"]: token for token in added}
        control = [token for token in added if is_control(token["content"], bool(token.get("special")))]
        control.sort(key=lambda token: -len(token["content"]))
        self.control_ids = {token["content"]: int(token["id"]) for token in control}
        for token in control:
            token["special"] = True
        spec["truncation"] = spec["padding"] = None
        self._data = _data_copy(spec)
        self._encode_first = _data_encoder(self._data)
        self._encode_rest = _data_encoder(_data_copy(spec)) if _without_prefix(spec) else self._encode_first

    def _init_plain(self) -> None:
        original = self.original
        if not callable(getattr(original, "encode", None)):
            raise TokenizerError(
                "tokenizer.type",
                f"a {type(original).__name__} is no tokenizer: it has no encode method; pass a transformers tokenizer, "
                "a tokenizers.Tokenizer, or an object with encode(text)",
            )
        # No private copy can be made here; texts that hold a special token are refused instead of guessed at.
        self.control_ids = {}
        self.sha256 = ""
        self._data = None
        self._refused = sorted(map(str, getattr(original, "all_special_tokens", None) or ()), key=len)
        self._added = {}
        self._encode_first = self._encode_rest = self._encode_plain

    def _pattern(self, token: str) -> str:
        pattern = re.escape(token)
        flags = self._added.get(token, {})
        # An added token that strips takes the white space beside it; the pieces around it never see that space.
        if flags.get("lstrip"):
            pattern = rf"\s*{pattern}"
        if flags.get("rstrip"):
            pattern = rf"{pattern}\s*"
        return pattern

    def encode_data(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts that are data: no special tokens added, none recognised.

        Args:
            texts: Any number of texts.

        Returns:
            One list of ids per text.

        Raises:
            TokenizerError: The tokenizer returned something else than lists of ids.
            PromptError: A text holds a control token that this tokenizer cannot encode as text.
        """
        return self._encode_first(texts)

    def control_tokens_in(self, texts: Iterable[str]) -> list[str]:
        """The control tokens that occur in any of the texts, longest first."""
        if self._control is None:
            return []
        found: set[str] = set()
        for text in texts:
            if self._control.search(text):
                found.update(token for token in self.control_ids if token in text)
        return [token for token in self.control_ids if token in found]

    def split_rendered(self, text: str, stand_ins: dict[str, str]) -> list[str | int]:
        """A rendered prompt as data pieces and control token ids, in turn, starting and ending with a piece.

        Args:
            text: The template's output, with stand-ins where the contents held control tokens.
            stand_ins: Stand-in character → control token it stands for.
        """
        parts: list[str | int] = []
        for index, part in enumerate(self._control.split(text) if self._control else [text]):
            if index % 2:
                # White space that a stripping token takes is part of the match, not of the token.
                parts.append(self.control_ids[part if part in self.control_ids else part.strip()])
            else:
                parts.append(restored(part, stand_ins))
        return parts

    def encode_parts(self, parts: Sequence[str | int]) -> list[int]:
        """Token ids of what :meth:`split_rendered` gives: pieces as data, ids as they are."""
        first, *rest = (part for part in parts if isinstance(part, str))
        ids = list(self.encode_piece(first, True)) if first else []
        pieces = [piece for piece in rest if piece]
        later = iter(self._encode_rest(pieces) if pieces else [])
        for part in parts[1:]:
            if isinstance(part, int):
                ids.append(part)
            elif part:
                ids.extend(next(later))
        return ids

    def encode_piece(self, piece: str, first: bool) -> list[int]:
        """Token ids of one data piece; ``first`` says whether it starts the prompt."""
        return (self._encode_first if first else self._encode_rest)([piece])[0]

    @cached_property
    def witnesses(self) -> tuple[str, str]:
        """Two contexts whose prompts share no more than all contexts' prompts do; see :mod:`jevmlx.prefix`."""
        return witnesses(self._encode_rest)

    def token_bounds(self, text: str) -> list[int]:
        """Character positions between the tokens of a data text, from 0 to its length.

        Raises:
            PromptError: The tokenizer does not tell.
        """
        if self._data is None:
            raise PromptError(
                "prompt.no_offsets",
                "this tokenizer does not say where its tokens stand in a text, so the text cannot be cut between them; "
                "shorten it yourself, or load the model's fast tokenizer",
                "context",
            )
        offsets = self._data.encode(text, add_special_tokens=False).offsets
        # A character of several tokens has one place; cuts inside it are none.
        starts = sorted({start for start, _ in offsets} - {0, len(text)})
        return [0, *starts, len(text)] if text else [0]

    def _encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        for text in texts:
            for token in self._refused:
                if token and token in text:
                    raise PromptError(
                        "prompt.control_token",
                        f"the text holds the control token {token!r}, which this tokenizer cannot encode as plain text; "
                        "remove it from the text or load the model's fast tokenizer",
                    )
        encode = self.original.encode
        try:
            encoded = [encode(text, add_special_tokens=False) for text in texts]
        except TypeError:
            encoded = [encode(text) for text in texts]
        return [_id_list(ids) for ids in encoded]


def restored(text: str, stand_ins: Mapping[str, str]) -> str:
    """``text`` with the control tokens back where their stand-ins are."""
    for stand_in, token in stand_ins.items():
        text = text.replace(stand_in, token)
    return text


def adapt(tokenizer: Any) -> TextTokenizer:
    """The :class:`TextTokenizer` of a tokenizer; the last few are kept, since a private copy takes a while to make."""
    if isinstance(tokenizer, TextTokenizer):
        return tokenizer
    original = unwrap(tokenizer)
    # The size is part of the key so that tokens added later are seen.
    backend = _backend(original)
    size = backend.get_vocab_size(with_added_tokens=True) if backend is not None else 0
    key = (id(original), size)
    with _held_lock:
        if key in _held:
            _held.move_to_end(key)
            return _held[key]
    made = TextTokenizer(original)
    with _held_lock:
        # Held entries keep their tokenizer alive, so an id is never reused while it is a key.
        _held[key] = made
        while len(_held) > _MAX_HELD:
            _held.popitem(last=False)
    return made


_held: OrderedDict[tuple[int, int], TextTokenizer] = OrderedDict()
_held_lock = threading.Lock()


def unwrap(tokenizer: Any) -> Any:
    """The transformers tokenizer inside mlx-lm's wrapper, which changes template arguments; anything else as it is."""
    inner = getattr(tokenizer, "_tokenizer", None)
    return inner if hasattr(inner, "apply_chat_template") else tokenizer


def _backend(tokenizer: Any) -> Any:
    """The ``tokenizers.Tokenizer`` behind a tokenizer, if there is one."""
    for candidate in (tokenizer, getattr(tokenizer, "backend_tokenizer", None)):
        if callable(getattr(candidate, "to_str", None)) and hasattr(candidate, "encode_special_tokens"):
            return candidate
    return None


def _data_copy(spec: dict[str, Any]) -> Any:
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(json.dumps(spec))
    # Not part of the serialized form.
    copy.encode_special_tokens = True
    return copy


def _data_encoder(copy: Any) -> Encode:
    def encode(texts: Sequence[str]) -> list[list[int]]:
        batch = copy.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in batch]

    return encode


def _without_prefix(spec: dict[str, Any]) -> bool:
    """Stops a SentencePiece-like pre-tokenizer from prefixing pieces that are not the first; says whether it did."""
    node = spec.get("pre_tokenizer") or {}
    changed = False
    for part in [node, *node.get("pretokenizers", [])]:
        if part.get("type") == "Metaspace" and part.get("prepend_scheme") == "first":
            part["prepend_scheme"] = "never"
            changed = True
    return changed


def _id_list(ids: Any) -> list[int]:
    ids = getattr(ids, "ids", ids)
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    if not isinstance(ids, (list, tuple)) or not all(type(i) is int and 0 <= i < _MAX_ID for i in ids):
        raise TokenizerError(
            "tokenizer.output",
            f"the tokenizer's encode returned {ids!r:.80}; a list of non-negative token ids is needed",
        )
    return list(ids)
