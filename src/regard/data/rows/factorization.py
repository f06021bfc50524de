"""Factorization orders and the tokens to predict, for permutation LM (Yang et al., 2019).

As in the code of the paper, spans of whole words are predicted, each in a context of K times its
length. All tokens that are neither predicted nor special come first in the order, together: they
see each other, and all others see them. Predicted and special tokens follow in random order.

A row may be divided into chunks, each with an order of its own: its tokens come after all tokens of
the chunks before it. The code of the paper so divides rows into halves.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.core.batch import TokenRow
from regard.data.counter_rng import streams, uniform

FACTORIZATION = 5  # appended to the key, which other draws use too
CONTEXT = -1  # the order of tokens that are only seen
# Counters in the stream of a row: of orders, of single tokens, of spans (two for each).
ORDER, SINGLE, SPAN = 0, 1 << 16, 2 << 16


class Factorization(NamedTuple):
    """Order of each token of a row, and the sorted positions of the predicted tokens."""

    orders: np.ndarray
    predicted: np.ndarray


@dataclass(frozen=True, eq=False)
class FactorizationSampler:
    """Sampler of factorization orders; ``special`` and ``word_starts`` are masks over ids.

    One token in ``one_in`` is predicted, in spans of up to ``words`` words, n of them with
    probability ∝ 1/n. Each chunk of ``chunk`` tokens of a row has its own order; 0: the whole row.
    """

    special: np.ndarray
    word_starts: np.ndarray
    one_in: int = 6
    words: int = 5
    chunk: int = 0

    def draw(
        self, rows: list[TokenRow], indices: np.ndarray, key: tuple[int, ...]
    ) -> list[Factorization]:
        """Draw factorizations of rows, which depend on their indices and the key alone."""
        tokens = (np.asarray(row.tokens) for row in rows)
        return [*map(self._of_row, tokens, streams((*key, FACTORIZATION), indices))]

    def count(self, length: int, start: int = 0) -> int:
        """Maximum number of tokens to predict in a chunk; at least 1 in the first of a row.

        Fewer are predicted if the chunk has fewer tokens that are not special.
        """
        return max(int(start == 0), length // self.one_in)

    def _of_row(self, tokens: np.ndarray, stream: np.ndarray) -> Factorization:
        size = self.chunk or max(1, len(tokens))
        starts = range(0, max(1, len(tokens)), size)
        chunks = [self._of_chunk(tokens[at : at + size], stream, at) for at in starts]
        # All orders of a chunk are above those of the chunk before, whose highest is its size - 1.
        orders = [chunk.orders + at + at // size for chunk, at in zip(chunks, starts, strict=True)]
        predicted = [chunk.predicted + at for chunk, at in zip(chunks, starts, strict=True)]
        return Factorization(np.concatenate(orders), np.concatenate(predicted))

    def _of_chunk(self, tokens: np.ndarray, stream: np.ndarray, start: int) -> Factorization:
        """The factorization of the tokens of a chunk that begins at ``start``."""
        special, every = self.special[tokens], start + np.arange(len(tokens))
        count = self.count(len(tokens), start)
        chosen = self._spans(tokens, stream, every, count)
        singles = uniform(stream, SINGLE + every)
        singles[special | chosen] = np.inf
        missing = min(count, int((~special).sum())) - int(chosen.sum())
        chosen[np.argsort(singles, kind="stable")[: max(0, missing)]] = True
        ranks = np.argsort(np.argsort(uniform(stream, ORDER + every), kind="stable"))
        orders = np.where(chosen | special, ranks, CONTEXT)
        return Factorization(orders, np.flatnonzero(chosen))

    def _spans(
        self, tokens: np.ndarray, stream: np.ndarray, every: np.ndarray, count: int
    ) -> np.ndarray:
        """Mask of the tokens in spans, at most ``count``; ``every`` are the positions."""
        special, chosen, left = self.special[tokens], np.zeros(len(tokens), bool), count
        starts = np.flatnonzero(self.word_starts[tokens] | special)
        lengths = uniform(stream, SPAN + 2 * every)
        contexts = uniform(stream, SPAN + 2 * every + 1)
        sizes = 1 + np.searchsorted(self._cumulated, lengths, side="right")
        at = number = 0
        while left and at < len(tokens):
            words = min(int(sizes[number]), left)
            context = words * self.one_in
            before = int(contexts[number] * context)
            first = int(np.searchsorted(starts, at + before))
            if first + words >= len(starts):
                break
            begin, end = int(starts[first]), int(starts[first + words])
            if end - begin <= left and not special[begin:end].any():
                chosen[begin:end] = True
                left -= end - begin
            at, number = end + context - before, number + 1
        return chosen

    @property
    def _cumulated(self) -> np.ndarray:
        """Cumulative distribution of the number of words of a span, without the last value."""
        shares = 1 / np.arange(1, self.words + 1)
        return np.cumsum(shares / shares.sum())[:-1]
