"""Examples in memory that are encoded anew in each epoch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.data.datasets.memory import MemoryDataset


class RedrawnDataset(MemoryDataset):
    """Encoded examples; ``draw(epoch, index)`` encodes one for an epoch, as BPE-dropout does."""

    def __init__(self, examples: Sequence[Any], draw: Callable[[int, int], Any]):
        super().__init__(examples)
        self.draw = draw

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """Encoded for this epoch."""
        return [self.draw(epoch, int(index)) for index in indices]

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> None:  # type: ignore[override]
        """Known after encoding."""

    def weights(self, objective: Any, epoch: int, indices: np.ndarray) -> None:  # type: ignore[override]
        """Known after encoding."""
