"""Metrics of regression: Pearson and Spearman correlation.

GLUE uses both for STS-B.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from regard.core.errors import BadInput
from regard.metrics.classification import check_counts, in_percent
from regard.metrics.intervals import ExampleStatistics, FloatArray, resampled_rows
from regard.metrics.translation import MetricScore

Correlation = Callable[[FloatArray, FloatArray], float]


def regression_scores(
    golds: Sequence[float], predicted: Sequence[float], with_interval: bool = False
) -> list[MetricScore]:
    """Pearson and Spearman correlation, in percent."""
    golds_N, predicted_N = _finite("label", golds), _finite("prediction", predicted)
    check_counts(golds, predicted)
    if not len(golds):
        raise BadInput("no labels to score against")

    def score(name: str, correlation: Correlation, *columns: np.ndarray) -> MetricScore:
        of_sample, rows = partial(_of_rows, correlation), np.column_stack(columns)
        drawn = resampled_rows(rows, of_sample) if with_interval else None
        examples = ExampleStatistics(rows_N2, partial(_percent_of_rows, CORRELATIONS[name]))
        share, signature = correlation(*columns), f"examples:{len(golds)}"
        return in_percent(name, share, signature, drawn, examples)

    rows_N2 = np.column_stack([golds_N, predicted_N])
    levels = _levels(golds_N), _levels(predicted_N)
    return [score("Pearson", pearson, golds_N, predicted_N), score("Spearman", _of_levels, *levels)]


def pearson(first_N: FloatArray, second_N: FloatArray) -> float:
    """The cosine of the centred numbers; 0 if either is constant."""
    first_N, second_N = _centred(first_N), _centred(second_N)
    lengths = np.linalg.norm(first_N) * np.linalg.norm(second_N)
    return float(np.clip(first_N @ second_N / lengths, -1, 1)) if lengths > 0 else 0.0


def spearman(first_N: FloatArray, second_N: FloatArray) -> float:
    """The Pearson correlation of the ranks; equal numbers share their mean rank."""
    return _of_levels(_levels(first_N), _levels(second_N))


CORRELATIONS: dict[str, Correlation] = {"Pearson": pearson, "Spearman": spearman}


def _of_levels(first_N: np.ndarray, second_N: np.ndarray) -> float:
    return pearson(_mean_ranks(first_N), _mean_ranks(second_N))


def _levels(numbers_N: FloatArray) -> np.ndarray:
    """The rank of each number among the distinct numbers, from 0.

    Resampling keeps their order, so that numbers are sorted once.
    """
    return np.unique(numbers_N, return_inverse=True)[1]


def _mean_ranks(levels_N: np.ndarray) -> FloatArray:
    at_level = np.bincount(levels_N)
    last = np.cumsum(at_level)
    return (last - (at_level - 1) / 2)[levels_N]


def _centred(numbers_N: FloatArray) -> FloatArray:
    """The deviations from the mean, scaled so that their squares cannot overflow."""
    if numbers_N.min() == numbers_N.max():
        return np.zeros(len(numbers_N))  # the rounded mean of equal numbers need not be that number
    scaled_N = numbers_N / np.abs(numbers_N).max()
    return scaled_N - scaled_N.mean()


def _of_rows(correlation: Correlation, rows_N2: np.ndarray) -> float:
    return correlation(rows_N2[:, 0], rows_N2[:, 1])


def _percent_of_rows(correlation: Correlation, rows_N2: FloatArray) -> float:
    return 100 * _of_rows(correlation, rows_N2)


def _finite(called: str, numbers: Sequence[float]) -> FloatArray:
    numbers_N = np.asarray(numbers, dtype=np.float64)
    for number in np.flatnonzero(~np.isfinite(numbers_N)):
        raise BadInput(f"{called} {number + 1} is {numbers_N[number]}, not a finite number")
    return numbers_N
