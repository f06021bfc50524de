"""Hypotheses set aside, sentence by sentence, and what it takes to be among the best of them."""

from collections.abc import Iterable

import numpy as np

from regard.search.hypothesis import Hypothesis


class FinishedHypotheses:
    """``count_B``: how many count as found; ``bar_B``: the score of the last of the ``best``."""

    def __init__(self, sentences: int, best: int):
        self.best = best
        self.found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.spare: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.count_B = np.zeros(sentences, dtype=np.int64)
        self.bar_B = np.full(sentences, -np.inf)

    def add(self, sentence_R: np.ndarray, hypotheses: Iterable[Hypothesis], counts: bool) -> None:
        """Set these aside; those that do not count are spare."""
        new_finished = self.found if counts else self.spare
        for sentence, hypothesis in zip(sentence_R, hypotheses, strict=True):
            new_finished[sentence].append(hypothesis)
        if counts:
            for sentence in np.unique(sentence_R):
                self._count(sentence)

    def _count(self, sentence: int) -> None:
        shelf = self.found[sentence]
        self.count_B[sentence] = len(shelf)
        if len(shelf) >= self.best:
            self.bar_B[sentence] = _ranked(shelf)[self.best - 1].score

    def ranked(self, best: int) -> list[list[Hypothesis]]:
        """The best of each sentence; spare ones only in places that the others leave."""
        pairs = zip(self.found, self.spare, strict=True)
        return [(_ranked(found) + _ranked(spare))[:best] for found, spare in pairs]


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Best first; of equals the one set aside first, so a newcomer must do better."""
    return sorted(hypotheses, key=lambda one: -one.score)
