"""Rules of findings on made-up numbers: each of the three outcomes."""

import numpy as np
import pytest

from regard.experiments.findings import (
    attention_distance,
    head_pruning,
    probed_layers,
    verb_agreement,
)
from regard.experiments.findings.finding import Judgement, weakest
from regard.experiments.findings.rollout_faithfulness import ABLATION, RAW, ROLLOUT, gain_interval
from regard.experiments.findings.shifted_alignment import gain_interval as alignment_gain
from regard.experiments.studies.agreement import AgreementScores, VerbChoice
from regard.experiments.studies.agreement_data import agreement_sentences
from regard.inside.pruning.curve import CurvePoint, PruningCurve
from regard.metrics.intervals import ExampleStatistics, Interval
from regard.metrics.links import GoldLinks
from regard.metrics.translation import MetricScore

ABOVE, OPEN, BELOW = Interval(1.0, 2.0), Interval(-1.0, 2.0), Interval(-2.0, -1.0)
OUTCOMES = [
    ((ABOVE, ABOVE), "reproduced"),
    ((ABOVE, OPEN), "cannot be shown"),
    ((OPEN, ABOVE), "cannot be shown"),
    ((ABOVE, BELOW), "not reproduced"),
    ((BELOW, OPEN), "not reproduced"),  # one condition that fails decides
]


def test_the_weakest_condition_decides():
    good, undecided = Judgement("reproduced", "a"), Judgement("cannot be shown", "b")
    bad = Judgement("not reproduced", "c")
    assert weakest(good, good) == Judgement("reproduced", "a; a")
    assert weakest(good, undecided) is undecided and weakest(undecided, bad) is bad


@pytest.mark.parametrize(("bounds", "outcome"), OUTCOMES)
def test_agreement(bounds, outcome):
    assert verb_agreement.judge(*bounds).outcome == outcome


@pytest.mark.parametrize(("bounds", "outcome"), OUTCOMES)
def test_distance(bounds, outcome):
    assert attention_distance.judge(*bounds, 2.0).outcome == outcome


def test_a_small_growth_of_distance_is_not_enough_however_sure():
    tiny = Interval(0.05, 0.06)
    assert attention_distance.judge(tiny, ABOVE, 2.0).outcome == "not reproduced"
    assert attention_distance.uniform_distance((1, 2)) == 0.5


@pytest.mark.parametrize(("bounds", "outcome"), OUTCOMES)
def test_senses(bounds, outcome):
    tags, senses = bounds
    flipped = Interval(-tags.high, -tags.low)  # layer 1 is the better one
    assert probed_layers.judge_senses(flipped, senses).outcome == outcome


@pytest.mark.parametrize(
    ("change", "random", "outcome"),
    [
        (Interval(-2.9, 1.0), (70.0, 80.0), "reproduced"),
        (Interval(-3.5, 1.0), (70.0, 80.0), "cannot be shown"),
        (Interval(-9.0, -3.5), (70.0, 80.0), "not reproduced"),
        (Interval(-2.9, 1.0), (90.0, 92.0), "not reproduced"),
    ],
)
def test_pruning(change, random, outcome):
    assert head_pruning.judge(change, 85.0, random, 3.0).outcome == outcome


def score(right: list[int]) -> MetricScore:
    rows = np.array(right, dtype=np.float64)[:, None]
    statistics = ExampleStatistics(rows, lambda rows: 100 * float(rows.mean()), binary=True)
    return MetricScore("accuracy", 100 * float(rows.mean()), "", None, statistics)


def test_the_interval_of_a_change_is_over_the_same_examples():
    whole, pruned = score([1, 1, 0, 0] * 50), score([1, 0, 0, 0] * 50)
    low, high = head_pruning.change_interval(whole, pruned.statistics)
    assert -33 < low < -25 < high < -17
    assert head_pruning.change_interval(whole, whole.statistics) == (0.0, 0.0)


def test_shares_of_a_curve_are_those_that_were_removed():
    points = (CurvePoint("encoder", 38 / 48, 3, 4, 60.0, (50.0,)),)
    curve = head_pruning.with_removed_shares(PruningCurve("BLEU", "gates", 61.0, points))
    assert curve.report("").rows[0][:3] == ["encoder", "75%", "3"]


def scores(is_right) -> AgreementScores:
    choices = (
        VerbChoice(each, 1.0 if is_right(each) else -1.0, 0.0) for each in agreement_sentences(10)
    )
    return AgreementScores(tuple(choices))


def test_intervals_of_agreement():
    fall, gain = verb_agreement.intervals(scores(lambda each: each.attractors < 3))
    assert fall.low > 0 and fall.high < 100
    fall, gain = verb_agreement.intervals(scores(lambda each: each.nearest_agrees))
    assert gain == (0.0, 0.0) and verb_agreement.judge(fall, gain).outcome == "cannot be shown"
    fall, gain = verb_agreement.intervals(scores(lambda each: True))
    assert fall == (0.0, 0.0) and gain.low > 0


def test_intervals_of_distance():
    draw = np.random.default_rng(0)
    noise = 0.01 * draw.standard_normal((30, 4, 2))
    growing = np.array([[1.0, 3.0], [2.0, 3.0], [3.0, 3.0], [3.0, 3.0]])
    growth, spread = attention_distance.intervals(growing + noise)
    assert growth.low < 0.75 < growth.high and spread.low < 1.0 < spread.high


def test_gain_of_rollout_is_over_texts():
    correlations = {(RAW, ABLATION): [0.1, 0.2] * 20, (ROLLOUT, ABLATION): [0.3, 0.5] * 20}
    low, high = gain_interval(correlations, ABLATION)
    assert 0.2 <= low < 0.25 < high <= 0.3


def test_gain_of_shifted_links_is_a_fall_of_the_error_rate():
    right, wrong = frozenset({(0, 0), (1, 1)}), frozenset({(0, 1), (1, 0)})
    golds = [GoldLinks(right, right)] * 12
    assert alignment_gain([wrong] * 12, [right] * 12, golds) == (100.0, 100.0)
    assert alignment_gain([right] * 12, [wrong] * 12, golds) == (-100.0, -100.0)


def test_the_order_of_layers_has_a_least_difference():
    assert "above 0.1 layers" in probed_layers.LAYER_ORDER.rule
    assert probed_layers.judge_order(Interval(0.2, 0.5)).outcome == "reproduced"
    assert probed_layers.judge_order(Interval(0.01, 0.05)).outcome == "not reproduced"


def test_the_expected_layer_is_the_centre_of_a_mix():
    assert probed_layers.expected_layer([0.5, 0.25, 0.25]) == 0.75
