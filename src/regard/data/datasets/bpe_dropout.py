"""Rows in memory that are tokenised anew in each epoch, with BPE-dropout."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.data.datasets.memory import MemoryDataset
from regard.text.row_tokenizer import RowTokenizer


class BPEDropoutRows(MemoryDataset):
    """Encoded examples, and the ``texts`` of each (Provilkov et al., 2020).

    What is drawn follows from (seed, epoch, index, number of the text).
    """

    def __init__(
        self,
        examples: Sequence[Any],
        texts: Sequence[Sequence[str]],
        tokenizer: RowTokenizer,
        rate: float,
        seed: int,
    ):
        super().__init__(examples)
        self.texts, self.tokenizer, self.rate, self.seed = texts, tokenizer, rate, seed

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """Tokenised for this epoch."""
        return [(self._draw(epoch, int(index)), self.examples[index][1]) for index in indices]

    def _draw(self, epoch: int, index: int) -> Any:
        encode, key = self.tokenizer.words.encode_dropped, (self.seed, epoch, index)
        texts = enumerate(self.texts[index])
        ids: Any = [encode(text, self.rate, (*key, number)) for number, text in texts]
        return self.tokenizer.row(*ids)

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> None:  # type: ignore[override]
        """Known after tokenising."""

    def weights(self, objective: Any, epoch: int, indices: np.ndarray) -> None:  # type: ignore[override]
        """Known after tokenising."""
