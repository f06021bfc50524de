"""Examples that are kept in memory."""

import zlib
from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from regard.ground.batch import TokenRow


class MemoryDataset(Sequence[Any]):
    """Encoded examples: each is a row, or several, and a target."""

    window: ClassVar[int] = 65_536
    ahead: ClassVar[int] = 0

    def __init__(self, examples: Sequence[Any]):
        self.examples = examples
        self._sizes = lru_cache(maxsize=1)(self._measure)  # of one objective

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: Any) -> Any:
        return self.examples[index]

    @property
    def mark(self) -> str:
        """How many rows, and a checksum of their content."""
        checksum = reduce(lambda crc, one: zlib.crc32(_content(*one), crc), self.examples, 0)
        return f"{len(self)} rows, {checksum:08x}"

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """The same in every epoch."""
        return [self.examples[i] for i in indices]

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        """Measured once."""
        return self._sizes(objective)[0][indices]

    def weights(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        """Measured once."""
        return self._sizes(objective)[1][indices]

    def _measure(self, objective: Any) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.array([objective.length(example) for example in self.examples])
        return lengths, np.array([objective.weight(example) for example in self.examples])


def _content(rows: TokenRow | Sequence[TokenRow], target: Any) -> bytes:
    """An example as bytes."""
    parts = chain(rows if isinstance(rows, TokenRow) else chain(*rows), [target])
    return b"|".join(np.asarray(part).tobytes() for part in parts)
