r"""Schemas on one line, for ``jevmlx ask``.

    schema   = field { separator field }           separator = white space, ";"
    field    = name [ quoted ] ( "?" | "?"? ":" answers )
    answers  = label { "|" label }                 one of them
             | label "<" label { "<" label }       a scale, lowest first
             | "[" label { "|" label } "]"         any number of them
    name, label = word | quoted
    word     = characters without white space and | < [ ] : ; ?, not starting with a quotation mark
    quoted   = '…' or "…", with \ before a quotation mark or a backslash that is meant

``urgent?`` is a boolean, ``team: a|b`` an enum, ``team?: a|b`` one that may be none of the above. A quoted text after the name
describes the field. White space may stand around every sign.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..errors import JevmlxError

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<sign>[|<\[\]:;?])
    | '(?P<single>(?:[^'\\]|\\.)*)'
    | "(?P<double>(?:[^"\\]|\\.)*)"
    | (?P<word>[^\s|<\[\]:;?'"][^\s|<\[\]:;?]*)
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_END = "the end"


@dataclass(frozen=True)
class _Token:
    """A sign, a text, or the end.

    Attributes:
        kind: The sign itself, ``"word"``, ``"quoted"``, or the end.
        text: What it says.
        at: Its first character, from 1.
    """

    kind: str
    text: str
    at: int

    @property
    def shown(self) -> str:
        return _END if self.kind == _END else repr(self.text)


def parse(text: str) -> dict[str, Any]:
    """A one-line schema as a mapping that :func:`jevmlx.schema_of` takes.

    Raises:
        JevmlxError: ``input.ask``, with the position.

    Example:
        >>> parse("urgent? team: billing|sales")
        {'urgent': {'type': 'boolean'}, 'team': {'type': 'enum', 'choices': ['billing', 'sales']}}
    """
    return _Parser(_tokens(text)).schema()


def parse_answers(text: str) -> dict[str, Any]:
    """Answers alone, as ``billing|sales`` or ``low<mid<high``: a field's ``choices``, and what else they say of it.

    Raises:
        JevmlxError: ``input.ask``, with the position.

    Example:
        >>> parse_answers("low<'very high'")
        {'type': 'enum', 'choices': ['low', 'very high'], 'ordered': True}
    """
    parser = _Parser(_tokens(text))
    found = parser.answers()
    parser.expect(_END, "the answers end here; quote a label of several words: 'very angry'")
    return found


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            start = len(text) - len(text[at:].lstrip())
            raise _error(start + 1, f"the quotation that begins with {text[start : start + 20]!r} is never closed")
        at = match.end()
        kind = str(match.lastgroup)
        value = match[kind]
        if kind == "end":
            return [*found, _Token(_END, "", len(text) + 1)]
        start = match.start(kind) + 1
        if kind in ("single", "double"):
            found.append(_Token("quoted", _ESCAPED.sub(r"\1", value), start - 1))
        else:
            found.append(_Token(value if kind == "sign" else "word", value, start))


class _Parser:
    """Reads tokens from left to right; one token says what comes next."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def schema(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while True:
            while self._take(";"):
                pass
            if self._next.kind == _END and fields:
                return fields
            name = self._text("a field's name; as in: urgent? team: billing|sales")
            if name.text in fields:
                raise _error(name.at, f"the field {name.text!r} is there twice; give each a name of its own")
            fields[name.text] = self._field(name)

    def answers(self) -> dict[str, Any]:
        several = self._take("[")
        labels = [self._label()]
        sign = self._next.kind
        if sign in ("|", "<"):
            while self._take(sign):
                labels.append(self._label())
        if self._next.kind in ("|", "<"):
            raise _error(self._next.at, "'|' and '<' in one field; '|' lists answers, '<' orders a scale: take one")
        if not several:
            return {"type": "enum", "choices": labels} | ({"ordered": True} if sign == "<" else {})
        if sign == "<":
            raise _error(self._next.at, "a scale in brackets; a scale has one answer: take '|', or no brackets")
        self.expect("]", "']' or '|' is needed after a label in brackets; quote a label of several words: 'very angry'")
        return {"type": "multi", "choices": labels}

    def expect(self, kind: str, message: str) -> None:
        if not self._take(kind):
            raise _error(self._next.at, f"{message}, not {self._next.shown}")

    def _field(self, name: _Token) -> dict[str, Any]:
        description = {"description": self._pop().text} if self._next.kind == "quoted" else {}
        asked = self._take("?")
        if self._take(":"):
            return self.answers() | description | ({"allow_none_of_above": True} if asked else {})
        if not asked:
            hint = f"'?' (yes or no) or ':' (answers) is needed after the field {name.text!r}"
            raise _error(self._next.at, f"{hint}, not {self._next.shown}; quote a label of several words: 'very angry'")
        return {"type": "boolean"} | description

    def _label(self) -> str:
        return self._text("a label; quote one that is empty or holds white space or one of | < [ ] : ; ?").text

    def _text(self, what: str) -> _Token:
        if self._next.kind not in ("word", "quoted"):
            raise _error(self._next.at, f"{self._next.shown} stands where there should be {what}")
        return self._pop()

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _pop(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, kind: str) -> bool:
        if self._next.kind != kind:
            return False
        self._at += kind != _END
        return True


def _error(at: int, message: str) -> JevmlxError:
    return JevmlxError("input.ask", message, f"character {at}")
