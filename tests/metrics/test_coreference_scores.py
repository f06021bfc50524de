"""Coreference metrics against slow restatements of their definitions and worked examples."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from regard.core.errors import BadInput
from regard.metrics.coreference_scores import (
    PronounDecision,
    best_assignment,
    coreference_scores,
    pronoun_scores,
    without_singletons,
)

MENTIONS = range(9)


@st.composite
def clusterings(draw):
    """Clusters of some of the mentions, at most one of which each mention is in."""
    numbers = draw(st.lists(st.integers(0, 4), min_size=len(MENTIONS), max_size=len(MENTIONS)))
    clusters = [[m for m in MENTIONS if numbers[m] == number] for number in range(4)]
    return [cluster for cluster in clusters if cluster]


DOCUMENTS = st.lists(st.tuples(clusterings(), clusterings()), min_size=1, max_size=3)


def values(golds, predicted, **options):
    return {score.name: score.value for score in coreference_scores(golds, predicted, **options)}


def slow_muc(clusters, others):
    """Links to add to join what remains of a cluster after cutting it by the other side."""
    kept = total = 0
    for cluster in clusters:
        pieces = [{m} for m in cluster]
        for first, second in combinations(cluster, 2):
            if any(first in other and second in other for other in others):
                joined = [piece for piece in pieces if first in piece or second in piece]
                pieces = [piece for piece in pieces if piece not in joined] + [set().union(*joined)]
        kept += len(cluster) - len(pieces)
        total += len(cluster) - 1
    return kept, total


def slow_b_cubed(clusters, others):
    kept = 0.0
    for cluster in clusters:
        for mention in cluster:
            own = next((other for other in others if mention in other), [])
            kept += len({*cluster} & {*own}) / len(cluster)
    return kept, sum(len(cluster) for cluster in clusters)


def slow_ceaf(clusters, others):
    def similarity(a, b):
        return 2 * len({*a} & {*b}) / (len(a) + len(b))

    short, long = sorted((clusters, others), key=len)
    best = max(
        (
            sum(similarity(a, b) for a, b in zip(short, chosen, strict=True))
            for chosen in permutations(long, len(short))
        ),
        default=0.0,
    )
    return best, len(clusters)


def links(cluster):
    if len(cluster) == 1:
        return {(cluster[0], cluster[0])}
    return {*combinations(sorted(cluster), 2)}


def slow_lea(clusters, others):
    every = set().union(*(links(other) for other in others)) if others else set()
    kept = (len(c) * len(links(c) & every) / len(links(c)) for c in clusters)
    return sum(kept), sum(len(cluster) for cluster in clusters)


def slow_mentions(clusters, others):
    found = {m for cluster in clusters for m in cluster}
    return len(found & {m for other in others for m in other}), len(found)


SLOW = {
    "MUC": slow_muc,
    "B3": slow_b_cubed,
    "CEAF-phi4": slow_ceaf,
    "LEA": slow_lea,
    "mention-F1": slow_mentions,
}


def slow_f1(name, documents):
    recalls = [SLOW[name](gold, found) for gold, found in documents]
    precisions = [SLOW[name](found, gold) for gold, found in documents]
    shares = []
    for sums in (recalls, precisions):
        top, bottom = (sum(column) for column in zip(*sums, strict=True))
        shares.append(top / bottom if bottom else 0.0)
    return 200 * shares[0] * shares[1] / sum(shares) if sum(shares) else 0.0


@given(DOCUMENTS)
def test_every_metric_is_that_of_its_definition(documents):
    scores = values(*zip(*documents, strict=True))
    expected = {name: slow_f1(name, documents) for name in SLOW}
    assert scores == pytest.approx(
        expected | {"CoNLL-F1": sum(expected[n] for n in ("MUC", "B3", "CEAF-phi4")) / 3}
    )


@given(DOCUMENTS)
def test_both_sides_may_be_exchanged(documents):
    golds, predicted = zip(*documents, strict=True)
    assert values(golds, predicted) == pytest.approx(values(predicted, golds))


def test_the_example_of_the_reference_scorer():
    """Pradhan et al. (2014), figure 2 and table 1; LEA of it: Moosavi & Strube (2016), table 1."""
    key, response = ["abc", "defg"], ["ab", "cd", "fghi"]
    scores = values([key], [response])
    assert scores["MUC"] == pytest.approx(40)
    assert scores["B3"] == pytest.approx(100 * 2 * (35 / 84) * 0.5 / (35 / 84 + 0.5))
    assert scores["CEAF-phi4"] == pytest.approx(52)
    recall, precision = 5 / 3 / 7, (2 + 4 / 6) / 8
    assert scores["LEA"] == pytest.approx(200 * recall * precision / (recall + precision))


def test_equal_clusters_score_100_and_disjoint_ones_0():
    clusters = [["a", "b"], ["c"]]
    assert set(values([clusters], [clusters]).values()) == {100.0}
    assert set(values([clusters], [[["x", "y"]]]).values()) == {0.0}
    assert set(values([clusters], [[]]).values()) == {0.0}


def test_singletons_count_except_in_muc_and_may_be_removed():
    key, response = [["a", "b"], ["c"]], [["a", "b"]]
    scores = values([key], [response])
    assert scores["MUC"] == 100
    assert scores["B3"] == pytest.approx(80)  # recall 2/3
    assert scores["LEA"] == pytest.approx(80)
    assert values([without_singletons(key)], [response])["CoNLL-F1"] == 100


def test_sums_are_over_documents_not_means_of_scores():
    documents = [([["a", "b", "c", "d"]], [["a", "b", "c", "d"]]), ([["a", "b"]], [])]
    assert values(*zip(*documents, strict=True))["MUC"] == pytest.approx(100 * 2 * 0.75 / 1.75)


def test_intervals_and_names_with_a_suffix():
    clusters = [["a", "b"]]
    first = coreference_scores([clusters] * 4, [clusters, [], clusters, []], True, " (singletons)")[
        0
    ]
    assert first.name == "CoNLL-F1 (singletons)"
    assert first.interval is not None and first.interval.low < first.value < first.interval.high


@pytest.mark.parametrize(
    ("golds", "predicted", "message"),
    [
        ([[["a"]]], [], "clusters of 0 documents, but there are 1"),
        ([[["a", "b"], ["b", "c"]]], [[]], "a mention is in two clusters, or twice in one"),
        ([[]], [[["a", "a"]]], "a mention is in two clusters, or twice in one"),
    ],
)
def test_bad_clusters_are_refused(golds, predicted, message):
    with pytest.raises(BadInput, match=message):
        coreference_scores(golds, predicted)


@given(st.integers(0, 7), st.integers(0, 7), st.integers(0, 10_000))
def test_the_assignment_is_optimal(rows, columns, seed):
    values_NN = np.random.default_rng(seed).integers(0, 5, (rows, columns)).astype(float)
    chosen = best_assignment(values_NN)
    assert len({*chosen[0]}) == len({*chosen[1]}) == min(rows, columns)
    best = linear_sum_assignment(values_NN, maximize=True)
    assert values_NN[chosen].sum() == pytest.approx(values_NN[best].sum())


def decision(golds, predicted, gender="masculine"):
    return PronounDecision(golds, predicted, gender)


def test_pronouns_are_scored_as_in_gap():
    decisions = [
        decision((True, False), (True, False)),  # a hit
        decision((False, True), (True, False)),  # a miss and a false name
        decision((False, False), (False, False), "feminine"),
        decision((True, False), (True, True), "feminine"),  # a hit and a false name
    ]
    scores = {score.name: score.value for score in pronoun_scores(decisions)}
    assert scores == pytest.approx(
        {
            "precision": 100 * 2 / 4,
            "recall": 100 * 2 / 3,
            "F1": 100 * 4 / 7,
            "masculine F1": 50,
            "feminine F1": 100 * 2 / 3,
            "bias": 4 / 3,
        }
    )


def test_pronouns_of_one_gender_have_no_bias_and_bias_has_an_interval():
    right = decision((True, False), (True, False))
    assert "bias" not in {score.name for score in pronoun_scores([right])}
    wrong = [decision((True, False), (False, False)), decision((True,), (True,), "feminine")]
    assert "bias" not in {score.name for score in pronoun_scores(wrong)}
    both = [right, decision((True, False), (True, False), "feminine")] * 10
    bias = pronoun_scores(both, with_interval=True)[-1]
    assert (bias.name, bias.value, tuple(bias.interval)) == ("bias", 1.0, (1.0, 1.0))
