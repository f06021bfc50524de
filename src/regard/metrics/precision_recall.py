"""Precision, recall and F1 of a label, from the numbers of correct, gold and predicted items."""

from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from regard.metrics.intervals import FloatArray


class Labelled(Protocol):
    """Item with a label, such as an entity."""

    @property
    def label(self) -> str: ...


@dataclass(frozen=True)
class LabelScore:
    """The scores of one label in percent, its gold count, and the labels it is confused with.

    ``taken_for`` are these labels with their counts, the most frequent first.
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
    """The scores of a label, from the numbers of correct, gold and predicted items."""
    counts = np.array(sums, dtype=np.float64)
    shares = 100 * precision(counts), 100 * recall(counts), 100 * f1(counts)
    return LabelScore(label, *shares, int(sums[1]), taken_for)


def label_table(
    pairs: Iterable[tuple[AbstractSet[Labelled], AbstractSet[Labelled]]],
) -> list[LabelScore]:
    """The scores of each label that occurs, sorted, from gold and predicted items, in parts."""
    correct, golden, named = Counter[str](), Counter[str](), Counter[str]()
    for gold, predicted in pairs:
        for count, items in ((correct, gold & predicted), (golden, gold), (named, predicted)):
            count.update(item.label for item in items)
    names = sorted({*golden, *named})
    return [label_score(name, (correct[name], golden[name], named[name])) for name in names]


def precision(sums: FloatArray) -> float:
    """The share of predicted items that are correct."""
    right, _, named = sums
    return float(right / named) if named else 0.0


def recall(sums: FloatArray) -> float:
    """The share of gold items that are predicted."""
    right, golden, _ = sums
    return float(right / golden) if golden else 0.0


def f1(sums: FloatArray) -> float:
    """The harmonic mean of precision and recall; 0 without gold and predicted items."""
    right, golden, named = sums
    return float(2 * right / (golden + named)) if golden + named else 0.0


def harmonic_mean(first: float, second: float) -> float:
    """The harmonic mean of a precision and a recall that have sums of their own; 0 of zeros."""
    return float(2 * first * second / (first + second)) if first + second else 0.0


Measure = Callable[[FloatArray], float]
MEASURES: dict[str, Measure] = {"precision": precision, "recall": recall, "F1": f1}
