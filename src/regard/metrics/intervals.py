"""How far a corpus score would move on other sentences: the bootstrap (Koehn, 2004).

Segments are drawn with replacement; only their sufficient statistics (match counts, lengths) are
summed again, so nothing is tokenised twice. Draws are those of sacreBLEU for the same seed.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SAMPLES = 1000
SEED = 12345

FloatArray = NDArray[np.float64]


class Interval(NamedTuple):
    """Where 95% of the resampled scores lie."""

    low: float
    high: float


def resampled(
    statistics: FloatArray,
    score: Callable[[FloatArray], float],
    samples: int = SAMPLES,
    seed: int = SEED,
) -> FloatArray:
    """Scores of ``samples`` corpora drawn from the rows (segments) of ``statistics``.

    ``score`` turns the column sums of a corpus into its score. Two systems measured on the same
    segments with the same seed are drawn alike, which is what ``paired_p_value`` needs.
    """
    generator = np.random.default_rng(seed)
    segments = len(statistics)
    scores = np.empty(samples)
    for sample in range(samples):
        times_drawn = np.bincount(generator.integers(segments, size=segments), minlength=segments)
        scores[sample] = score(times_drawn.astype(np.float64) @ statistics)
    return scores


def interval(scores: FloatArray) -> Interval:
    """The scores left when the lowest and the highest 2.5% are cut off."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return Interval(float(ordered[cut]), float(ordered[len(ordered) - 1 - cut]))


def paired_p_value(baseline: FloatArray, system: FloatArray, difference: float) -> float:
    """How often chance alone would part two equal systems by ``difference`` or more.

    Two-sided. ``baseline`` and ``system`` are scores of the same draws; their differences are
    centred first, as the hypothesis under test is that there is none (Noreen, 1989). sacreBLEU
    centres absolute differences instead, and rejects true hypotheses twice as often as it says.
    """
    differences = system - baseline
    by_chance = np.abs(differences - differences.mean()) >= abs(difference)
    return float((np.count_nonzero(by_chance) + 1) / (len(differences) + 1))
