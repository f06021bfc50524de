"""Where the words of a text are: the unit in which people count, align and read attention."""

import re
from collections.abc import Callable
from typing import NamedTuple
from unicodedata import category

_SPACED = re.compile(r"\S+")
_WORD = re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]")


class Span(NamedTuple):
    """Characters ``start`` (inclusive) to ``end`` (exclusive) of a text."""

    start: int
    end: int


Spans = Callable[[str], list[Span]]
"""Where the words of a text are."""


def word_spans(text: str) -> list[Span]:
    """Words and punctuation marks, in order; inner apostrophes and hyphens belong to a word.

    An accent that stands as a character of its own belongs to the letter before it.
    """
    spans: list[Span] = []
    after_accent = False
    for match in _WORD.finditer(text):
        start, end = match.span()
        kind = category(text[start])[0]
        goes_on = kind == "M" or (after_accent and kind in "LN")
        if goes_on and spans and start == spans[-1].end:
            spans[-1] = Span(spans[-1].start, end)
        else:
            spans.append(Span(start, end))
        after_accent = kind == "M"
    return spans


def spaced_spans(text: str) -> list[Span]:
    """What white space sets apart, in text whose words were separated before."""
    return [Span(*match.span()) for match in _SPACED.finditer(text)]


def words(text: str) -> list[str]:
    """The words of ``text`` as strings."""
    return [text[start:end] for start, end in word_spans(text)]
