"""Rows for pre-training: planned from lengths alone, read on request.

They are spans of documents, or parts of running text, of all documents or of each alone. Documents
are then read as one stream, each after a separator if the vocabulary has one. For causal language
models (``text_rows``) ``Passage.target`` is the next token. So every token is predicted once in an
epoch, except for the first of a text without a separator before it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.data.counter_rng import below, streams, uniform
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


@dataclass(frozen=True, eq=False)
class TokenStream:
    """Stream of all documents, each after the ``separator``, unless it is None."""

    documents: Documents
    separator: int | None

    @cached_property
    def borders(self) -> np.ndarray:
        """The first token of every document, its separator, and the total at the end."""
        borders = self.documents.borders
        return borders if self.separator is None else borders + np.arange(len(borders))

    def at(self, positions_N: np.ndarray) -> np.ndarray:
        """The tokens at these places."""
        document_N = np.searchsorted(self.borders, positions_N, side="right") - 1
        within_N = positions_N - self.borders[document_N] - (self.separator is not None)
        tokens_N = np.full(len(positions_N), self.separator or 0, np.int32)
        inside_M = np.flatnonzero(within_N >= 0)
        changes = np.flatnonzero(np.diff(document_N[inside_M])) + 1
        for run in np.split(inside_M, changes) if len(inside_M) else ():
            tokens_N[run] = self.documents.rows[document_N[run[0]]][within_N[run]]
        return tokens_N


@dataclass(frozen=True, eq=False)
class SentenceStream(TokenStream):
    """Pair of streams: all sentences, and all sentences reversed, in the same order.

    A token of the second stream is at the same place as a token of the same sentence in the first
    one, so that both can be cut alike.
    """

    separator: None = None

    def at(self, positions_N: np.ndarray) -> np.ndarray:
        first_token = self.documents.first_token
        sentence_N = np.searchsorted(first_token, positions_N, side="right") - 1
        mirrored_N = first_token[sentence_N] + first_token[sentence_N + 1] - 1 - positions_N
        return np.stack([super().at(positions_N), super().at(mirrored_N)], axis=1)


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """Plan of the rows of an epoch: tokens ``begin`` to ``end`` (exclusive) of a stream.

    Only the separator can follow a row that is ``last`` in its text.
    """

    stream: TokenStream
    begin: np.ndarray
    end: np.ndarray
    last: np.ndarray

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of every row."""
        return self.end - self.begin

    def read(self, rows: np.ndarray) -> list[Passage]:
        """Read these rows, each with the token after it."""
        begin, last = self.begin[rows], self.last[rows]
        lengths = self.end[rows] - begin
        sizes = lengths + ~last
        starts = np.cumsum(sizes) - sizes
        tokens = self.stream.at(np.repeat(begin - starts, sizes) + np.arange(sizes.sum()))
        none = np.zeros(lengths.max(initial=0), np.int32)

        def passage(start: int, length: int, last: bool) -> Passage:
            row = TokenRow(tokens[start : start + length], none[:length])
            after = self.stream.separator if last else tokens[start + length].tolist()
            return Passage(row, after)

        return [*map(passage, *map(np.ndarray.tolist, (starts, lengths, last)))]


