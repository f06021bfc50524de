"""Tokens of an input as a model reads them: names, ids, characters and words, state by state."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import Ids
from regard.text.segmentation import Segmentation, units
from regard.text.words import Span


class TextPart(NamedTuple):
    """A text of an input, or one of its words, with its segmentation.

    ``start`` is the position of its first character in the text ``number``.
    """

    text: str
    cut: Segmentation
    number: int = 0
    start: int = 0


@dataclass(frozen=True, eq=False)
class TextTokens:
    """The tokens of an input, in the order of its states (``encode``).

    ``spans`` are the characters [start, end) of each token in its text, and ``texts`` the number of
    that text (1 for the second of a pair); both are None for special tokens and for token ids.
    ``groups`` are the positions of the tokens of each of the ``words``; words that share a token
    are one word, and words that were truncated are left out.
    """

    tokens: tuple[str, ...]
    ids: np.ndarray
    spans: tuple[Span | None, ...]
    texts: tuple[int | None, ...]
    words: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls,
        tokens: Sequence[str],
        ids: Ids,
        parts: Sequence[TextPart] = (),
        places: Sequence[int | None] | None = None,
    ) -> "TextTokens":
        """Tokens of a row; ``places`` are their indices among the tokens of all ``parts``."""
        places = [None] * len(tokens) if places is None else places
        spans = [_moved(span, part.start) for part in parts for span in part.cut.spans]
        numbers = [part.number for part in parts for _ in part.cut.spans]
        words, groups = _words(parts, {at: n for n, at in enumerate(places) if at is not None})
        return cls(
            tuple(tokens),
            np.asarray(ids),
            tuple(None if at is None else spans[at] for at in places),
            tuple(None if at is None else numbers[at] for at in places),
            tuple(words),
            tuple(groups),
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def of_words(self, states_TD: Any) -> Any:
        """States of words, (words, width): the mean over the tokens of each word."""
        means = [states_TD[list(group)].mean(0) for group in self.groups]
        if not means:
            return states_TD[:0]
        return torch.stack(means) if isinstance(states_TD, Tensor) else np.stack(means)


def word_parts(words: Sequence[str], cuts: Sequence[Segmentation]) -> list[TextPart]:
    """The words of a list as parts of one text, with a space between them."""
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    parts = zip(words, cuts, starts, strict=False)
    return [TextPart(word, cut, 0, start) for word, cut, start in parts]


def marks(parts: Sequence[TextPart]) -> list[list[int]]:
    """Negative numbers in place of the ids of each part; ``places_of`` reads them."""
    starts = accumulate((len(part.cut.spans) for part in parts), initial=0)
    sizes = zip(starts, parts, strict=False)
    return [[-1 - start - i for i in range(len(part.cut.spans))] for start, part in sizes]


def places_of(row: Ids) -> list[int | None]:
    """The index among the tokens of all parts for each token of a row of ``marks``."""
    return [-1 - mark if mark < 0 else None for mark in np.asarray(row).tolist()]


def _moved(span: Span, by: int) -> Span:
    return Span(span.start + by, span.end + by)


def _words(
    parts: Sequence[TextPart], positions: dict[int, int]
) -> tuple[list[str], list[tuple[int, ...]]]:
    """Words with tokens in a row, and the positions of their tokens in it."""
    words, groups, start = list[str](), list[tuple[int, ...]](), 0
    for part in parts:
        for word, tokens in zip(*units(part.text, part.cut), strict=True):
            group = tuple(positions[start + at] for at in tokens if start + at in positions)
            if group:
                words.append(word)
                groups.append(group)
        start += len(part.cut.spans)
    return words, groups
