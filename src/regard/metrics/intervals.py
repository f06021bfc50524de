"""Bootstrap confidence intervals and paired significance tests of corpus scores.

Two systems are compared on the same examples: paired bootstrap (Koehn, 2004), approximate
randomisation (Noreen, 1989; Riezler and Maxwell, 2005), and the exact test of McNemar (1947) where
each example is either right or wrong. Segments are resampled with replacement; only their
statistics (match counts, lengths) are summed again. Samples equal sacreBLEU's for the same seed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log
from statistics import NormalDist, mean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import BadInput

SAMPLES = 1000
SEED = 12345
BOOTSTRAP = f"bs:{SAMPLES}|seed:{SEED}"  # in signatures
LEAST_EXAMPLES = 50  # of a bootstrap test: 10 reject 9% of true hypotheses at a level of 5%
# 97.5% quantiles of Student's t distribution, for 1 to 10 degrees of freedom.
STUDENT = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)

FloatArray = NDArray[np.float64]


class Interval(NamedTuple):
    """The 95% interval of the resampled scores."""

    low: float
    high: float


def resampled(statistics: FloatArray, score: Callable[[FloatArray], float]) -> FloatArray:
    """Scores of ``SAMPLES`` corpora resampled from the rows (segments) of ``statistics``.

    ``score`` computes the score of a corpus from its column sums. The samples of two systems are
    paired, as ``paired_p_value`` requires.
    """
    segments = len(statistics)
    times_drawn = (np.bincount(draw_N, minlength=segments) for draw_N in samples(segments))
    return np.array([score(times_N.astype(np.float64) @ statistics) for times_N in times_drawn])


def resampled_rows(rows: np.ndarray, score: Callable[[np.ndarray], float]) -> FloatArray:
    """Scores of the samples of ``resampled``, where sums of rows do not suffice (ranks)."""
    return np.array([score(rows[draw_N]) for draw_N in samples(len(rows))])


def samples(size: int) -> Iterator[np.ndarray]:
    """The rows of each of ``SAMPLES`` bootstrap samples, drawn with replacement."""
    generator = np.random.default_rng(SEED)
    return (generator.integers(size, size=size) for _ in range(SAMPLES))


def interval(scores: FloatArray) -> Interval:
    """The scores without the lowest and the highest 2.5%."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return Interval(float(ordered[cut]), float(ordered[len(ordered) - 1 - cut]))


def paired_p_value(
    baseline: FloatArray, system: FloatArray, difference: float, examples: int
) -> float | None:
    """The probability of a ``difference`` this large between two equal systems.

    None below ``LEAST_EXAMPLES``, where the few distinct samples vary less than corpora do.

    Two-sided. ``baseline`` and ``system`` are scores of the same samples; their differences are
    centred, since the null hypothesis is that there is none (Noreen, 1989). sacreBLEU centres
    absolute differences instead, and rejects true hypotheses twice as often as it claims.
    """
    if examples < LEAST_EXAMPLES:
        return None
    differences = system - baseline
    by_chance = np.abs(differences - differences.mean()) >= abs(difference)
    return float((np.count_nonzero(by_chance) + 1) / (len(differences) + 1))


def mean_interval(values: Sequence[float]) -> Interval:
    """The 95% interval of the mean of at least two independent values, by Student's t."""
    half = student_quantile(len(values) - 1) * stdev(values) / len(values) ** 0.5
    return Interval(mean(values) - half, mean(values) + half)


def student_quantile(freedom: int) -> float:
    """The 97.5% quantile of Student's t distribution.

    Beyond the table, the expansion of Cornish and Fisher (1938) around the normal quantile.
    """
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def spread(values: Sequence[float]) -> str:
    """Mean and sample standard deviation, or the only value."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{mean(values):.1f} ± {stdev(values):.1f}"


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
