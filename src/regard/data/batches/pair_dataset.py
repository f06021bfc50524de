"""Datasets of pairs of texts, tokenised once on disk, or in every epoch with BPE-dropout."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from regard.core.batch import Ids
from regard.core.workers import StartWorkers
from regard.data.batches.mixed_dataset import mixed_dataset
from regard.data.batches.sampler import Collator, Dataset
from regard.data.batches.shards import (
    Chunk,
    Encode,
    TokenShardPair,
    chunks_of,
    encode_chunks,
    shard_path,
    store_rows,
)
from regard.data.batches.training_data import Batching, TrainingData, held_out_indices
from regard.data.readers.fields import DropCounts
from regard.data.readers.sources import Source, read_examples, read_pairs
from regard.text.vocabulary import Vocabulary

Pair = Sequence[Ids]  # source and target
DEV = "dev"


class PairCollator(Collator[Pair], Protocol):
    """Collator that also gives lengths and weights of many pairs, from their sizes."""

    def lengths(self, sizes_NS: np.ndarray) -> np.ndarray: ...
    def weights(self, sizes_NS: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class PairStore:
    """Store of tokenised pairs in ``folder``; with ``skip_bad``, bad pairs are left out.

    Workers tokenise in parallel if ``start_workers`` is given. A store that is ``read_only`` must
    be complete. With ``deduplicate``, training pairs that occur before are left out.
    """

    sides: tuple[Vocabulary, Vocabulary]
    folder: Path
    longest_characters: int | None
    skip_bad: bool = False
    start_workers: StartWorkers | None = None
    read_only: bool = False
    deduplicate: bool = False
    dropped: DropCounts = field(default_factory=DropCounts)

    def tokenize(self, name: str, source: Source) -> TokenShardPair:
        """Tokenise pairs of texts; returns their shards."""
        fingerprint = " ".join(side.fingerprint for side in self.sides)
        encoders = [side.encode_all for side in self.sides]
        return self._store(name, source, encoders, max(map(len, self.sides)), fingerprint)

    def store_texts(self, name: str, source: Source) -> TokenShardPair:
        """Store pairs of texts as rows of bytes."""
        return self._store(f"{name}.text", source, [_as_utf8, _as_utf8], 256, "text")

    def _store(
        self, name: str, source: Source, encoders: Sequence[Encode], vocab: int, fingerprint: str
    ) -> TokenShardPair:
        longest, dropped = self.longest_characters, self.dropped if self.skip_bad else None

        def encoded(counted: DropCounts) -> Iterator[Chunk]:
            pairs = read_examples(source, longest, counted if self.skip_bad else None)
            chunks = chunks_of(texts for _, texts in pairs)
            sides = ([*map(list, zip(*chunk, strict=True))] for chunk in chunks)
            yield from map(Chunk, encode_chunks(encoders, sides, self.start_workers))

        settings = {"vocab": vocab, "fingerprint": fingerprint, "longest_characters": longest}
        return store_rows(
            shard_path(self.folder, name),
            source,
            {"source": vocab, "target": vocab},
            settings,
            encoded,
            dropped,
            read_only=self.read_only,
            unique=self.deduplicate and name != DEV,
        )

    def encode(self, pairs: Sequence[tuple[str, ...]]) -> list[tuple[list[int], ...]]:
        """Encode pairs of texts."""
        texts = map(list, zip(*pairs, strict=True))
        encoded = (side.encode_all(lines) for side, lines in zip(self.sides, texts, strict=True))
        return list(zip(*encoded, strict=True))

    def texts(self, source: Source) -> list[tuple[str, str]]:
        """Read the pairs of a source as text."""
        pairs = read_pairs(source, self.longest_characters, DropCounts() if self.skip_bad else None)
        return [(first, second) for _, first, second in pairs]


@dataclass(frozen=True, eq=False)
class PairDataset(Dataset[Pair]):
    """Dataset of pairs of ids in shards; ``chosen_N`` are the rows to train on, None: all."""

    pairs: TokenShardPair
    chosen_N: np.ndarray | None

    def __len__(self) -> int:
        return len(self.pairs if self.chosen_N is None else self.chosen_N)

    @property
    def fingerprint(self) -> str:
        return f"{len(self.pairs)} pairs, {self.pairs.checksum:08x}"

    def shard_rows(self, indices: np.ndarray) -> np.ndarray:
        """The rows of these examples in the shards."""
        return indices if self.chosen_N is None else self.chosen_N[indices]

    def read(self, epoch: int, indices: np.ndarray) -> list[Pair]:
        return [self.pairs[i] for i in self.shard_rows(indices)]

    def lengths(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        return cast(PairCollator, objective).lengths(self.pairs.lengths(self.shard_rows(indices)))

    def weights(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        return cast(PairCollator, objective).weights(self.pairs.lengths(self.shard_rows(indices)))


@dataclass(frozen=True, eq=False)
class BPEDropoutDataset(PairDataset):
    """Dataset of pairs in bytes, tokenised by BPE-dropout in every epoch (Provilkov et al., 2020).

    Segmentations depend only on (seed, epoch, number, side).
    """

    sides: tuple[Vocabulary, Vocabulary]
    rate: float
    seed: int

    def read(self, epoch: int, indices: np.ndarray) -> list[Pair]:
        return [self._segment(epoch, int(number)) for number in self.shard_rows(indices)]

    lengths, weights = Dataset.lengths, Dataset.weights  # are known after tokenising

    def _segment(self, epoch: int, number: int) -> tuple[list[int], ...]:
        texts = zip(self.sides, texts_of(self.pairs[number]), strict=True)
        return tuple(
            side.encode_dropped(text, self.rate, (self.seed, epoch, number, which))
            for which, (side, text) in enumerate(texts)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class PairData(TrainingData[Pair]):
    """Training data of pairs, with the texts of the development set."""

    store: PairStore
    dev_source: Source
    dev_N: np.ndarray | None  # held-out rows of the source; None: all of it

    def dev_texts(self, count: int) -> list[tuple[str, str]]:
        """The texts of the first pairs of the development set."""
        pairs = self.store.texts(self.dev_source)
        return pairs[:count] if self.dev_N is None else [pairs[i] for i in self.dev_N[:count]]


def load_pairs(
    store: PairStore,
    batching: Batching,
    train: Mapping[str, Source],
    dev: Source | int,
    dropout: float = 0.0,
    mix: Mapping[str, float] | None = None,
) -> PairData:
    """Tokenise pairs, or read what was tokenised before; ``dev`` may be a number to hold out.

    Several sets to train on are mixed by the weights ``mix``, in the same order.
    """
    read = store.store_texts if dropout else store.tokenize
    sets = {name: read(name, source) for name, source in train.items()}
    train_N, dev_N = None, None
    dev_rows: Any
    if isinstance(dev, int):
        ((name, rows),) = sets.items()
        train_N, dev_N = held_out_indices(len(rows), dev)
        dev = train[name]
        dev_rows = [rows[i] for i in dev_N]
        if dropout:
            dev_rows = store.encode([texts_of(pair) for pair in dev_rows])
    else:
        dev_rows = store.tokenize(DEV, dev)

    def dataset(rows: TokenShardPair) -> PairDataset:
        if not dropout:
            return PairDataset(rows, train_N)
        return BPEDropoutDataset(rows, train_N, store.sides, dropout, batching.seed)

    corpora = [*map(dataset, sets.values())]
    return PairData(
        batching=batching,
        train=mixed_dataset(corpora, mix or {}, batching.seed),
        dev=dev_rows,
        sizes={"train": sum(map(len, corpora)), "dev": len(dev_rows)},
        dropped=store.dropped,
        store=store,
        dev_source=dev,
        dev_N=dev_N,
    )


def texts_of(rows: Sequence[np.ndarray]) -> tuple[str, ...]:
    """Rows of bytes as text."""
    return tuple(row.tobytes().decode("utf-8") for row in rows)


def _as_utf8(texts: list[str]) -> list[bytes]:
    return [text.encode("utf-8") for text in texts]
