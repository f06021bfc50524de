"""How well a label is found: precision, recall, F1, from how many are right, gold and named."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from regard.metrics.intervals import FloatArray


@dataclass(frozen=True)
class LabelScore:
    """How well one label is found, in percent; how many have it; which others it is taken for.

    The others come with how often, the commonest first.
    """

    label: str
    precision: float
    recall: float
    f1: float
    count: int
    taken_for: tuple[tuple[str, int], ...] = ()


def label_score(
    label: str, sums: tuple[float, float, float], taken_for: tuple[tuple[str, int], ...] = ()
) -> LabelScore:
    """Its scores, from how many are right, gold and named."""
    counts = np.array(sums, dtype=np.float64)
    shares = 100 * precision(counts), 100 * recall(counts), 100 * f1(counts)
    return LabelScore(label, *shares, int(sums[1]), taken_for)


def precision(sums: FloatArray) -> float:
    """The share of what was named that is right, from how many are right, gold and named."""
    right, _, named = sums
    return float(right / named) if named else 0.0


def recall(sums: FloatArray) -> float:
    """The share of what is gold that was named."""
    right, golden, _ = sums
    return float(right / golden) if golden else 0.0


def f1(sums: FloatArray) -> float:
    """The harmonic mean of both; 0 where nothing is gold and nothing named."""
    right, golden, named = sums
    return float(2 * right / (golden + named)) if golden + named else 0.0


MEASURES: dict[str, Callable[[FloatArray], float]] = {
    "precision": precision,
    "recall": recall,
    "F1": f1,
}
