"""Words as the pieces of a translator, whose encoder gives features of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.ground.errors import BadInput
from regard.text.vocabularies.subwords import Subwords

SPELLINGS = 1 << 16  # words whose ids are remembered


@dataclass(frozen=True)
class WordPieces:
    """Each word as the ids of its pieces, of which the first ``longest`` are read.

    Ids are one higher than those of the vocabulary: 0 is no piece. A source has no token that
    begins a sentence, and one that ends it.
    """

    FILE: ClassVar[str] = "pieces.json"

    vocabulary: Subwords
    longest: int = 8

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise BadInput(f"words of {self.longest} pieces have no room for one")

    @cached_property
    def begin(self) -> np.ndarray:
        """The word before a sentence: no piece."""
        return self._padded([])

    @cached_property
    def end(self) -> np.ndarray:
        """The word after a sentence."""
        return self._padded([self.vocabulary.eos])

    def spell(self, listed: Sequence[str]) -> np.ndarray:
        """(words, longest): the ids of each."""
        if not listed:
            return np.zeros((0, self.longest), np.int32)
        return np.stack([self._spelling(word) for word in listed])

    def save(self, folder: Path) -> dict[str, int]:
        """Write the vocabulary; returns what else ``load`` must know."""
        self.vocabulary.save(folder / self.FILE)
        return {"pieces": self.longest}

    @classmethod
    def load(cls, folder: Path, pieces: int) -> "WordPieces":
        """Read what ``save`` wrote."""
        return cls(Subwords.load(folder / cls.FILE), pieces)

    @cached_property
    def _spelling(self) -> Any:
        return lru_cache(SPELLINGS)(lambda word: self._padded(self.vocabulary.encode(word)))

    def _padded(self, ids: Sequence[int]) -> np.ndarray:
        read = np.asarray(ids[: self.longest], np.int32) + 1
        return np.pad(read, (0, self.longest - len(read)))
