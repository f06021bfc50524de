"""Paired significance tests of two systems on the same examples.

Paired bootstrap (Koehn, 2004), approximate randomisation (Noreen, 1989; Riezler and Maxwell, 2005),
and the exact test of McNemar (1947) where each example is either right or wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, lgamma, log
from typing import NamedTuple

import numpy as np

from regard.core.errors import BadInput
from regard.metrics.intervals import (
    SEED,
    FloatArray,
    Interval,
    interval,
    paired_p_value,
    resampled_rows,
)

TRIALS = 10_000  # of approximate randomisation
SWAPS = 1 << 26  # most random bits in memory
ROUNDING = 1e-9  # by which equal differences may differ

RowMeasure = Callable[[np.ndarray], float]
"""Function of the rows of a corpus to its score in percent."""


@dataclass(frozen=True, eq=False)
class ExampleStatistics:
    """Statistics of each example (rows), and the corpus score as a function of rows.

    Rows of labels as texts are given to ``measure`` as numbers of the labels of both systems.
    ``binary``: each example is right (100) or wrong (0), and the score is their mean.
    """

    rows: np.ndarray
    measure: RowMeasure
    binary: bool = False

    @classmethod
    def of_sums(
        cls, rows: FloatArray, measure: Callable[[FloatArray], float], binary: bool = False
    ) -> "ExampleStatistics":
        """Statistics whose ``measure`` is a function of column sums."""
        return cls(rows, lambda chosen: measure(chosen.sum(axis=0)), binary)


class PairedTests(NamedTuple):
    """Difference of two systems, its 95% bootstrap interval, and two-sided p-values.

    ``bootstrap`` is None below 50 examples, where approximate randomisation and McNemar's test
    keep their level; ``mcnemar`` is None unless each example is right or wrong.
    """

    difference: float
    interval: Interval
    bootstrap: float | None
    randomisation: float
    mcnemar: float | None


def paired_tests(baseline: ExampleStatistics, system: ExampleStatistics) -> PairedTests:
    """Compare two systems by their statistics of the same examples."""
    if len(baseline.rows) != len(system.rows):
        counts = f"{len(baseline.rows)} and {len(system.rows)} examples"
        raise BadInput(f"{counts}: two systems are compared on the same examples")
    first, second = _numeric_rows(baseline.rows, system.rows)
    measure = baseline.measure
    difference = measure(second) - measure(first)
    draws = [resampled_rows(rows, measure) for rows in (first, second)]
    return PairedTests(
        difference,
        interval(draws[1] - draws[0]),
        paired_p_value(draws[0], draws[1], difference, len(first)),
        randomisation_p_value(first, second, measure),
        mcnemar_p_value(_right(first, measure), _right(second, measure))
        if baseline.binary and system.binary
        else None,
    )


def randomisation_p_value(
    first: np.ndarray, second: np.ndarray, measure: RowMeasure, trials: int = TRIALS
) -> float:
    """Share of trials with a difference as large, where examples change systems at random.

    Swaps equal sacreBLEU's for the same seed; sacreBLEU counts larger differences only, and so
    calls two systems with equal outputs different.
    """
    least = abs(measure(second) - measure(first)) - ROUNDING
    as_large = 0
    for stay_N in _swaps(len(first), trials):
        stay_N1 = stay_N[:, None]
        shuffled = np.where(stay_N1, first, second), np.where(stay_N1, second, first)
        as_large += abs(measure(shuffled[0]) - measure(shuffled[1])) >= least
    return (as_large + 1) / (trials + 1)


def mcnemar_p_value(first_N: np.ndarray, second_N: np.ndarray) -> float:
    """Exact two-sided test of McNemar: a binomial test of the examples that one system has right.

    1 if there are none.
    """
    only_first = int(np.count_nonzero(first_N & ~second_N))
    only_second = int(np.count_nonzero(second_N & ~first_N))
    total, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(exp(_log_choose(total, k) - total * log(2)) for k in range(fewer + 1))
    return min(1.0, 2 * tail)


def _log_choose(total: int, chosen: int) -> float:
    return lgamma(total + 1) - lgamma(chosen + 1) - lgamma(total - chosen + 1)


def _swaps(size: int, trials: int) -> Iterator[np.ndarray]:
    """For each trial, which examples stay with their system."""
    generator = np.random.default_rng(SEED)
    at_once = max(1, SWAPS // max(1, size))
    for start in range(0, trials, at_once):
        shape = min(at_once, trials - start), size
        yield from generator.integers(2, size=shape, dtype=bool)


def _numeric_rows(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of both systems as numbers; the labels of both are numbered together."""
    if np.issubdtype(first.dtype, np.number):
        return first, second
    both = np.concatenate([first, second])
    numbers = np.unique(both, return_inverse=True)[1].reshape(both.shape)
    return numbers[: len(first)], numbers[len(first) :]


def _right(rows: np.ndarray, measure: RowMeasure) -> np.ndarray:
    """Which examples are right."""
    return np.array([measure(row[None]) > 0 for row in rows], dtype=bool)
