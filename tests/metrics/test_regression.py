"""Pearson and Spearman: by hand, against scipy, and what must leave them as they are."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.metrics.intervals import SAMPLES, SEED, interval
from regard.metrics.regression import pearson, regression_scores, spearman

FEW = st.integers(0, 5).map(float)  # many ties
PAIRS = st.lists(st.tuples(FEW, FEW), min_size=2, max_size=30)
ANY = st.floats(allow_nan=False, allow_infinity=False)


def values(golds, found, **options):
    return {one.name: one.value for one in regression_scores(golds, found, **options)}


def test_by_hand():
    found = values([1, 2, 3, 4], [1, 2, 4, 3])
    assert found["Pearson"] == pytest.approx(80)
    assert found["Spearman"] == pytest.approx(80)
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5)
    assert values([0, 7, 7, 9], [1, 2, 3, 9])["Spearman"] == pytest.approx(100 * (4.5 / 5) ** 0.5)


def test_order_alone_counts_for_spearman():
    found = values([1, 2, 3, 4], [1, 10, 100, 1000])
    assert found["Spearman"] == pytest.approx(100)
    assert found["Pearson"] < 90


@given(PAIRS)
def test_as_scipy_has_them(pairs):
    from scipy import stats

    golds, found = map(np.array, zip(*pairs, strict=True))
    assume(len(set(golds)) > 1 and len(set(found)) > 1)  # of constants scipy only warns
    ours = values(golds, found)
    assert ours["Pearson"] == pytest.approx(100 * stats.pearsonr(golds, found)[0], abs=1e-9)
    assert ours["Spearman"] == pytest.approx(100 * stats.spearmanr(golds, found)[0], abs=1e-9)


@given(PAIRS)
def test_ranks_by_counting(pairs):
    """The mean rank of x is what is less, half of what is equal, and a half."""
    golds, found = map(np.array, zip(*pairs, strict=True))
    ranks = [
        np.array([sum(each < one) + (sum(each == one) + 1) / 2 for one in each])
        for each in (golds, found)
    ]
    assert spearman(golds, found) == pytest.approx(pearson(*ranks), abs=1e-12)


@given(PAIRS, st.floats(0.1, 10), st.floats(-10, 10))
def test_neither_scale_nor_shift_nor_sides_count(pairs, scale, shift):
    golds, found = map(np.array, zip(*pairs, strict=True))
    for correlation in (pearson, spearman):
        value = correlation(golds, found)
        assert correlation(found, golds) == pytest.approx(value, abs=1e-9)
        assert correlation(golds, found * scale + shift) == pytest.approx(value, abs=1e-9)
        assert correlation(golds, -found) == pytest.approx(-value, abs=1e-9)


@given(st.lists(st.tuples(ANY, ANY), min_size=1, max_size=20))
def test_any_finite_numbers_give_percents(pairs):
    golds, found = zip(*pairs, strict=True)
    assert all(-100 <= value <= 100 for value in values(golds, found).values())


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e300])
def test_what_never_changes_correlates_with_nothing(constant):
    golds = list(np.linspace(0, 5, 7))
    assert values(golds, [constant] * 7) == {"Pearson": 0, "Spearman": 0}
    assert values([constant] * 7, golds) == {"Pearson": 0, "Spearman": 0}
    for score in regression_scores(golds, [constant] * 7, with_interval=True):
        assert score.interval == (0, 0)
    assert values([constant], [constant]) == {"Pearson": 0, "Spearman": 0}


def noisy(size: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    golds = generator.integers(0, 6, size).astype(float)
    return golds, golds + generator.normal(0, 2, size)


def test_intervals_hold_the_score_and_shrink_with_more_examples():
    few = regression_scores(*noisy(40), with_interval=True)
    many = regression_scores(*noisy(1000), with_interval=True)
    for one, other in zip(few, many, strict=True):
        assert one.interval.low < one.value < one.interval.high
        assert other.interval.high - other.interval.low < one.interval.high - one.interval.low
    assert few[1].signature == "examples:40|bs:1000|seed:12345"
    assert regression_scores([1, 2], [1, 2])[0].signature == "examples:2"
    assert regression_scores([1, 2], [1, 2])[0].interval is None


def test_every_drawn_corpus_is_ranked_anew():
    golds, found = noisy(30)
    generator = np.random.default_rng(SEED)
    draws = [generator.integers(30, size=30) for _ in range(SAMPLES)]
    for score, correlation in zip(
        regression_scores(golds, found, with_interval=True), (pearson, spearman), strict=True
    ):
        slowly = interval(100 * np.array([correlation(golds[i], found[i]) for i in draws]))
        assert score.interval == pytest.approx(slowly)


def test_what_cannot_be_scored_is_reported():
    with pytest.raises(BadInput, match="1 predictions for 2 labels"):
        regression_scores([1, 2], [1])
    with pytest.raises(BadInput, match="no labels"):
        regression_scores([], [])
    with pytest.raises(BadInput, match="prediction 2 is nan, not a finite number"):
        regression_scores([1, 2], [1, float("nan")])
    with pytest.raises(BadInput, match="label 1 is inf"):
        regression_scores([float("inf"), 2], [1, 2])
