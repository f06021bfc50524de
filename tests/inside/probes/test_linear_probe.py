"""Probes of states that were made: what is planted in a layer is found there and nowhere else."""

import numpy as np
import pytest

from regard.inside.probes import linear_probe
from regard.inside.probes.linear_probe import ProbeSplit, fit_probe, number_labels
from regard.inside.probes.probe_models import (
    control_labels,
    majority_by_form,
    score_examples,
    score_states,
)
from regard.inside.probes.probe_report import ProbeReport, ProbeScore, ScoreComparison
from regard.inside.probes.probe_tasks import ProbeData, ProbeExample, ProbeSet, WordPlace
from regard.inside.probes.word_states import LayerStates
from regard.metrics.intervals import Interval

LABELS = ("ADJ", "NOUN", "VERB")
SIZES = (600, 200, 300)
WIDTH, LAYERS, PLANTED = 12, 3, 1


def labelled(count: int, draw: np.random.Generator) -> ProbeSet:
    """Sentences of one word, each word a form of its own, with labels at random."""
    labels = draw.choice(LABELS, size=count)
    words = [f"w{draw.integers(10**9)}" for _ in range(count)]
    examples = [
        ProbeExample((WordPlace(at, 0),), word, str(label), at)
        for at, (word, label) in enumerate(zip(words, labels, strict=True))
    ]
    return ProbeSet(tuple((word,) for word in words), tuple(examples))


def planted(examples: ProbeSet, draw: np.random.Generator, layer: int | None) -> LayerStates:
    """Noise at all layers; at one layer, three of the directions tell the label."""
    noise = {n: draw.normal(size=(len(examples.examples), WIDTH)) for n in range(LAYERS)}
    if layer is not None:
        directions = np.random.default_rng(7).normal(size=(len(LABELS), WIDTH))
        noise[layer] += 2 * directions[[LABELS.index(label) for label in examples.labels]]
    known = np.ones(len(examples.examples), bool)
    return LayerStates({n: of.astype(np.float32) for n, of in noise.items()}, known)


@pytest.fixture(scope="module")
def scores():
    draw = np.random.default_rng(0)
    data = ProbeData(*(labelled(size, draw) for size in SIZES))
    own = [planted(each, draw, PLANTED) for each in data]
    drawn = [planted(each, draw, None) for each in data]
    return score_states("made", data, own, drawn)


CHANCE = pytest.approx(1 / 3, abs=4 * (2 / 9 / SIZES[2]) ** 0.5)  # four standard errors


def test_the_layer_with_a_planted_feature_wins_and_others_are_at_chance(scores):
    by_layer = {each.layer: each for each in scores.layers}
    assert scores.best.layer == PLANTED and by_layer[PLANTED].model.accuracy > 0.95
    for layer in {0, 2}:
        assert by_layer[layer].model.accuracy == CHANCE
        assert by_layer[PLANTED].model.above(by_layer[layer].model)
    for each in scores.layers:
        assert each.random.accuracy == CHANCE and each.control.accuracy == CHANCE
        assert each.selectivity == each.model.accuracy - each.control.accuracy


def test_the_mix_finds_the_layer_with_the_feature(scores):
    assert scores.mix.weights[PLANTED] > 0.8 and sum(scores.mix.weights) == pytest.approx(1)
    by_hand = sum(layer * share for layer, share in enumerate(scores.mix.weights))
    assert scores.mix.expected_layer == pytest.approx(by_hand)
    assert scores.mix.score.accuracy > 0.95 > scores.random_mix.score.accuracy


def test_a_report_says_what_is_above_and_what_cannot_be_said(scores):
    report = ProbeReport("tags", (scores, scores))
    verdicts = {(each.first, each.second): str(each) for each in report.verdicts()}
    assert verdicts["made layer 1", "majority"] == "above"
    assert verdicts["made layer 1", "layer 0"] == "above"
    assert verdicts["made layer 1", "layer 2"] == "above"
    assert verdicts["made layer 1", "made layer 1"] == "no verdict"  # of two equal models
    assert [row[1] for row in report.table()[:5]] == [0, 1, 2, "mix", "majority"]


@pytest.mark.parametrize(
    "first, second, verdict",
    [
        ((0.8, 0.9), (0.6, 0.79), "above"),
        ((0.6, 0.79), (0.8, 0.9), "below"),
        ((0.8, 0.9), (0.7, 0.8), "no verdict"),
        ((0.7, 0.9), (0.79, 0.8), "no verdict"),
    ],
)
def test_a_verdict_needs_intervals_that_do_not_overlap(first, second, verdict):
    scores = [ProbeScore(sum(bounds) / 2, Interval(*bounds)) for bounds in (first, second)]
    compared = ScoreComparison.of("a", scores[0], "b", scores[1])
    assert str(compared) == verdict
    assert compared.difference == scores[0].accuracy - scores[1].accuracy


