"""Names of tokens for display: subwords, words with their tokens, patches."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.ground.batch import ImageRow, TokenRow
from regard.text.offsets import Segmentation, units


class TokenLabels(NamedTuple):
    """Names of tokens: subwords, words, and the positions of the tokens of each word."""

    subwords: tuple[str, ...]
    words: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def special(cls, label: str) -> "TokenLabels":
        """Names of a special token, which counts as a word."""
        return cls((label,), (label,), ((0,),))

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
        for part in parts:
            start = len(subwords)
            groups += [tuple(start + token for token in group) for group in part.groups]
            subwords += part.subwords
        words = tuple(word for part in parts for word in part.words)
        return cls(tuple(subwords), words, tuple(groups))


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
        return TokenLabels.join(*map(TokenLabels.special, (*self.tokens, *patches)))

    @property
    def keys(self) -> TokenLabels:
        """Names of the keys: equal to the queries."""
        return self.queries
