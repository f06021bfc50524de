"""Bootstrap confidence intervals and significance tests of corpus scores (Koehn, 2004).

Segments are resampled with replacement; only their statistics (match counts, lengths) are summed
again. Samples equal sacreBLEU's for the same seed.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist, mean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SAMPLES = 1000
SEED = 12345
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
