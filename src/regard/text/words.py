"""Where the words of a text are: the unit in which people count, align and read attention."""

import re
from typing import NamedTuple

_WORD = re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]")


class Span(NamedTuple):
    """Characters ``start`` (inclusive) to ``end`` (exclusive) of a text."""

    start: int
    end: int


def word_spans(text: str) -> list[Span]:
    """Words and punctuation marks, in order; inner apostrophes and hyphens belong to a word."""
    return [Span(*match.span()) for match in _WORD.finditer(text)]


def words(text: str) -> list[str]:
    """The words of ``text`` as strings."""
    return [text[start:end] for start, end in word_spans(text)]
