"""Rows for pre-training as spans of documents: planned from lengths alone, read on request."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.data.rows.documents import Documents
from regard.text.templates import RowFrame


class Passage(NamedTuple):
    """Row with its target, or None: the label of a pair, or the next token.

    A row of two streams has the next token of both.
    """

    row: TokenRow
    target: int | list[int] | None


@dataclass(frozen=True, eq=False)
class RowPlan:
    """Plan of the rows of an epoch: row i has the spans first[i] to first[i + 1] (exclusive).

    A span is tokens `begin` to `end` (exclusive) of one document, numbered through all documents.
    `frame` holds the special tokens around the spans of a row; `labels` are the labels of pairs.
    """

    documents: Documents
    frame: RowFrame
    begin: np.ndarray
    end: np.ndarray
    first: np.ndarray
    labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.first) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of tokens of every row, including special tokens."""
        between = len(self.frame.between)
        ends = np.append(0, np.cumsum(self.end - self.begin + between))[self.first]
        return np.diff(ends) + len(self.frame.before) + len(self.frame.after) - between

    def read(self, rows: np.ndarray) -> list[Passage]:
        """Read these rows."""
        frame = self.frame
        counts = self.first[rows + 1] - self.first[rows]
        opening = np.cumsum(counts) - counts  # each row's first span, among the spans of `rows`
        number = positions_in_rows(counts)
        span = np.repeat(self.first[rows], counts) + number
        begin, end = self.begin[span], self.end[span]
        opens, closes = number == 0, number == np.repeat(counts, counts) - 1
        behind = np.where(closes, len(frame.after), len(frame.between))
        size = end - begin + behind + opens * len(frame.before)
        ends = np.append(0, np.cumsum(size))
        first = ends[opening]

        tokens = np.empty(ends[-1], np.int32)
        part = np.minimum(number, len(frame.segments) - 1)
        segments = np.repeat(np.array(frame.segments, np.int32)[part], size)
        self._copy(begin, end, tokens, ends[:-1] + opens * len(frame.before))
        specials = (
            (frame.before, first),
            (frame.between, (ends[1:] - behind)[~closes]),
            (frame.after, (ends[1:] - behind)[closes]),
        )
        for special, starts in specials:
            for offset, (token, segment) in enumerate(special):
                tokens[starts + offset], segments[starts + offset] = token, segment
        targets = [None] * len(rows) if self.labels is None else self.labels[rows].tolist()
        bounds = [*first.tolist(), len(tokens)]
        return [
            Passage(TokenRow(tokens[a:b], segments[a:b]), target)
            for a, b, target in zip(bounds[:-1], bounds[1:], targets, strict=True)
        ]

    def _copy(
        self, begin: np.ndarray, end: np.ndarray, tokens: np.ndarray, starts: np.ndarray
    ) -> None:
        """Copy spans of the documents to `starts` in `tokens`."""
        borders = self.documents.borders
        document = np.searchsorted(borders, begin, side="right") - 1
        source = begin - borders[document]
        columns = (document, source, end - begin, starts)
        for d, a, length, b in zip(*map(np.ndarray.tolist, columns), strict=True):
            tokens[b : b + length] = self.documents.rows[d][a : a + length]


class EpochPlan(Protocol):
    """Plan of the rows of an epoch."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of every row, including special tokens."""

    def read(self, rows: np.ndarray) -> list[Passage]:
        """Read these rows."""


PlanRows = Callable[[int], EpochPlan]
"""Function from an epoch to the plan of its rows."""


def full_rows(documents: Documents, frame: RowFrame, longest: int) -> RowPlan:
    """Plan of rows of as many successive sentences as fit, with a separator between documents.

    Such rows are the FULL-SENTENCES of Liu et al., 2019 (section 4.2). A sentence longer than a row
    is split. Every epoch has the same rows.
    """
    room, between = room_in(frame, longest, "a passage", 1), len(frame.between)
    token = _no_longer(documents.first_token, room)
    document = np.searchsorted(documents.borders, token, side="right") - 1
    # A separator before every document but the first of a row: counted by the document's number.
    separators = between * document[:-1]
    begins, ends = token[:-1] + separators, token[1:] + separators
    after = np.searchsorted(ends, begins + room, side="right").tolist()
    starts = [0]
    while starts[-1] < len(after):
        starts.append(after[starts[-1]])
    rows = token[starts]
    begin = np.union1d(rows[:-1], documents.borders[:-1])
    ends, first = np.append(begin[1:], token[-1]), np.searchsorted(begin, rows)
    return RowPlan(documents, frame, begin, ends, first)


def sentence_rows(documents: Documents, frame: RowFrame, longest: int) -> RowPlan:
    """Plan of rows of one sentence; a sentence longer than a row is split."""
    token = _no_longer(documents.first_token, room_in(frame, longest, "a sentence", 1))
    return RowPlan(documents, frame, token[:-1], token[1:], np.arange(len(token)))


def room_in(frame: RowFrame, longest: int, texts: str, least: int) -> int:
    """Number of tokens left beside special tokens in a row; refuse fewer than `least`."""
    room, specials = longest - frame.specials, frame.specials
    if room < least:
        needed = f"{texts} and {specials} special tokens need {specials + least} at least"
        raise BadInput(f"rows of {longest} tokens: {needed}")
    return room


def _no_longer(token: np.ndarray, room: int) -> np.ndarray:
    """First token of every sentence, after sentences longer than `room` are split."""
    lengths = np.diff(token)
    parts = -(-lengths // room)
    return np.append(np.repeat(token[:-1], parts) + positions_in_rows(parts) * room, token[-1])


def positions_in_rows(lengths: np.ndarray) -> np.ndarray:
    """Position in its row of each token of rows of these lengths, end to end."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
