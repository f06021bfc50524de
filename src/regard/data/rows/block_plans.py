"""Rows of running text: blocks of all documents, or of each alone.

The documents are read as one stream, each after a separator if the vocabulary has one. A row is a
part of the stream. For causal language models (``text_rows``) ``Passage.target`` is the next token.
So every token is predicted once in an epoch, except for the first of a text without a separator
before it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.data.counter_rng import below, streams, uniform
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import Passage, PlanRows, positions_in_rows, room_in
from regard.text.templates import RowFrame


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
