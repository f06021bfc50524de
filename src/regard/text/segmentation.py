"""Tokens of a text: the characters and the word of each, and their names for display."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.core.batch import ImageRow, TokenRow
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


BEGIN, END = "⟨begin⟩", "⟨end⟩"  # names of the special tokens of translations


class TokenLabels(NamedTuple):
    """Names of tokens: subwords, words, and the positions of the tokens of each word.

    ``specials`` are the positions of tokens that no text stands for, such as [CLS]. ``second`` is
    the position at which the second text of a row begins, if there is one.
    """

    subwords: tuple[str, ...]
    words: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    specials: tuple[int, ...] = ()
    second: int | None = None

    @classmethod
    def single(cls, label: str) -> "TokenLabels":
        """Names of one token that is a word."""
        return cls((label,), (label,), ((0,),))

    @classmethod
    def special(cls, label: str) -> "TokenLabels":
        """Names of a special token, which counts as a word."""
        return cls.single(label)._replace(specials=(0,))

    @classmethod
    def of_tokens(cls, tokens: Sequence[str]) -> "TokenLabels":
        """Names of tokens of no text, each of which counts as a word."""
        return cls.join(*map(cls.single, tokens))

    @classmethod
    def of_lists(
        cls,
        subwords: list[str],
        words: list[str],
        groups: list[list[int]],
        specials: list[int],
        second: int | None = None,
    ) -> "TokenLabels":
        """Names from lists, as JSON has them."""
        texts = tuple(subwords), tuple(words), tuple(map(tuple, groups))
        return cls(*texts, tuple(specials), second)

    @classmethod
    def of_text(cls, text: str, cut: Segmentation, subwords: Sequence[str]) -> "TokenLabels":
        """Subwords and words of a text; words that share a token are one word."""
        words, groups = units(text, cut)
        return cls(tuple(subwords), tuple(words), tuple(map(tuple, groups)))

    @classmethod
    def join(cls, *parts: "TokenLabels") -> "TokenLabels":
        """Concatenate the names of several sequences."""
        subwords: list[str] = []
        groups: list[tuple[int, ...]] = []
        specials: list[int] = []
        for part in parts:
            start = len(subwords)
            groups += [tuple(start + token for token in group) for group in part.groups]
            specials += [start + token for token in part.specials]
            subwords += part.subwords
        words = tuple(word for part in parts for word in part.words)
        return cls(tuple(subwords), words, tuple(groups), tuple(specials))

    @property
    def shifted(self) -> tuple["TokenLabels", "TokenLabels"]:
        """Names of a target as queries, of the tokens that they predict, and as keys."""
        return self.join(self, self.special(END)), self.join(self.special(BEGIN), self)

    def texts(self, *, subwords: bool = False) -> tuple[list[int], list[int]]:
        """Indices of the words, or subwords, of the first and of the second text."""
        tokens = range(len(self.subwords))
        firsts = tokens if subwords else [min(group, default=0) for group in self.groups]
        second = len(tokens) if self.second is None else self.second
        indices = range(len(firsts))
        later = [index for index in indices if firsts[index] >= second]
        return [index for index in indices if firsts[index] < second], later

    @property
    def special_words(self) -> np.ndarray:
        """Mask of the words that are special tokens."""
        specials = {*self.specials}
        return np.array([specials.issuperset(group) for group in self.groups], dtype=bool)


class RowWithWords(NamedTuple):
    """Row of a text for an encoder, its words, and the positions in the row of each word."""

    row: TokenRow
    words: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of_text(cls, text: str, cut: Segmentation, row: TokenRow, first: int = 0) -> "RowWithWords":
        """Row with the words that have tokens; the text begins at position ``first``."""
        pairs = [pair for pair in zip(*units(text, cut), strict=True) if pair[1]]
        groups = (tuple(first + token for token in group) for _, group in pairs)
        return cls(row, tuple(word for word, _ in pairs), tuple(groups))


class LabelledRow(NamedTuple):
    """Row of tokens, with the names of its positions as queries and as keys.

    They differ in a decoder, where a query is named after the token that it predicts.
    """

    row: TokenRow
    queries: TokenLabels
    keys: TokenLabels

    def repeated(self) -> "LabelledRow":
        """Copy of the row in which all tokens follow a second time."""
        tokens, segments = ([*ids, *ids] for ids in (self.row.tokens, self.row.segments))
        queries, keys = (TokenLabels.join(side, side) for side in (self.queries, self.keys))
        return LabelledRow(TokenRow(tokens, segments), queries, keys)


LabelledInput = dict[str, LabelledRow]
"""One input of a model: a row for each of its sides, "trunk", or "source" and "target"."""


class LabelledImage(NamedTuple):
    """Image as a row, with the names of its positions as queries and as keys.

    ``pixels_HWC`` are its bytes as the model reads them. Patches form a ``grid`` of rows and
    columns, and are named "row,column"; ``tokens`` are the names of the tokens before them, such as
    the class token.
    """

    row: ImageRow
    pixels_HWC: np.ndarray
    grid: tuple[int, int]
    tokens: tuple[str, ...]

    @property
    def queries(self) -> TokenLabels:
        """Names of the tokens before the patches, then of the patches, row by row."""
        patches = (f"{row},{column}" for row, column in np.ndindex(self.grid))
        tokens = map(TokenLabels.special, self.tokens)
        return TokenLabels.join(*tokens, *map(TokenLabels.single, patches))

    @property
    def keys(self) -> TokenLabels:
        """Names of the keys: equal to the queries."""
        return self.queries


LabelledRows = Mapping[str, LabelledRow | LabelledImage]
"""One input of any model: a labelled row, or an image, for each of its sides."""
