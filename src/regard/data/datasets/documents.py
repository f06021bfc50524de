"""Rows of documents, with targets that are drawn anew in each epoch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard.data.sentence_pairs import Passage, Passages

Annotate = Callable[[Sequence[Passage], np.ndarray, tuple[int, ...]], list[Any]]
"""Rows, their numbers and a key (seed, epoch) → the same rows with targets."""


@dataclass(frozen=True, eq=False)
class DocumentDataset:
    """Rows by number; their targets follow from (seed, epoch, number) alone."""

    window: ClassVar[int] = 16_384  # each window ends in a batch that is not full
    ahead: ClassVar[int] = 64

    passages: Passages
    annotate: Annotate
    seed: int

    def __len__(self) -> int:
        return self.passages.count

    @property
    def mark(self) -> str:
        """How many documents, and a checksum of their content."""
        documents = self.passages.documents
        return f"{len(documents)} documents, {documents.checksum:08x}"

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """Rows as a model reads them in this epoch; the targets of all are drawn at once."""
        return self.annotate(self.passages.read(epoch, indices), indices, (self.seed, epoch))

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        """Rows are planned by their lengths."""
        return self.passages.lengths(epoch, indices)[:, None]

    def weights(self, objective: Any, epoch: int, indices: np.ndarray) -> None:
        """Known when targets are drawn."""
        return

    def read_all(self, epoch: int = 0) -> list[Any]:
        """Every row of an epoch."""
        starts = range(0, len(self), self.window)
        parts = (np.arange(first, min(first + self.window, len(self))) for first in starts)
        return [row for indices in parts for row in self.read(epoch, indices)]
