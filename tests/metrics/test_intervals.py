"""The bootstrap: seeded, summed from statistics, right about a case that is known exactly."""

import numpy as np
import pytest
import scipy.stats

from regard.metrics.intervals import (
    SAMPLES,
    Interval,
    interval,
    mean_interval,
    paired_p_value,
    resampled,
    student_quantile,
)

MANY = 1_000  # examples: enough for a test


def mean(sums):
    return sums[0] / sums[1]


def right_of(total: int, right: int) -> np.ndarray:
    """Statistics (right, asked) of a test of ``total`` questions."""
    return np.column_stack([np.arange(total) < right, np.ones(total)]).astype(np.float64)


def test_draws_are_seeded():
    statistics = right_of(50, 20)
    first = resampled(statistics, mean)
    assert np.array_equal(first, resampled(statistics, mean))
    assert len(first) == SAMPLES


def test_every_draw_is_as_large_as_the_corpus():
    sizes = resampled(right_of(17, 3), lambda sums: sums[1])
    assert np.array_equal(sizes, np.full(SAMPLES, 17))


def test_accuracy_spreads_as_the_binomial_does():
    accuracies = resampled(right_of(400, 300), mean)
    deviation = np.sqrt(0.75 * 0.25 / 400)
    assert accuracies.std() == pytest.approx(deviation, rel=0.1)
    low, high = interval(accuracies)
    assert low == pytest.approx(0.75 - 1.96 * deviation, abs=0.006)
    assert high == pytest.approx(0.75 + 1.96 * deviation, abs=0.006)


def test_an_interval_cuts_a_fortieth_at_each_end():
    scores = np.random.default_rng(0).permutation(1000).astype(np.float64)
    assert interval(scores) == Interval(25, 974)
    assert interval(np.array([3.0, 1.0, 2.0])) == Interval(1, 3)


def test_one_segment_has_nothing_to_vary():
    assert interval(resampled(right_of(1, 1), mean)) == Interval(1, 1)


def test_p_value_counts_chance_differences_no_smaller_than_the_real_one():
    baseline, system = np.zeros(4), np.array([1.0, 2.0, 3.0, 6.0])  # centred: -2, -1, 0, 3
    assert paired_p_value(baseline, system, 2.5, MANY) == 2 / 5
    assert paired_p_value(baseline, system, -2.5, MANY) == 2 / 5
    assert paired_p_value(baseline, system, 3.0, MANY) == 2 / 5
    assert paired_p_value(baseline, system, 3.1, MANY) == 1 / 5


def test_p_value_is_two_sided():
    baseline, system = np.zeros(4), np.array([1.0, 2.0, 3.0, 6.0])  # centred: -2, -1, 0, 3
    for difference in (1.5, 2.0, -2.0):
        assert paired_p_value(baseline, system, difference, MANY) == 3 / 5
    assert paired_p_value(system, baseline, 2.0, MANY) == 3 / 5
    assert paired_p_value(-system, -baseline, 2.0, MANY) == 3 / 5


def test_few_examples_have_no_p_value():
    """One example of twenty that only one system has right: its bootstrap says p = .001."""
    baseline, system = np.zeros(4), np.array([1.0, 2.0, 3.0, 6.0])
    assert paired_p_value(baseline, system, 2.5, 49) is None
    assert paired_p_value(baseline, system, 2.5, 50) == 2 / 5


@pytest.mark.parametrize("examples", [50, 100])
def test_binary_examples_are_rejected_as_often_as_the_level_says(examples):
    """Two systems that are right on half of the examples, independently."""
    generator = np.random.default_rng(7)
    corpora = 500
    drawn = generator.multinomial(examples, np.full(examples, 1 / examples), size=400) / examples
    baseline, system = generator.integers(2, size=(2, examples, corpora)).astype(np.float64)
    draws = zip((drawn @ baseline).T, (drawn @ system).T, (system - baseline).mean(0), strict=True)
    rejected = np.mean([paired_p_value(*one, examples) <= 0.05 for one in draws])
    assert rejected < 0.05 + 3 * np.sqrt(0.05 * 0.95 / corpora)


def rejections(shift: float, corpora: int = 2_000, segments: int = 120) -> float:
    """The share of pairs of systems, apart by ``shift``, whose p-value is at most 0.05.

    The score is a mean over segments; both systems share how hard a segment is.
    """
    generator = np.random.default_rng(15)
    drawn = generator.multinomial(segments, np.full(segments, 1 / segments), size=1000) / segments
    hardness = generator.normal(size=(segments, corpora))
    baseline = hardness + generator.normal(size=(segments, corpora))
    system = hardness + generator.normal(size=(segments, corpora)) + shift
    differences = (system - baseline).mean(axis=0)
    draws = zip((drawn @ baseline).T, (drawn @ system).T, differences, strict=True)
    return float(np.mean([paired_p_value(*one, segments) <= 0.05 for one in draws]))


def test_equal_systems_are_rejected_as_often_as_the_level_says():
    deviation = np.sqrt(0.05 * 0.95 / 2_000)
    assert abs(rejections(0.0) - 0.05) < 3 * deviation


def test_unequal_systems_are_told_apart():
    # A z-test has the same power: 0.78 and 1.00 where the difference is 2.7 and 5.5 deviations.
    assert rejections(0.35) == pytest.approx(0.78, abs=0.04)
    assert rejections(0.7) > 0.99


@pytest.mark.parametrize("freedom", [1, 2, 3, 5, 10, 11, 20, 100])
def test_quantiles_of_student(freedom):
    assert student_quantile(freedom) == pytest.approx(scipy.stats.t.ppf(0.975, freedom), rel=2e-4)


def test_the_interval_of_a_mean():
    values = [30.0, 32.0, 31.0]
    low, high = scipy.stats.t.interval(0.95, 2, 31, scipy.stats.sem(values))
    assert mean_interval(values) == pytest.approx((low, high), rel=1e-4)
