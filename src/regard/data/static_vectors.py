"""Static word vectors in text files: a word and its numbers in each line (GloVe, word2vec).

A first line of two numbers, how many words and how many numbers, is skipped.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.sources import read_lines
from regard.ground.errors import BadInput


class StaticVectors(NamedTuple):
    """Words, and a vector for each."""

    words: tuple[str, ...]
    vectors_ND: np.ndarray

    @classmethod
    def read(cls, path: Path) -> "StaticVectors":
        """A file, which may be compressed."""
        words, vectors = list[str](), list[np.ndarray]()
        for number, line in enumerate(read_lines(path), start=1):
            word, *numbers = line.rstrip().split(" ")
            if number == 1 and len(numbers) == 1:
                continue
            try:
                vector = np.array(numbers, np.float32)
            except ValueError:
                raise BadInput(f"{path}:{number}: not a word and its numbers") from None
            if len(vector) != (size := len(vectors[0]) if vectors else max(1, len(vector))):
                raise BadInput(f"{path}:{number}: {len(vector)} numbers, not {size}")
            words.append(word)
            vectors.append(vector)
        if not words:
            raise BadInput(f"{path}: has no vectors")
        return cls(tuple(words), np.stack(vectors))
