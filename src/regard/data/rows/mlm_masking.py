"""Token masking for masked language models (Devlin et al., 2018, section 3.1, task 1).

15% of the tokens of a row are chosen; 80% of these become the mask, 10% a random token, 10% stay.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from regard.core.errors import BadInput
from regard.data.counter_rng import below, bits, streams, uniform
from regard.data.rows.row_plans import positions_in_rows

Array = np.ndarray
MOST = 1 << 16  # limit of tokens in a row: each has as many counters of a kind
MASKING = 3  # appended to the key, which other draws use too
# Counters in the stream of a row, after those that order its words.
FATE, OTHER, COUNT = MOST, 2 * MOST, 3 * MOST


class MaskedTokens(NamedTuple):
    """Rows after masking: tokens, the chosen positions, and the original tokens at these."""

    tokens: Array
    positions: Array
    originals: Array

    def split(self, lengths: Array) -> list["MaskedTokens"]:
        """Split rows that were masked end to end; positions count from the start of each row."""
        ends = np.cumsum(lengths)
        row = np.searchsorted(ends, self.positions, side="right")
        counts = np.searchsorted(self.positions, ends)[:-1]
        positions = np.split(self.positions - (ends - lengths)[row], counts)
        tokens, originals = np.split(self.tokens, ends[:-1]), np.split(self.originals, counts)
        return [*map(MaskedTokens, tokens, positions, originals)]


@dataclass(frozen=True, eq=False)
class TokenMasker:
    """Masker of tokens; `special` and `word_starts` are masks over ids.

    Special tokens are neither chosen nor used as random tokens. With `word_starts`, whole words are
    chosen: an id with False continues the word before it. `rate` is the share of chosen tokens,
    `kept` and `random` the shares of these that stay or become a random token; `most` limits the
    chosen tokens of a row. With `ngrams`, up to that many successive words are chosen at once, n of
    them with probability ∝ 1/n (Lan et al., 2019, section 4.1). With `geometric` the probability is
    ∝ p (1-p)^(n-1) for this p, and all tokens of a span are masked, replaced or kept together
    (Joshi et al., 2019, section 3.1). As in the code of that paper, every token is as likely to
    begin a span, with its word; a span may run into others or end with the text; and spans that
    overlap or touch are one. Unlike there, no word is cut, and rows have as many tokens masked as
    BERT's.
    """

    mask: int
    special: Array
    word_starts: Array | None = None
    rate: float = 0.15
    kept: float = 0.1
    random: float = 0.1
    most: int | None = None
    ngrams: int = 1
    geometric: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise BadInput(f"masking rate {self.rate}: must be above 0 and at most 1")
        if min(self.kept, self.random) < 0 or self.kept + self.random > 1:
            raise BadInput(f"kept {self.kept} and random {self.random}: must add up to at most 1")
        if self.ngrams < 1:
            raise BadInput(
                f"ngrams, the longest n-gram in words, must be at least 1, not {self.ngrams}"
            )
        if self.most is not None and self.most < 1:
            raise BadInput(
                f"most, the masked tokens of each row, must be at least 1, not {self.most}"
            )

    @property
    def ngram_weights(self) -> Array:
        """Unnormalised probabilities of n-grams of 1, 2, ... words."""
        numbers = np.arange(1, self.ngrams + 1)
        return 1 / numbers if self.geometric is None else (1 - self.geometric) ** (numbers - 1)

    @cached_property
    def ordinary(self) -> Array:
        """The ids that random tokens are drawn from."""
        return np.flatnonzero(~self.special)

    def mask_rows(
        self,
        tokens: Array,
        lengths: Array,
        numbers: Array,
        key: tuple[int, ...],
        joined: Array | None = None,
    ) -> MaskedTokens:
        """Mask rows end to end, each by `key` and its number alone.

        `joined` is a mask of tokens that are chosen together with the token before.
        """
        lengths = np.asarray(lengths, np.int64)
        if lengths.max(initial=0) > MOST:
            raise ValueError(f"more than {MOST:,} tokens in a row")
        first = np.cumsum(lengths) - lengths
        stream = streams((*key, MASKING), numbers)
        positions = self._choose(np.asarray(tokens), lengths, first, stream, joined)
        row = np.searchsorted(first + lengths, positions, side="right")
        at, stream = positions - first[row], stream[row]

        masked, originals = np.array(tokens), np.asarray(tokens)[positions]
        decided_at = at if self.geometric is None else at[span_starts(positions, row)]
        fate = uniform(stream, FATE + decided_at)
        other = fate < self.random
        drawn = below(len(self.ordinary), stream[other], OTHER + at[other])
        masked[positions[other]] = self.ordinary[drawn]
        masked[positions[fate >= self.random + self.kept]] = self.mask
        return MaskedTokens(masked, positions, originals)

    def masked_count(self, lengths: Array) -> Array:
        """Number of tokens to choose in rows of these lengths; halves round to even."""
        count = np.maximum(1, np.rint(lengths * self.rate).astype(np.int64))
        return count if self.most is None else np.minimum(count, self.most)

    def _choose(
        self, tokens: Array, lengths: Array, first: Array, stream: Array, joined: Array | None
    ) -> Array:
        """The chosen positions, sorted: words are chosen in random order as long as they fit."""
        free = ~self.special[tokens]
        begins = self._word_begins(tokens, free, first[lengths > 0])
        begins = begins if joined is None else begins & ~joined
        words = np.flatnonzero(begins)
        sizes = np.bincount(np.cumsum(begins)[free] - 1, minlength=len(words))
        row_of_token = np.repeat(np.arange(len(lengths)), lengths)
        row = row_of_token[words]
        at = words - first[row]

        draws = bits(stream[row], at)
        if self.geometric is not None and len(words):  # the least draw of its tokens
            inside = np.flatnonzero(free)
            row_of_token = row_of_token[inside]
            of_tokens = bits(stream[row_of_token], inside - first[row_of_token])
            draws = np.minimum.reduceat(of_tokens, np.searchsorted(inside, words))
        fraction = (draws >> np.uint64(32)) * 2.0**-32  # 32 bits: row + fraction is exact
        order = np.argsort(row + fraction, kind="stable")
        room = self.masked_count(lengths)
        if self.ngrams == 1:
            chosen = order[fitting(sizes[order], row[order], room)]
        else:
            follows = (row[1:] == row[:-1]) & (words[1:] == words[:-1] + sizes[:-1])
            counts = self._draw_counts(follows, uniform(stream[row], COUNT + at))
            overlap = self.geometric is not None
            chosen = fitting_ngrams(order, counts, sizes, row, room, overlap=overlap)
        sizes = sizes[chosen]
        return np.sort(np.repeat(words[chosen], sizes) + positions_in_rows(sizes))

    def _word_begins(self, tokens: Array, free: Array, row_begins: Array) -> Array:
        """Mask of the tokens that begin a word, or, without ``word_starts``, of all free tokens."""
        if self.word_starts is None:
            return free
        after_free = np.append(False, free[:-1])
        after_free[row_begins] = False
        return free & (self.word_starts[tokens] | ~after_free)

    def _draw_counts(self, follows: Array, drawn: Array) -> Array:
        """Draw the number of words of the n-gram at each word, among those that fit into the text.

        A span that is longer ends with the text. `follows`: whether each word but the first comes
        directly after the one before it.
        """
        reaches, available = np.append(follows, False), np.ones(len(follows) + 1, np.int64)
        for _ in range(self.ngrams - 1):
            available = 1 + reaches * np.append(available[1:], 0)
        total = np.cumsum(self.ngram_weights)
        if self.geometric is not None:
            return np.minimum(1 + np.searchsorted(total, drawn * total[-1], "right"), available)
        return 1 + np.searchsorted(total, drawn * total[available - 1], side="right")


def span_starts(positions: Array, row: Array) -> Array:
    """Index of the first position of the span of each of these sorted positions.

    A span is a longest run of successive positions of a row.
    """
    begins = np.append(True, (np.diff(positions) > 1) | (np.diff(row) > 0))[: len(positions)]
    return np.maximum.accumulate(np.where(begins, np.arange(len(positions)), 0))


def fitting_ngrams(
    order: Array, counts: Array, sizes: Array, row: Array, room: Array, *, overlap: bool = False
) -> Array:
    """Choose n-grams of words to mask, until the token budget of each row (`room`) is used up.

    Words are visited in `order`; word i begins an n-gram of `counts[i]` words, shortened if it
    exceeds the budget. An n-gram that contains a chosen word is skipped; with `overlap`, only one
    that begins with a chosen word.
    """
    left, size, rows, count = room.tolist(), sizes.tolist(), row.tolist(), counts.tolist()
    chosen = [False] * len(size)
    for word in order.tolist():
        here = rows[word]
        if chosen[word] or size[word] > left[here]:
            continue
        end = word + count[word]
        while (total := sum(size[word:end])) > left[here]:
            end -= 1
        if overlap or not any(chosen[word:end]):
            chosen[word:end] = [True] * (end - word)
            left[here] -= total
            if overlap:
                size[word:end] = [0] * (end - word)  # they need no room again
    return np.flatnonzero(chosen)


def fitting(sizes: Array, row: Array, room: Array) -> Array:
    """Choose words in this order; words that exceed the room of their row are left out.

    Each iteration takes, in all rows at once, the words up to the first that does not fit.
    """
    room, left, chosen = room.copy(), np.arange(len(sizes)), [np.empty(0, np.int64)]
    while len(left := left[sizes[left] <= room[row[left]]]):
        total = np.cumsum(sizes[left])
        row_starts = np.flatnonzero(np.append(True, np.diff(row[left]) != 0))
        before = (total - sizes[left])[row_starts]
        total -= np.repeat(before, np.diff(np.append(row_starts, len(left))))
        fits = total <= room[row[left]]
        chosen.append(left[fits])
        room -= np.bincount(row[left[fits]], sizes[left[fits]], len(room)).astype(np.int64)
        left = left[~fits]
    return np.concatenate(chosen)
