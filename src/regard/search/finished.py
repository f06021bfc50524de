"""Finished hypotheses of each sentence, and the score to beat to be among the best."""

from collections.abc import Iterable

import numpy as np

from regard.search.hypothesis import Hypothesis


class FinishedHypotheses:
    """``count_B``: how many count; ``bar_B``: the score of the last of the ``best``.

    ``spare`` are unfinished hypotheses that fill empty places.
    """

    def __init__(self, sentences: int, best: int):
        self.best = best
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.spare: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.count_B = np.zeros(sentences, dtype=np.int64)
        self.bar_B = np.full(sentences, -np.inf)

    def add(self, sentence_R: np.ndarray, hypotheses: Iterable[Hypothesis], counts: bool) -> None:
        """Add hypotheses; those that do not count are spare."""
        lists = self.finished if counts else self.spare
        for sentence, hypothesis in zip(sentence_R, hypotheses, strict=True):
            lists[sentence].append(hypothesis)
        if counts:
            for sentence in np.unique(sentence_R):
                self._count(sentence)

    def _count(self, sentence: int) -> None:
        hypotheses = self.finished[sentence]
        self.count_B[sentence] = len(hypotheses)
        if len(hypotheses) >= self.best:
            self.bar_B[sentence] = _ranked(hypotheses)[self.best - 1].score

    def ranked(self, best: int) -> list[list[Hypothesis]]:
        """The best of each sentence; spare ones fill the places that the others leave."""
        pairs = zip(self.finished, self.spare, strict=True)
        return [(_ranked(finished) + _ranked(spare))[:best] for finished, spare in pairs]


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Best first; ties in the order in which they were added."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
