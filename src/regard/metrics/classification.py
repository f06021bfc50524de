"""Scores of classifiers: accuracy, macro-averaged F1, Matthews' correlation, with intervals.

All of them follow from how often each class was taken for each other, so that the bootstrap draws
examples anew and counts nothing twice.
"""

from collections.abc import Callable, Sequence

import numpy as np

from regard.ground.errors import BadInput
from regard.metrics.intervals import SAMPLES, SEED, Numbers, interval, resampled
from regard.metrics.translation import Score

Measure = Callable[[Numbers], float]
"""From a table of counts, gold classes down and predicted ones across, to a share of 1."""


def classification_scores(
    golds: Sequence[str], predicted: Sequence[str], with_interval: bool = False
) -> list[Score]:
    """All three, in percent."""
    return [
        _score(name, measure, golds, predicted, with_interval) for name, measure in MEASURES.items()
    ]


def confusion(golds: Sequence[str], predicted: Sequence[str]) -> tuple[list[str], Numbers]:
    """The classes that occur, and how often each (down) was taken for each (across)."""
    classes, cells_N = _cells(golds, predicted)
    size = len(classes)
    counts = np.bincount(cells_N, minlength=size * size).reshape(size, size)
    return classes, counts.astype(np.float64)


def accuracy(counts: Numbers) -> float:
    """The share of examples that are right."""
    return float(np.trace(counts) / counts.sum())


def macro_f1(counts: Numbers) -> float:
    """The mean over classes of 2PR / (P + R); 0 for a class nobody names rightly.

    A class counts if it occurs among golds or predictions.
    """
    found, named = counts.sum(axis=1), counts.sum(axis=0)
    occurs = found + named > 0
    return float(np.mean(2 * np.diag(counts)[occurs] / (found + named)[occurs]))


def matthews(counts: Numbers) -> float:
    """The correlation of golds and predictions, for any number of classes (Gorodkin, 2004).

    0 where one of them never changes.
    """
    found, named, total = counts.sum(axis=1), counts.sum(axis=0), counts.sum()
    together = np.trace(counts) * total - found @ named
    apart = (total**2 - found @ found) * (total**2 - named @ named)
    return float(together / np.sqrt(apart)) if apart > 0 else 0.0


MEASURES: dict[str, Measure] = {"accuracy": accuracy, "macro-F1": macro_f1, "Matthews": matthews}


def _score(
    name: str,
    measure: Measure,
    golds: Sequence[str],
    predicted: Sequence[str],
    with_interval: bool,
) -> Score:
    classes, counts = confusion(golds, predicted)
    signature, around = f"examples:{len(golds)}|classes:{len(classes)}", None
    if with_interval:
        around = interval(100 * _drawn(measure, counts.shape, _cells(golds, predicted)[1]))
        signature += f"|bs:{SAMPLES}|seed:{SEED}"
    return Score(name, 100 * measure(counts), signature, around)


def _drawn(measure: Measure, shape: tuple[int, ...], cells_N: np.ndarray) -> Numbers:
    """The measure of corpora drawn anew; only cells that occur are counted."""
    occurring, which_N = np.unique(cells_N, return_inverse=True)

    def measured(sums: Numbers) -> float:
        counts = np.zeros(shape)
        counts.flat[occurring] = sums
        return measure(counts)

    return resampled(np.eye(len(occurring))[which_N], measured)


def _cells(golds: Sequence[str], predicted: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The classes, and for each example the cell of the table that it falls into."""
    if len(golds) != len(predicted):
        raise BadInput(f"{len(predicted)} predictions for {len(golds)} labels")
    if not golds:
        raise BadInput("no labels to score against")
    classes = sorted({*golds, *predicted})
    number = {name: i for i, name in enumerate(classes)}
    pairs = zip(golds, predicted, strict=True)
    return classes, np.array([number[one] * len(classes) + number[two] for one, two in pairs])
