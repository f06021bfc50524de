"""Hypotheses set aside, sentence by sentence, and what it takes to be among the best of them."""

from collections.abc import Callable

import numpy as np

from regard.search.hypothesis import Alive, Hypothesis


class Aside:
    """``count_B``: how many have finished; ``bar_B``: the score of the last among the best."""

    def __init__(self, sentences: int, best: int, scores: Callable[[Alive], np.ndarray]):
        self.best, self.scores = best, scores
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.unfinished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.count_B = np.zeros(sentences, dtype=np.int64)
        self.bar_B = np.full(sentences, -np.inf)

    def add(self, rows: Alive, finished: bool) -> None:
        """Set all these rows aside."""
        if not len(rows):
            return
        shelves = self.finished if finished else self.unfinished
        pairs = zip(rows.sentence_R, self.scores(rows), strict=True)
        for row, (sentence, score) in enumerate(pairs):
            shelves[sentence].append(rows.hypothesis(row, finished, float(score)))
        if finished:
            for sentence in np.unique(rows.sentence_R):
                self._count(sentence)

    def _count(self, sentence: int) -> None:
        shelf = self.finished[sentence]
        self.count_B[sentence] = len(shelf)
        if len(shelf) >= self.best:
            self.bar_B[sentence] = _ranked(shelf)[self.best - 1].score

    def results(self) -> list[list[Hypothesis]]:
        """The best of each sentence; unfinished ones only in places that finished ones leave."""
        pairs = zip(self.finished, self.unfinished, strict=True)
        return [(_ranked(ended) + _ranked(others))[: self.best] for ended, others in pairs]


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Best first; of equals the one set aside first, so a newcomer must do better."""
    return sorted(hypotheses, key=lambda one: -one.score)
