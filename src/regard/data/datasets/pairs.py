"""Pairs of texts, tokenised once on disk, or in every epoch where BPE-dropout is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from regard.data.datasets.dataset import Batching, TrainingData, held_out_indices
from regard.data.shards import TextShardPair, TokenShardPair
from regard.data.sources import DropCounts, Source, read_pairs
from regard.data.tokenize import store_pair_texts, tokenize_pairs


class SideEncoder(Protocol):
    """The vocabulary of one side of a pair."""

    def __len__(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def encode_all(self, texts: list[str]) -> list[list[int]]: ...
    def encode_dropped(self, text: str, rate: float, key: tuple[int, ...]) -> list[int]: ...


@dataclass(frozen=True, eq=False)
class PairStore:
    """Tokenises files of pairs into ``folder``. With ``skip_bad``, bad pairs are left out."""

    sides: tuple[SideEncoder, SideEncoder]
    folder: Path
    longest_characters: int | None
    skip_bad: bool = False
    dropped: DropCounts = field(default_factory=DropCounts)

    @property
    def _options(self) -> dict[str, Any]:
        dropped = self.dropped if self.skip_bad else None
        return {"longest_characters": self.longest_characters, "dropped": dropped}

    def tokenize(self, name: str, source: Source) -> TokenShardPair:
        """Pairs of ids."""
        first, second = self.sides
        return tokenize_pairs(
            self.folder,
            name,
            source,
            first.encode_all,
            second.encode_all,
            vocab=max(len(first), len(second)),
            fingerprint=f"{first.fingerprint} {second.fingerprint}",
            **self._options,
        )

    def store_texts(self, name: str, source: Source) -> TextShardPair:
        """Pairs of texts."""
        return store_pair_texts(self.folder, name, source, **self._options)

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], ...]]:
        """Pairs of texts in ids."""
        texts = map(list, zip(*pairs, strict=True))
        encoded = (side.encode_all(one) for side, one in zip(self.sides, texts, strict=True))
        return list(zip(*encoded, strict=True))

    def texts(self, source: Source) -> list[tuple[str, str]]:
        """The pairs of a file as text."""
        pairs = read_pairs(source, self.longest_characters, DropCounts() if self.skip_bad else None)
        return [(first, second) for _, first, second in pairs]


@dataclass(frozen=True, eq=False)
class PairDataset:
    """Pairs of ids in shards; ``chosen_N`` are those that are not held out, where some are."""

    window: ClassVar[int] = 65_536
    ahead: ClassVar[int] = 0

    pairs: TokenShardPair
    chosen_N: np.ndarray | None

    def __len__(self) -> int:
        return len(self.pairs if self.chosen_N is None else self.chosen_N)

    @property
    def mark(self) -> str:
        """How many pairs, and a checksum of their content."""
        return f"{len(self.pairs)} pairs, {self.pairs.checksum:08x}"

    def numbers(self, indices: np.ndarray) -> np.ndarray:
        """Where these examples lie in the shards."""
        return indices if self.chosen_N is None else self.chosen_N[indices]

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """The same in every epoch."""
        return [self.pairs[i] for i in self.numbers(indices)]

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        """The objective knows them from the sizes of both sides."""
        return objective.lengths(self.pairs.lengths(self.numbers(indices)))

    def weights(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        """The objective knows them from the sizes of both sides."""
        return objective.weights(self.pairs.lengths(self.numbers(indices)))


@dataclass(frozen=True, eq=False)
class BPEDropoutDataset(PairDataset):
    """Pairs of texts, tokenised in every epoch with BPE-dropout (Provilkov et al., 2020).

    What is drawn follows from (seed, epoch, number, side).
    """

    pairs: TextShardPair  # type: ignore[assignment]
    sides: tuple[SideEncoder, SideEncoder]
    rate: float
    seed: int

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """Tokenised for this epoch."""
        return [self._drawn(epoch, int(number)) for number in self.numbers(indices)]

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> None:
        """Known after tokenising."""

    def weights(self, objective: Any, epoch: int, indices: np.ndarray) -> None:
        """Known after tokenising."""

    def _drawn(self, epoch: int, number: int) -> tuple[list[int], ...]:
        texts = zip(self.sides, self.pairs[number], strict=True)
        return tuple(
            side.encode_dropped(text, self.rate, (self.seed, epoch, number, which))
            for which, (side, text) in enumerate(texts)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class PairData(TrainingData):
    """Pairs of texts; those of the development set can be read as texts again."""

    store: PairStore
    dev_source: Source
    dev_N: np.ndarray | None  # those of the source that are held out

    def dev_texts(self, count: int) -> list[tuple[str, str]]:
        """The first pairs of the development set."""
        pairs = self.store.texts(self.dev_source)
        return pairs[:count] if self.dev_N is None else [pairs[i] for i in self.dev_N[:count]]


def load_pairs(
    store: PairStore, batching: Batching, train: Source, dev: Source | int, dropout: float = 0.0
) -> PairData:
    """Tokenise pairs, or read what was tokenised before; ``dev`` may be a number to hold out."""
    texts = store.store_texts("train", train) if dropout else None
    rows: Any = store.tokenize("train", train) if texts is None else texts
    train_N = dev_N = None
    if isinstance(dev, int):
        train_N, dev_N = held_out_indices(len(rows), dev)
        held = [rows[i] for i in dev_N]
        encoded: Any = held if texts is None else store.encode(held)
    else:
        encoded = store.tokenize("dev", dev)
    dataset = PairDataset(rows, train_N)
    if texts is not None:
        dataset = BPEDropoutDataset(texts, train_N, store.sides, dropout, batching.seed)
    return PairData(
        batching=batching,
        train=dataset,
        dev=encoded,
        sizes={"train": len(dataset), "dev": len(encoded)},
        dropped=store.dropped,
        store=store,
        dev_source=train if isinstance(dev, int) else dev,
        dev_N=dev_N,
    )
