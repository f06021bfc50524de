"""A text in pieces: which characters each piece covers, and which word it belongs to."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.words import Span, word_spans


@dataclass(frozen=True)
class Segmented:
    """Ids of a text, and for each what it covers."""

    ids: tuple[int, ...]
    spans: tuple[Span, ...]  # in the original text; the space before a word belongs to its piece
    words: tuple[int | None, ...]  # index into word_spans(text); None where no word is touched


def stretched(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans drawn out over accents that normalisation melted into the letter before them."""
    limits = [*(span.start for span in spans), len(text)][1:]
    longer = []
    for (start, end), limit in zip(spans, limits, strict=True):
        while start < end < limit and not text[end].isspace():
            end += 1
        longer.append(Span(start, end))
    return longer


def touched(text: str, spans: Sequence[Span]) -> list[int | None]:
    """For each span the index of the first word that it shares a character with."""
    words = word_spans(text)
    ends = [word.end for word in words]
    firsts = [bisect_right(ends, span.start) for span in spans]
    return [
        first if first < len(words) and words[first].start < span.end else None
        for first, span in zip(firsts, spans, strict=True)
    ]