def test_a_probe_is_the_minimum_of_its_loss(monkeypatch):
    sklearn = pytest.importorskip("sklearn.linear_model")
    draw = np.random.default_rng(1)
    data = [labelled(size, draw) for size in SIZES]
    states = [planted(each, draw, 0).layers[0] * 0.2 + 3 for each in data]
    labels = number_labels(*(each.labels for each in data))
    monkeypatch.setattr(linear_probe, "L2", (1e-2,))
    fit = fit_probe(*(ProbeSplit([of], gold) for of, gold in zip(states, labels, strict=True)))
    scaled = [(of - states[0].mean(0)) / states[0].std(0) for of in states]
    reference = sklearn.LogisticRegression(C=1 / (1e-2 * SIZES[0]), tol=1e-6, max_iter=1000)
    reference.fit(scaled[0], labels[0])
    expected = reference.predict(scaled[2]) == labels[2]
    assert (fit.correct != expected).sum() <= 1
    assert fit.dev_accuracy == pytest.approx(reference.score(scaled[1], labels[1]), abs=0.01)


def test_a_constant_feature_and_an_unknown_label_do_no_harm():
    draw = np.random.default_rng(2)
    data = [labelled(size, draw) for size in (60, 30, 30)]
    states = [planted(each, draw, 0).layers[0] for each in data]
    for of_set in states:
        of_set[:, 0] = 5.0
    train, dev, test = number_labels(data[0].labels, data[1].labels, ["NEW"] * 30)
    assert set(test.tolist()) == {linear_probe.UNKNOWN}
    splits = (ProbeSplit([of], gold) for of, gold in zip(states, (train, dev, test), strict=True))
    assert fit_probe(*splits).correct.sum() == 0


@pytest.mark.parametrize("dev_label, strength", [(None, 1e-2), (0, 1e3)])
def test_the_strength_of_l2_is_best_on_dev(monkeypatch, dev_label, strength):
    """With the stronger one, all is label 0, the most frequent, as in the second dev set."""
    monkeypatch.setattr(linear_probe, "L2", (1e3, 1e-2))
    draw = np.random.default_rng(3)
    labels = [(draw.random(size) < 0.3).astype(int) for size in (200, 200, 200)]
    states = [draw.normal(size=(len(gold), 4)) + 2 * gold[:, None] for gold in labels]
    if dev_label is not None:
        labels[1][:] = dev_label
    fit = fit_probe(*(ProbeSplit([of], gold) for of, gold in zip(states, labels, strict=True)))
    assert fit.strength == strength
    majority = (labels[2] == 0).mean()
    assert (fit.correct.mean() == majority) == (dev_label == 0)


def test_of_equally_good_strengths_the_strongest_is_taken():
    """The labels are so far apart that every published strength has all of dev right."""
    draw = np.random.default_rng(5)
    labels = [draw.integers(3, size=size) for size in SIZES]
    states = [draw.normal(size=(len(gold), 3)) + 50 * np.eye(3)[gold] for gold in labels]
    fit = fit_probe(*(ProbeSplit([of], gold) for of, gold in zip(states, labels, strict=True)))
    assert fit.dev_accuracy == 1 and fit.strength == max(linear_probe.L2) == 0.1


def test_every_strength_begins_with_equal_shares_of_the_layers(monkeypatch):
    begun, ended, minimise = [], [], linear_probe._minimise

    def noted(probe, loss):
        begun.append(probe.mixture)
        minimise(probe, loss)
        ended.append(probe.mixture)

    monkeypatch.setattr(linear_probe, "_minimise", noted)
    draw = np.random.default_rng(6)
    data = [labelled(size, draw) for size in (60, 30, 30)]
    layers = [[*planted(each, draw, PLANTED).layers.values()] for each in data]
    labels = number_labels(*(each.labels for each in data))
    fit_probe(*(ProbeSplit(of, gold) for of, gold in zip(layers, labels, strict=True)))
    assert begun == [pytest.approx((1 / LAYERS,) * LAYERS)] * len(linear_probe.L2)
    assert all(mixture[PLANTED] > 0.5 for mixture in ended)


def test_the_majority_of_a_form_by_hand():
    train = [("run", "VERB"), ("run", "NOUN"), ("run", "VERB"), ("dog", "NOUN"), ("cat", "NOUN")]
    assert majority_by_form(train, ["run", "dog", "gnu"]) == ["VERB", "NOUN", "NOUN"]
    tied = [("run", "NOUN"), ("run", "VERB"), ("sing", "VERB")]
    assert majority_by_form(tied, ["run", "gnu"]) == ["NOUN", "VERB"]


def test_a_control_task_has_one_label_for_each_form_and_the_frequencies_of_the_labels():
    labels = ["NOUN"] * 60 + ["VERB"] * 30 + ["X"] * 10
    forms = [f"form {number}" for number in range(4000)]
    control = control_labels(labels, forms, seed=5)
    assert control == control_labels(labels, forms, seed=5)
    assert control != control_labels(labels, forms, seed=6)
    for label, share in {"NOUN": 0.6, "VERB": 0.3, "X": 0.1}.items():
        assert control.count(label) / len(forms) == pytest.approx(share, abs=0.03)
    twice = control_labels(labels, [forms[3], forms[1], forms[3]], seed=5)
    assert twice == [control[3], control[1], control[3]]  # whatever other forms there are


def test_intervals_are_over_sentences():
    """Ten words of a sentence that are right or wrong together tell as much as one."""
    draw = np.random.default_rng(4)
    right = draw.random(50) < 0.7
    alone = score_examples(right, np.arange(50))
    copies = score_examples(np.repeat(right, 10), np.repeat(np.arange(50), 10))
    assert copies.interval == alone.interval and copies.accuracy == right.mean()
    assert copies.interval.low < copies.accuracy < copies.interval.high
