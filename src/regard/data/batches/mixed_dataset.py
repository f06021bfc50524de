"""Mixture of corpora by weights.

An epoch has as many examples as all corpora together, of each corpus a number in proportion to its
weight. A corpus is read in rounds: a round reads all of its examples once, in random order, and
rounds go on from epoch to epoch. A small corpus has several rounds in an epoch, a large one only a
part of a round.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from regard.core.errors import BadInput
from regard.data.batches.sampler import Collator, Dataset, shuffled

Item = TypeVar("Item")
ROUND = 1  # appended to the key, which other draws use too


class RoundRows(NamedTuple):
    """Rows of one round of a corpus, and their places among the indices that are read."""

    corpus: Dataset
    round: int
    rows_N: np.ndarray
    positions_N: np.ndarray


@dataclass(frozen=True, eq=False)
class MixedDataset(Dataset[Item]):
    """Dataset of several ``corpora``, by name; examples depend on (seed, epoch, index) alone.

    The examples of an epoch are numbered corpus by corpus.
    """

    ahead: ClassVar[int] = 64

    corpora: Mapping[str, Dataset[Item]]
    mix: Mapping[str, float]
    seed: int

    @cached_property
    def shares(self) -> dict[str, int]:
        """The number of examples of each corpus in an epoch, one at least."""
        total, weights = sum(map(len, self.corpora.values())), self.mix
        whole = sum(weights.values())
        return {name: max(1, round(total * weights[name] / whole)) for name in self.corpora}

    @property
    def rounds(self) -> dict[str, float]:
        """The number of rounds of each corpus in an epoch."""
        return {name: self.shares[name] / len(corpus) for name, corpus in self.corpora.items()}

    def __len__(self) -> int:
        return sum(self.shares.values())

    @property
    def remarks(self) -> tuple[str, ...]:
        parts = (
            f"{name} {self.shares[name] / len(self):.1%} ({self.shares[name]:,} examples, "
            f"{rounds:.3g} rounds)"
            for name, rounds in self.rounds.items()
        )
        return (f"data.mix: an epoch has {len(self):,} examples: {', '.join(parts)}",)

    @property
    def fingerprint(self) -> str:
        parts = (
            f"{name} × {self.mix[name]:g}: {corpus.fingerprint}"
            for name, corpus in self.corpora.items()
        )
        return "; ".join(parts)

    def read(self, epoch: int, indices: np.ndarray) -> Sequence[Item]:
        parts = [*self._rounds(epoch, indices)]
        examples = [
            *chain.from_iterable(part.corpus.read(part.round, part.rows_N) for part in parts)
        ]
        return [examples[i] for i in _order(parts)]

    def lengths(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        def lengths_of(part: RoundRows) -> np.ndarray | None:
            return part.corpus.lengths(objective, part.round, part.rows_N)

        return self._measured(epoch, indices, lengths_of)

    def weights(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        def weights_of(part: RoundRows) -> np.ndarray | None:
            return part.corpus.weights(objective, part.round, part.rows_N)

        return self._measured(epoch, indices, weights_of)

    def count_corpora(self, indices: np.ndarray) -> dict[str, int]:
        counts = np.bincount(self._corpus_of(indices), minlength=len(self.corpora))
        return dict(zip(self.corpora, counts.tolist(), strict=True))

    def _measured(
        self, epoch: int, indices: np.ndarray, measure: Callable[[RoundRows], np.ndarray | None]
    ) -> np.ndarray | None:
        """Measures of examples; None if a corpus has them only after reading."""
        parts = [*self._rounds(epoch, indices)]
        measured = [values for part in parts if (values := measure(part)) is not None]
        return np.concatenate(measured)[_order(parts)] if len(measured) == len(parts) else None

    def _corpus_of(self, indices: np.ndarray) -> np.ndarray:
        """The number of the corpus of each index."""
        return np.searchsorted(self._ends, indices, side="right")

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum([*self.shares.values()])

    def _rounds(self, epoch: int, indices: np.ndarray) -> Iterator[RoundRows]:
        """The rows of these indices, by corpus and round."""
        indices = np.asarray(indices, np.int64)
        corpus_N = self._corpus_of(indices)
        for number, (name, corpus) in enumerate(self.corpora.items()):
            positions_N = np.flatnonzero(corpus_N == number)
            share, size = self.shares[name], len(corpus)
            read_N = epoch * share + indices[positions_N] - (self._ends[number] - share)
            order_N = np.argsort(read_N // size, kind="stable")
            round_N = read_N[order_N] // size
            changes = np.flatnonzero(np.diff(round_N)) + 1
            for part_N in np.split(order_N, changes) if len(order_N) else ():
                round = int(read_N[part_N[0]] // size)
                key = (self.seed, round, number, ROUND)
                rows_N = shuffled(read_N[part_N] % size, size, key)
                yield RoundRows(corpus, round, rows_N, positions_N[part_N])


def mixed_dataset(
    corpora: Sequence[Dataset[Item]], mix: Mapping[str, float], seed: int
) -> Dataset[Item]:
    """Mixture of corpora by their weights in ``mix``; without weights, the only corpus."""
    if not mix:
        (corpus,) = corpora
        return corpus
    mixture = MixedDataset(dict(zip(mix, corpora, strict=True)), mix, seed)
    for name, corpus in mixture.corpora.items():
        if not len(corpus):
            raise BadInput(f"data.mix.{name}: the corpus has no examples")
    rounds = mixture.rounds
    cached = {name: corpus.in_rounds(rounds[name]) for name, corpus in mixture.corpora.items()}
    return replace(mixture, corpora=cached)


def _order(parts: Sequence[RoundRows]) -> np.ndarray:
    """The place, among the rows of all parts, of each index."""
    positions = (part.positions_N for part in parts)
    return np.argsort(np.concatenate([np.zeros(0, np.int64), *positions]))
