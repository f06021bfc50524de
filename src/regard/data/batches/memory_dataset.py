"""Datasets in memory: encoded rows, or texts that are tokenised in every epoch."""

import zlib
from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from regard.core.batch import TokenRow
from regard.data.batches.sampler import Collator, Dataset
from regard.data.counter_rng import streams, uniform
from regard.text.tokenizers.row_tokenizer import RowTokenizer

Item = TypeVar("Item", bound=tuple)
Target = TypeVar("Target")
Rows = TokenRow | Sequence[TokenRow]  # of an example: one, or several


class MemoryDataset(Dataset[Item], Sequence[Item]):
    """Dataset of encoded examples: a row, or several, and a target."""

    def __init__(self, examples: Sequence[Item]):
        self.examples = examples
        self._sizes = lru_cache(maxsize=1)(self._measure)  # of one objective

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: Any) -> Any:
        return self.examples[index]

    @property
    def fingerprint(self) -> str:
        checksum = reduce(lambda crc, pair: zlib.crc32(_content(*pair), crc), self.examples, 0)
        return f"{len(self)} rows, {checksum:08x}"

    def read(self, epoch: int, indices: np.ndarray) -> Sequence[Item]:
        return [self.examples[i] for i in indices]

    def lengths(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        return self._sizes(objective)[0][indices]

    def weights(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        return self._sizes(objective)[1][indices]

    def _measure(self, objective: Collator[Item]) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.array([objective.length(example) for example in self.examples])
        return lengths, np.array([objective.weight(example) for example in self.examples])


class BPEDropoutRows(MemoryDataset[tuple[TokenRow, Target]]):
    """Dataset with BPE-dropout (Provilkov et al., 2020): encoded examples, and their ``texts``.

    Rows are truncated to ``longest``, if given. Segmentations depend only on (seed, epoch, index,
    number of the text).
    """

    def __init__(
        self,
        examples: Sequence[tuple[TokenRow, Target]],
        texts: Sequence[Sequence[str]],
        tokenizer: RowTokenizer,
        rate: float,
        seed: int,
        longest: int | None = None,
    ):
        super().__init__(examples)
        self.texts, self.tokenizer, self.rate, self.seed = texts, tokenizer, rate, seed
        self.longest = longest

    def read(self, epoch: int, indices: np.ndarray) -> list[tuple[TokenRow, Target]]:
        return [(self._segment(epoch, int(index)), self.examples[index][1]) for index in indices]

    def _segment(self, epoch: int, index: int) -> TokenRow:
        encode, key = self.tokenizer.words.encode_dropped, (self.seed, epoch, index)
        texts = enumerate(self.texts[index])
        ids = [encode(text, self.rate, (*key, number)) for number, text in texts]
        return self.tokenizer.row(ids[0], ids[1] if len(ids) > 1 else None, self.longest)

    lengths, weights = Dataset.lengths, Dataset.weights  # are known after tokenising


class UnknownWordRows(MemoryDataset[tuple[Rows, Target]]):
    """Dataset in which words that occur once are replaced by the ``unknown`` word at a given rate.

    The vector of unknown words is thus learned from rare ones (Lample et al., 2016). The characters
    of a word stay. Draws depend only on (seed, epoch, index).
    """

    def __init__(
        self, examples: Sequence[tuple[Rows, Target]], unknown: int, rate: float, seed: int
    ):
        super().__init__(examples)
        self.unknown, self.rate, self.seed = unknown, rate, seed
        every = (_words(row) for rows, _ in examples for row in _listed(rows))
        self.once_V = np.bincount(np.concatenate([*every])) == 1

    def read(self, epoch: int, indices: np.ndarray) -> list[tuple[Rows, Target]]:
        streams_N = streams((self.seed, epoch), indices)
        pairs = zip(indices, streams_N, strict=True)
        return [self._without_rare(self.examples[i], stream) for i, stream in pairs]

    def _without_rare(self, pair: tuple[Rows, Target], stream: np.ndarray) -> tuple[Rows, Target]:
        rows, target = pair
        several, drawn, before = _listed(rows), list[TokenRow](), 0
        for row in several:
            words_T, tokens = _words(row), np.array(row.tokens)
            drawn_T = uniform(stream, before + np.arange(len(words_T))) < self.rate
            tokens.reshape(len(tokens), -1)[self.once_V[words_T] & drawn_T, 0] = self.unknown
            drawn.append(row._replace(tokens=tokens))
            before += len(words_T)
        return (drawn if several is rows else drawn[0]), target


def _listed(rows: Rows) -> Sequence[TokenRow]:
    """The rows of an example: one, or several."""
    return [rows] if isinstance(rows, TokenRow) else rows


def _words(row: TokenRow) -> np.ndarray:
    """The ids of the words of a row, without the ids of their characters."""
    return np.reshape(row.tokens, (len(row.tokens), -1))[:, 0]


def _content(rows: Rows, target: object) -> bytes:
    """Bytes of an example, the same in every process."""
    parts = chain(*_listed(rows), [target])
    return b"|".join(map(_bytes, parts))


def _bytes(part: object) -> bytes:
    """Bytes of an array; of an array of objects, its ``repr`` (their bytes are addresses)."""
    array = np.asarray(part)
    return repr(part).encode() if array.dtype.hasobject else array.tobytes()
