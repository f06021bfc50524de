"""What vocabularies share whose tokens are the words and punctuation marks of a text."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from regard.text.offsets import Segmentation
from regard.text.vocabularies.lexicon import BEGIN, END
from regard.text.words import word_spans


class WholeWords(ABC):
    """A vocabulary with one token a word, which is an id or an array of ids."""

    byte_sizes: ClassVar[None] = None

    @abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """The tokens of the words of a text."""

    @abstractmethod
    def pieces(self, ids: Iterable[Any]) -> list[str]:
        """The word of each token."""

    def encode_all(self, texts: Iterable[str]) -> list[np.ndarray]:
        """Those of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[Any]) -> str:
        """The words of a row; those around the sentence are left out."""
        return " ".join(word for word in self.pieces(ids) if word not in (BEGIN, END))

    def segment(self, text: str) -> Segmentation:
        """The words of a text, each of which is a token."""
        spans = tuple(word_spans(text))
        ids: Any = self.encode(text)
        return Segmentation(ids, spans, tuple(range(len(spans))))
