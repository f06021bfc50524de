"""Metrics of classification: accuracy, macro F1, Matthews correlation, F1 of one class.

They are functions of the confusion matrix, which the bootstrap resamples. Precision, recall and F1
of a label are functions of the numbers of correct, gold and predicted items.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from regard.core.errors import BadInput
from regard.metrics.intervals import BOOTSTRAP, ExampleStatistics, FloatArray, interval, resampled
from regard.metrics.translation import Lines, MetricScore

Measure = Callable[[FloatArray], float]
"""Function of counts (a confusion matrix, or sums over examples); from 0 to 1."""


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


ITEM_MEASURES: dict[str, Measure] = {"precision": precision, "recall": recall, "F1": f1}
"""Measures of the numbers of correct, gold and predicted items."""


TOP = 5  # classes among which the gold one is looked for, where there are more


class Mistake(NamedTuple):
    """Number of examples of one class predicted as another, and their share of the class."""

    gold: str
    predicted: str
    number: int
    share: float


class Confusion(NamedTuple):
    """The classes that occur, and the confusion matrix: gold (down) by predicted (across)."""

    classes: list[str]
    counts: FloatArray

    @property
    def shares(self) -> FloatArray:
        """The counts as shares of their row; 0 in a row of a class that is never gold."""
        return self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)

    @property
    def remark(self) -> str:
        """A remark if all predictions are one class and the gold classes are several; else ""."""
        predicted = self.counts.sum(axis=0)
        if np.count_nonzero(predicted) != 1 or np.count_nonzero(self.counts.sum(axis=1)) < 2:
            return ""
        number = int(predicted.argmax())
        share = self.counts[number, number] / predicted[number]
        return f"all predictions are {self.classes[number]!r}, the label of {share:.1%}"

    def mistakes(self) -> list[Mistake]:
        """All mistakes, the most frequent first."""
        names, shares = self.classes, self.shares
        mistakes = [
            Mistake(names[row], names[column], int(self.counts[row, column]), shares[row, column])
            for row, column in np.argwhere(self.counts)
            if row != column
        ]
        return sorted(mistakes, key=lambda mistake: (-mistake.number, -mistake.share))


def classification_scores(
    golds: Lines, predicted: Lines, with_interval: bool = False, positive: str | None = None
) -> list[MetricScore]:
    """All of ``MEASURES`` in percent, and F1 of the class ``positive``, if given.

    GLUE uses the latter for MRPC and QQP, where "1" is positive.
    """
    classes, cells_N = _cells(golds, predicted, () if positive is None else (positive,))
    signature = f"examples:{len(golds)}|classes:{len(classes)}"
    labels_N2 = np.column_stack([golds, predicted])
    measures = [
        (name, measure, signature, _label_statistics(name, labels_N2))
        for name, measure in MEASURES.items()
    ]
    if positive is not None:
        of_class = partial(f1_of_class, number=classes.index(positive))
        gold_N, predicted_N = (labels_N2 == positive).T
        counts_N3 = np.column_stack([gold_N & predicted_N, gold_N, predicted_N]).astype(np.float64)
        examples = _sum_statistics(counts_N3, f1)
        measures.append(("F1", of_class, f"{signature}|positive:{positive}", examples))
    scores = []
    for name, measure, signed, examples in measures:
        share = measure(_counts(len(classes), cells_N))
        drawn = _drawn(measure, len(classes), cells_N) if with_interval else None
        scores.append(in_percent(name, share, signed, drawn, examples))
    return scores


def top_score(
    golds: Sequence[str], ranked: Sequence[Sequence[str]], with_interval: bool = False
) -> MetricScore:
    """Share of examples whose gold class is among the ``TOP`` first of ``ranked``."""
    check_counts(golds, ranked)
    pairs = zip(golds, ranked, strict=True)
    hits_N2 = np.array([[gold in classes[:TOP], 1] for gold, classes in pairs], dtype=np.float64)
    measures: dict[str, Measure] = {f"top-{TOP}": lambda sums: float(sums[0] / max(sums[1], 1))}
    signature = f"examples:{len(golds)}"
    return share_scores(measures, hits_N2, signature, with_interval, binary=measures)[0]


LabelSets = Sequence[Collection[str]]  # the labels of each example


def several_scores(
    golds: LabelSets, predicted: LabelSets, with_interval: bool = False
) -> list[MetricScore]:
    """Multi-label metrics: micro F1, and the share of texts with exactly the gold labels."""
    check_counts(golds, predicted)
    pairs = [*zip(map(set, golds), map(set, predicted), strict=True)]
    rows = [[len(g & p), len(g) + len(p), g == p, 1] for g, p in pairs]
    counts = np.array(rows, dtype=np.float64).reshape(-1, 4)
    measures: dict[str, Measure] = {
        "micro-F1": lambda sums: float(2 * sums[0] / max(sums[1], 1)),
        "accuracy": lambda sums: float(sums[2] / max(sums[3], 1)),
    }
    signature = f"examples:{len(golds)}|several"
    return share_scores(measures, counts, signature, with_interval, binary=("accuracy",))


def check_counts(golds: Sized, predicted: Sized) -> None:
    """Refuse predictions that are more or fewer than the labels."""
    if len(golds) != len(predicted):
        raise BadInput(f"{len(predicted)} predictions for {len(golds)} labels")


def share_scores(
    measures: Mapping[str, Measure],
    statistics: FloatArray,
    signature: str,
    with_interval: bool,
    binary: Collection[str] = (),
) -> list[MetricScore]:
    """Scores in percent; each measure is a function of the column sums of ``statistics``.

    ``binary`` measures are the share of examples that are right.
    """
    sums = statistics.sum(axis=0)
    scores = []
    for name, measure in measures.items():
        drawn = resampled(statistics, measure) if with_interval else None
        examples = _sum_statistics(statistics, measure, name in binary)
        scores.append(in_percent(name, measure(sums), signature, drawn, examples))
    return scores


def in_percent(
    name: str,
    share: float,
    signature: str,
    drawn: FloatArray | None,
    statistics: ExampleStatistics | None = None,
) -> MetricScore:
    """Score in percent of a fraction; ``drawn`` are its resampled values, or None."""
    if drawn is None:
        return MetricScore(name, 100 * share, signature, None, statistics)
    signature = f"{signature}|{BOOTSTRAP}"
    return MetricScore(name, 100 * share, signature, interval(100 * drawn), statistics)


def _sum_statistics(rows: FloatArray, measure: Measure, binary: bool = False) -> ExampleStatistics:
    return ExampleStatistics.of_sums(rows, lambda sums: 100 * measure(sums), binary)


def _label_statistics(name: str, labels_N2: np.ndarray) -> ExampleStatistics:
    """Statistics of a measure of the confusion matrix; rows are gold and predicted labels."""
    if name == ACCURACY:
        right_N2 = np.column_stack([labels_N2[:, 0] == labels_N2[:, 1], np.ones(len(labels_N2))])
        return _sum_statistics(right_N2, lambda sums: float(sums[0] / sums[1]), binary=True)
    return ExampleStatistics(labels_N2, partial(_percent_of_labels, MEASURES[name]))


def _percent_of_labels(measure: Measure, numbers_N2: np.ndarray) -> float:
    """Measure of the confusion matrix of gold and predicted labels, given by their numbers."""
    size = int(numbers_N2.max()) + 1
    return 100 * measure(_counts(size, numbers_N2[:, 0] * size + numbers_N2[:, 1]))


def confusion(golds: Sequence[str], predicted: Sequence[str]) -> Confusion:
    """The confusion matrix of predictions."""
    classes, cells_N = _cells(golds, predicted)
    return Confusion(classes, _counts(len(classes), cells_N))


def class_table(golds: Sequence[str], predicted: Sequence[str]) -> list[LabelScore]:
    """The scores of each class that occurs, and the classes it is confused with."""
    classes, counts = confusion(golds, predicted)
    table = []
    for number, label in enumerate(classes):
        row, sums = counts[number], (counts[number, number], *_margins(counts, number))
        counted = zip(classes, map(int, row), strict=True)
        confused = [(name, count) for name, count in counted if count and name != label]
        table.append(label_score(label, sums, tuple(sorted(confused, key=lambda pair: -pair[1]))))
    return table


def accuracy(counts: FloatArray) -> float:
    """The share of correct predictions."""
    return float(np.trace(counts) / counts.sum())


def macro_f1(counts: FloatArray) -> float:
    """The mean of F1 over the classes that occur among golds or predictions."""
    gold, predicted = counts.sum(axis=1), counts.sum(axis=0)
    occurs = gold + predicted > 0
    return float(np.mean(2 * np.diag(counts)[occurs] / (gold + predicted)[occurs]))


def f1_of_class(counts: FloatArray, number: int) -> float:
    """F1 of one class; 0 if it occurs neither among golds nor among predictions."""
    return f1(np.array([counts[number, number], *_margins(counts, number)]))


def _margins(counts: FloatArray, number: int) -> tuple[float, float]:
    """Gold counts and predicted counts of each class."""
    return float(counts[number].sum()), float(counts[:, number].sum())


def matthews(counts: FloatArray) -> float:
    """The Matthews correlation for any number of classes (Gorodkin, 2004).

    0 if golds or predictions are constant.
    """
    gold, predicted, total = counts.sum(axis=1), counts.sum(axis=0), counts.sum()
    together = np.trace(counts) * total - gold @ predicted
    apart = (total**2 - gold @ gold) * (total**2 - predicted @ predicted)
    return float(together / np.sqrt(apart)) if apart > 0 else 0.0


ACCURACY = "accuracy"
MEASURES: dict[str, Measure] = {ACCURACY: accuracy, "macro-F1": macro_f1, "Matthews": matthews}


def _drawn(measure: Measure, size: int, cells_N: np.ndarray) -> FloatArray:
    """Metric of resampled corpora; only cells of the confusion matrix that occur are counted."""
    occurring, which_N = np.unique(cells_N, return_inverse=True)

    def measured(sums: FloatArray) -> float:
        counts = np.zeros((size, size))
        counts.flat[occurring] = sums
        return measure(counts)

    return resampled(np.eye(len(occurring))[which_N], measured)


def _counts(size: int, cells_N: np.ndarray) -> FloatArray:
    """The confusion matrix of ``size`` classes, from the cell of each example."""
    return np.bincount(cells_N, minlength=size * size).reshape(size, size).astype(np.float64)


def _cells(
    golds: Sequence[str], predicted: Sequence[str], known: Sequence[str] = ()
) -> tuple[list[str], np.ndarray]:
    """The classes, and the cell of each example in the confusion matrix.

    ``known`` classes are included even if they do not occur.
    """
    check_counts(golds, predicted)
    if not golds:
        raise BadInput("no labels to score against")
    classes = sorted({*golds, *predicted, *known})
    number = {name: i for i, name in enumerate(classes)}
    pairs = zip(golds, predicted, strict=True)
    return classes, np.array([number[gold] * len(classes) + number[name] for gold, name in pairs])
