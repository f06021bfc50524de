"""Tests of static word vectors: word similarity and analogies.

Similarity (WordSim-353, SimLex-999): the rank correlation of the cosines of word pairs with human
judgements. Analogies (Mikolov et al., 2013, arXiv:1301.3781): "a is to b as c is to d" is right if
d is the nearest word to b - a + c, these three excluded, with vectors of length 1 (3CosAdd).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.core.errors import BadInput
from regard.data.readers.static_vectors import StaticVectors
from regard.data.readers.text_files import read_lines
from regard.metrics.regression import spearman

TOTAL = "all sections"
SECTION = ":"  # begins the line that names a section


@dataclass(frozen=True)
class WordScore:
    """Score in percent; all words have vectors in ``known`` of ``total`` pairs or questions."""

    test: str
    metric: str
    score: float | None  # None: undefined, with too few known pairs or questions
    known: int
    total: int


class WordPair(NamedTuple):
    """Two words, and their similarity as judged by people."""

    first: str
    second: str
    similarity: float


class Analogy(NamedTuple):
    """Analogy "a is to b as c is to d"."""

    a: str
    b: str
    c: str
    d: str


@dataclass(frozen=True)
class WordPairs:
    """Word-similarity test: pairs of words with judgements."""

    name: str
    pairs: tuple[WordPair, ...]

    @property
    def words(self) -> set[str]:
        """All words of the test."""
        return {word for pair in self.pairs for word in pair[:2]}

    def scores(self, vectors: StaticVectors) -> list[WordScore]:
        """Spearman's correlation over the pairs whose words have vectors.

        The correlation is undefined if all judgements, or all cosines, are equal.
        """
        known = [pair for pair in self.pairs if pair.first in vectors and pair.second in vectors]
        sides = ([pair.first for pair in known], [pair.second for pair in known])
        first_ND, second_ND = (vectors.unit([*vectors.indices_of(side).values()]) for side in sides)
        golds_N = np.array([pair.similarity for pair in known], np.float64)
        cosines_N = (first_ND * second_ND).sum(1).astype(np.float64)
        defined = min(len({*golds_N}), len({*cosines_N})) > 1
        score = 100 * spearman(golds_N, cosines_N) if defined else None
        return [WordScore(self.name, "Spearman", score, len(known), len(self.pairs))]


@dataclass(frozen=True)
class Analogies:
    """Analogy test: questions by section."""

    name: str
    sections: dict[str, tuple[Analogy, ...]]

    @property
    def words(self) -> set[str]:
        """All words of the test."""
        return {*chain.from_iterable(chain.from_iterable(self.sections.values()))}

    def scores(self, vectors: StaticVectors) -> list[WordScore]:
        """Accuracy of each section, and of all, over the questions whose words have vectors."""
        results = {name: self._results(vectors, each) for name, each in self.sections.items()}
        results[TOTAL] = [*chain.from_iterable(results.values())]
        totals = {name: len(each) for name, each in self.sections.items()}
        totals[TOTAL] = sum(totals.values())
        scores = []
        for name, right in results.items():
            test, score = f"{self.name}: {name}", 100 * sum(right) / len(right) if right else None
            scores.append(WordScore(test, "accuracy", score, len(right), totals[name]))
        return scores

    @staticmethod
    def _results(vectors: StaticVectors, questions: tuple[Analogy, ...]) -> list[bool]:
        """Whether each question is answered right, among those whose words have vectors."""
        rows = [[*vectors.indices_of(question).values()] for question in questions]
        numbers_NC = np.array([row for row in rows if len(row) == 4], dtype=int).reshape(-1, 4)
        a_ND, b_ND, c_ND = (vectors.unit(column) for column in numbers_NC.T[:3])
        nearest = vectors.nearest(b_ND - a_ND + c_ND, numbers_NC[:, :3], top=1)
        return [
            bool(best) and best[0][0] == expected
            for best, expected in zip(nearest, numbers_NC[:, 3], strict=True)
        ]


def read_word_test(path: str | Path) -> WordPairs | Analogies:
    """Read word pairs with a similarity, or analogies by section (": name" lines)."""
    lines = [(f"{path}:{n}", line) for n, line in enumerate(read_lines(path), 1) if line.strip()]
    if not lines:
        raise BadInput(f"{path}: has no words")
    name = Path(path).name
    if not lines[0][1].startswith(SECTION):
        return WordPairs(name, tuple(_pair(where, line) for where, line in lines))
    sections: dict[str, list[Analogy]] = {}
    for section, question in _questions(lines):
        sections.setdefault(section, []).append(question)
    return Analogies(name, {section: tuple(each) for section, each in sections.items()})


def _pair(where: str, line: str) -> WordPair:
    columns = line.replace(",", " ").split()
    try:
        first, second, judgement = columns
        pair = WordPair(first, second, float(judgement))
    except ValueError:
        raise BadInput(f"{where}: not two words and a number") from None
    if not isfinite(pair.similarity):
        raise BadInput(f"{where}: {judgement} is not a finite number")
    return pair


def _questions(lines: list[tuple[str, str]]) -> Iterator[tuple[str, Analogy]]:
    section = ""
    for where, line in lines:
        if line.startswith(SECTION):
            section = line.removeprefix(SECTION).strip()
            continue
        if len(words := line.split()) != 4:
            raise BadInput(f"{where}: {len(words)} words, not the four of an analogy")
        yield section, Analogy(*words)
