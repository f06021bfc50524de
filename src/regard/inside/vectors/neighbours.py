"""Nearest neighbours of a word in context, beside those of its static vector (Peters et al., 2018).

A word in context is the mean of the states of its tokens; neighbours are the words of all texts
whose states have the largest cosines with it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.data.files.static_vectors import StaticVectors
from regard.ground.errors import BadInput
from regard.inside.vectors.nearest import Neighbour, nearest
from regard.text.tokenizers.list import Tokenizer

TEXTS = 256  # read at once
AROUND = 6  # words shown before and after a word


class LineOfText(NamedTuple):
    """A text, and the number of its line in the file; 0 if it stands in none."""

    number: int
    text: str


@dataclass(frozen=True)
class WordInContext:
    """A word of a line: ``words[place]``."""

    line: int
    words: tuple[str, ...]
    place: int

    @property
    def word(self) -> str:
        """The word itself."""
        return self.words[self.place]

    def __str__(self) -> str:
        first, last = max(0, self.place - AROUND), self.place + 1 + AROUND
        before, after = self.words[first : self.place], self.words[self.place + 1 : last]
        begun, ended = ["…"] * (first > 0), ["…"] * (last < len(self.words))
        return " ".join([*begun, *before, f"[{self.word}]", *after, *ended])


@dataclass(frozen=True, eq=False)
class ContextualWords:
    """Reads texts with a model: each word, and its vector at the layer of a tape ``path``."""

    runner: Any
    tokenizer: Tokenizer
    path: str

    def read(self, lines: Iterable[LineOfText]) -> Iterator[tuple[list[WordInContext], np.ndarray]]:
        """Words and their vectors of length 1, a few texts at once; punctuation is left out."""
        coming = iter(lines)
        while some := list(islice(coming, TEXTS)):
            read = [(line.number, self.tokenizer.read_words(line.text)) for line in some]
            read = [(number, row) for number, row in read if row.words]
            words, vectors = list[WordInContext](), list[torch.Tensor]()
            states = self.runner.states([row.row for _, row in read], self.path)
            for (number, row), states_TD in zip(read, states, strict=True):
                for place, (word, group) in enumerate(zip(row.words, row.groups, strict=True)):
                    if any(map(str.isalnum, word)):
                        words.append(WordInContext(number, row.words, place))
                        vectors.append(states_TD[[*group]].float().mean(0))
            if words:
                vectors_ND = torch.nn.functional.normalize(torch.stack(vectors), dim=-1)
                if not vectors_ND.isfinite().all():
                    raise BadInput("the model is broken: its states are not numbers")
                yield words, vectors_ND.cpu().numpy()

    def find(self, word: str, lines: Sequence[LineOfText], most: int) -> Iterator[Any]:
        """The first ``most`` occurrences of a word, in capitals or not, with their vectors."""
        query = word.lower()
        with_word = (line for line in lines if query in line.text.lower())
        matches = (
            (occurrence, vector_D)
            for words, vectors_ND in self.read(with_word)
            for occurrence, vector_D in zip(words, vectors_ND, strict=True)
            if occurrence.word.lower() == query
        )
        return islice(matches, most)

    def nearest(
        self,
        queries: Sequence[WordInContext],
        queries_BD: np.ndarray,
        lines: Iterable[LineOfText],
        top: int,
    ) -> list[list[Neighbour]]:
        """The ``top`` words of all lines for each query, best first, without the query itself.

        Vectors of a few texts are in memory at once.
        """
        return nearest(queries, queries_BD, self.read(lines), top)


def static_neighbours(vectors: StaticVectors, word: str, top: int) -> list[tuple[str, float]]:
    """The ``top`` words by cosine with the vector of a word, none if it has no vector."""
    if (number := vectors.number(word)) is None:
        return []
    same = [n for n, other in enumerate(vectors.words) if other.lower() == word.lower()]
    (nearest,) = vectors.nearest(vectors.vectors_ND[[number]], [same], top)
    return [(vectors.words[n], cosine) for n, cosine in nearest]