@dataclass(frozen=True, eq=False)
class FramedBlocks:
    """Plan of rows of exactly ``longest`` tokens: blocks of the stream, each in a ``frame``.

    Tokens beyond the last full row are not used, unless there is no full one.
    """

    stream: TokenStream
    frame: RowFrame
    longest: int

    def __len__(self) -> int:
        return self._total // self._size if self._total else 0

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of every row, including special tokens."""
        return np.full(len(self), self._size + self.frame.specials)

    def read(self, rows: np.ndarray) -> list[Passage]:
        """Read these rows."""
        text = [(0, self.frame.segments[0])] * self._size
        parts = np.array([*self.frame.before, *text, *self.frame.after], np.int32)
        first, size = len(self.frame.before), self._size
        tokens_RT = np.tile(parts[:, 0], (len(rows), 1))
        positions_RT = np.asarray(rows)[:, None] * size + np.arange(size)
        tokens_RT[:, first : first + size] = self.stream.at(positions_RT.ravel()).reshape(-1, size)
        return [Passage(TokenRow(tokens, parts[:, 1]), None) for tokens in tokens_RT]

    @property
    def _size(self) -> int:
        """Number of tokens of a row that come from the stream."""
        return min(self._total, room_in(self.frame, self.longest, "a passage", 1))

    @property
    def _total(self) -> int:
        return int(self.stream.borders[-1])


def text_rows(stream: TokenStream, longest: int, seed: int, *, across: bool) -> PlanRows:
    """Plans of rows of at most ``longest`` tokens, of one document each or ``across`` documents.

    Rows across documents are full; their starts are drawn in every epoch after the first. Rows of
    one document are the same in every epoch.
    """
    texts = stream.borders[[0, -1]] if across else stream.borders

    def plan(epoch: int) -> BlockPlan:
        shift = int(below(longest, streams((seed, epoch), np.zeros(1)), 0)[0])
        shift = shift if across and epoch else 0
        rows = _blocks(stream, texts, longest, shift)
        if not len(rows):
            raise BadInput("data.train: the documents are too short: there is no token to predict")
        return rows

    return plan


@dataclass(frozen=True)
class ChunkLengths:
    """Lengths of chunks: ``longest``, or drawn around the ``mean`` and at most ``longest``.

    Drawn lengths are normally distributed with a standard deviation of 5, one in twenty around half
    of the mean, and at least 5 (Merity et al., 2017, arXiv:1708.02182, section 5); they follow from
    the key (seed, epoch).
    """

    longest: int
    mean: int = 0
    spread: ClassVar[int] = 5
    halved: ClassVar[float] = 0.05

    def cuts(self, total: int, key: tuple[int, ...]) -> np.ndarray:
        """The start of each chunk of ``total`` tokens, and the total at the end."""
        if not self.mean:
            return np.append(np.arange(0, total, self.longest), total)
        least = min(self.spread, self.mean)
        stream = streams(key, np.arange(-(-total // least)))
        mean = np.where(uniform(stream, 0) < self.halved, self.mean / 2, self.mean)
        radius = np.sqrt(-2 * np.log(1 - uniform(stream, 1)))  # Box & Muller, 1958
        drawn = mean + self.spread * radius * np.cos(2 * np.pi * uniform(stream, 2))
        ends = np.cumsum(np.clip(drawn.astype(np.int64), least, self.longest))
        return np.concatenate([[0], ends[ends < total], [total]])


def stream_chunks(
    stream: TokenStream, rows: int, lengths: ChunkLengths, key: tuple[int, ...]
) -> BlockPlan:
    """Plan of the token stream cut into ``rows`` equal streams, and these into chunks.

    Chunk k of all streams comes before chunk k + 1. Every token has a next one, so the very last
    token is only predicted; tokens beyond the equal streams are not used.
    """
    total = int(stream.borders[-1])
    length = (total - 1) // rows
    if length < 1:
        few = f"{stream.documents.name}: {total:,} tokens are too few for {rows:,} streams of text"
        raise BadInput(f"{few}; batches.rows limits their number")
    cuts = lengths.cuts(length, key)
    first = np.arange(rows) * length
    begin, end = ((first + cut[:, None]).ravel() for cut in (cuts[:-1], cuts[1:]))
    return BlockPlan(stream, begin, end, np.zeros(len(begin), bool))


def _blocks(stream: TokenStream, texts: np.ndarray, longest: int, shift: int) -> BlockPlan:
    """Plan of every text cut at multiples of ``longest``, or first at ``shift`` if it is not 0."""
    lengths = np.diff(texts)
    counts = -(-(lengths + (longest - shift) % longest) // longest)
    number = positions_in_rows(counts)
    starts = np.repeat(texts[:-1], counts)
    begin = starts + np.maximum(number * longest - (longest - shift) % longest, 0)
    last = number == np.repeat(counts, counts) - 1
    end = np.where(last, np.repeat(texts[1:], counts), np.append(begin[1:], 0))
    targets = end - begin - (last & (stream.separator is None))
    return BlockPlan(stream, *(column[targets > 0] for column in (begin, end, last)))
