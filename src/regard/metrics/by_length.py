"""Scores by the length of the source."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.metrics.translation import Metric, MetricScore, scored, segment_statistics


@dataclass(frozen=True)
class LengthBucket:
    """Sentences of ``shortest`` to ``longest`` words, their number, mean length and score."""

    shortest: int
    longest: int
    sentences: int
    mean: float
    score: MetricScore

    def __str__(self) -> str:
        if self.shortest == self.longest:
            return str(self.shortest)
        return f"{self.shortest}–{self.longest}"


def by_length(
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    lengths: Sequence[int],
    buckets: int = 5,
) -> list[LengthBucket]:
    """Scores over buckets of about equally many sentences; each length is in one bucket."""
    statistics = segment_statistics(metric, hypotheses, references)
    length_N = np.asarray(lengths)
    scored_buckets = []
    for shortest, longest in limits(lengths, buckets):
        chosen_N = (length_N >= shortest) & (length_N <= longest)
        score = scored(metric, statistics[chosen_N])
        mean = float(length_N[chosen_N].mean())
        scored_buckets.append(LengthBucket(shortest, longest, int(chosen_N.sum()), mean, score))
    return scored_buckets


def limits(lengths: Sequence[int], buckets: int) -> list[tuple[int, int]]:
    """The shortest and the longest length of each bucket."""
    values, counts = np.unique(np.asarray(lengths), return_counts=True)
    middles = (counts.cumsum() - counts / 2) / max(1, counts.sum())
    number = np.minimum((middles * buckets).astype(int), buckets - 1)
    return [
        (int(values[number == one].min()), int(values[number == one].max()))
        for one in np.unique(number)
    ]
