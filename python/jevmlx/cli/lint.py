"""Lints of a schema that need neither model nor tokenizer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from .findings import Finding

if TYPE_CHECKING:
    from .. import Field, Schema

# Characters of the prompt's fixed part: some 2,000 tokens, half of a small model's window.
LONG_PROMPT = 8_000
# Shared characters by which two choices are told to be alike; "refund" and "refunds" have 0.92, "low" and "slow" 0.86.
_ALIKE = 0.87
# Shorter ones differ in a large part by any letter.
_SHORTEST = 4
# Choices past which their own words make long rows; an alias is a token or two.
MANY_CHOICES = 30
_LONG_CHOICE = 60

# Labels that a model gives for reasons of its own: it has seen them as answers to everything.
_CATCH_ALL = {
    "other",
    "others",
    "misc",
    "miscellaneous",
    "general",
    "unknown",
    "unclear",
    "n/a",
    "na",
    "not applicable",
}
_CATCH_ALL |= {"none", "none of the above", "nothing", "neither", "anything else", "something else", "else", "unsure"}
_YES_NO = {"yes", "no", "true", "false", "y", "n"}


def lint(schema: Schema) -> Iterator[Finding]:
    """Everything that is worth a word about a schema's texts, field by field."""
    for field in schema.fields:
        if not field.description:
            message = "the field has no description, so the model goes by its name alone; say in a line what is asked"
            yield Finding("no-description", "advice", field.name, message)
        if field.type != "boolean":
            yield from _near_duplicates(field)
            yield from _priors(field)
            yield from _size(field)


def normalized(text: str) -> str:
    r"""A text without what readers overlook: case, white space, and forms of the same characters.

    Example:
        >>> normalized("  Ｂilling\u00a0 DESK ")
        'billing desk'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _near_duplicates(field: Field) -> Iterator[Finding]:
    plain = [normalized(choice) for choice in field.choices]
    matcher = SequenceMatcher(autojunk=False)
    for second in range(1, len(plain)):
        matcher.set_seq2(plain[second])
        for first in range(second):
            why = _alike(matcher, plain[first], plain[second])
            if why:
                a, b = field.choices[first], field.choices[second]
                message = (
                    f"{a!r} and {b!r} {why}; the model divides its answer between them: merge them, or word them apart"
                )
                yield Finding("near-duplicate", "warning", f"{field.name}.choices[{second}]", message)


def _alike(matcher: SequenceMatcher[str], a: str, b: str) -> str:
    """In what way two normalized choices are alike; empty where they are not."""
    if a == b:
        return "differ in case or white space only"
    if _bare(a) == _bare(b):
        return "differ in punctuation only"
    shorter, longer = sorted((a, b), key=len)
    if len(shorter) < _SHORTEST or re.sub(r"\d+", "#", a) == re.sub(r"\d+", "#", b):
        # Numbered choices are meant to differ by the number.
        return ""
    if longer.startswith(shorter):
        return "begin alike, and one is the whole beginning of the other"
    matcher.set_seq1(a)
    if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE:
        return "are spelt almost the same"
    return ""


def _bare(text: str) -> str:
    # What is left of "+" and "-" is nothing, and they are no duplicates.
    return "".join(character for character in text if character.isalnum()) or text


def _priors(field: Field) -> Iterator[Finding]:
    plain = [normalized(choice) for choice in field.choices]
    if field.type == "enum" and len(plain) == 2 and set(plain) <= _YES_NO:
        message = (
            "two choices that mean yes and no; make the field a boolean, which is asked in the words models know best"
        )
        yield Finding("label-prior", "warning", f"{field.name}.choices", message)
        return
    for index, choice in enumerate(plain):
        # A choice that the schema says "none of the above" by is what that option adds.
        if field.none_of_above and index == len(plain) - 1:
            continue
        path = f"{field.name}.choices[{index}]"
        glossed = bool(field.choice_descriptions.get(field.choices[index]))
        if choice in _CATCH_ALL and not glossed and not field.ordered:
            yield Finding("label-prior", "warning", path, _catch_all(field, field.choices[index]))
        elif choice in _YES_NO and not glossed:
            message = (
                f"{field.choices[index]!r} is likely after any question, whatever the text says; choose a word for what it means "
                "here, or scoring='slots', or compare with prior_correction"
            )
            yield Finding("label-prior", "warning", path, message)


def _catch_all(field: Field, choice: str) -> str:
    why = f"{choice!r} says nothing of its own, and models differ in how readily they take it"
    if field.type == "multi":
        return f"{why}; leave it out: no option selected means the same"
    return f"{why}; say in choice_descriptions when it applies, or leave it out and set allow_none_of_above"


def _size(field: Field) -> Iterator[Finding]:
    if field.type == "enum" and len(field.choices) > MANY_CHOICES:
        message = f"{len(field.choices)} choices; scoring='slots' is cheaper for long lists, and two shorter fields are often surer"
        yield Finding("many-choices", "advice", f"{field.name}.choices", message)
    for index, choice in enumerate(field.choices):
        if len(choice) > _LONG_CHOICE:
            message = f"the choice has {len(choice)} characters; keep a word or two and move the rest into choice_descriptions"
            yield Finding("long-choice", "advice", f"{field.name}.choices[{index}]", message)


def long_prompt(characters: int) -> Iterator[Finding]:
    """A prompt that is long before any text is in it, judged without a tokenizer."""
    if characters > LONG_PROMPT:
        message = (
            f"the prompt has {characters:,} characters before any text, which a small model's window may not leave room beside; "
            "shorten descriptions, or ask in two calls"
        )
        yield Finding("long-prompt", "warning", "", message)
