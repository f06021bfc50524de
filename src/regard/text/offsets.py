"""Segmentation of a text: the characters of each token, and the word it belongs to."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.words import Span, Spans, word_spans


@dataclass(frozen=True)
class Segmentation:
    """The ids of a text, and for each the characters it covers and the word it touches."""

    ids: tuple[int, ...]
    spans: tuple[Span, ...]  # in the original text; the space before a word belongs to its token
    words: tuple[int | None, ...]  # index into word_spans(text); None where no word is touched


def _overlapped(words: Sequence[Span], spans: Sequence[Span]) -> list[range]:
    """The indices of the words that each span overlaps."""
    starts, ends = [word.start for word in words], [word.end for word in words]
    return [range(bisect_right(ends, start), bisect_left(starts, end)) for start, end in spans]


def stretched(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans extended over accents that normalisation merged into the letter before them."""
    limits = [*(span.start for span in spans), len(text)][1:]
    longer = []
    for (start, end), limit in zip(spans, limits, strict=True):
        while start < end < limit and not text[end].isspace():
            end += 1
        longer.append(Span(start, end))
    return longer


def touched(text: str, spans: Sequence[Span]) -> list[int | None]:
    """Index of the first word that each span overlaps; None if it overlaps no word."""
    return [overlaps[0] if overlaps else None for overlaps in _overlapped(word_spans(text), spans)]


def tokens_of_words(text: str, cut: Segmentation, spans: Spans = word_spans) -> list[list[int]]:
    """The tokens that overlap each word of ``text``.

    A token such as "?!" covers more than one word, and then belongs to each of them.
    """
    words = spans(text)
    tokens: list[list[int]] = [[] for _ in words]
    for token, overlaps in enumerate(_overlapped(words, cut.spans)):
        for word in overlaps:
            tokens[word].append(token)
    return tokens


def lost_words(text: str, cut: Segmentation, unk: int | None) -> list[Span]:
    """Words of ``text`` with the unknown token ``unk``; words that share a token are one span."""
    words = word_spans(text)
    lost = [span for token, span in zip(cut.ids, cut.spans, strict=True) if token == unk]
    for number, overlaps in enumerate(_overlapped(words, lost)):
        if overlaps:
            lost[number] = Span(words[overlaps[0]].start, words[overlaps[-1]].end)
    return list(dict.fromkeys(lost))


def units(text: str, cut: Segmentation) -> tuple[list[str], list[list[int]]]:
    """Words and their tokens, each token once: words that share a token count as one.

    A token of no word (a lone space) belongs to the word after it.
    """
    labels: list[str] = []
    groups: list[list[int]] = []
    start = 0
    for word, tokens in zip(word_spans(text), tokens_of_words(text, cut), strict=True):
        if groups and tokens and groups[-1] and tokens[0] == groups[-1][-1]:
            labels[-1] = text[start : word.end]
            groups[-1] += tokens[1:]
        else:
            start = word.start
            labels.append(text[start : word.end])
            groups.append(tokens)
    orphans = {*range(len(cut.ids))}.difference(*groups)
    for orphan in sorted(orphans, reverse=True):
        after = (group for group in groups if group and group[0] > orphan)
        next(after, groups[-1] if groups else []).insert(0, orphan)
    return labels, groups
