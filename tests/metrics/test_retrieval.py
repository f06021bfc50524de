"""Metrics of retrieval: values by hand, and scikit-learn's nDCG."""

import math

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from regard.core.errors import BadInput
from regard.metrics.retrieval import ndcg, partner_scores, recall, reciprocal_rank, retrieval_scores

RANKING = ["c", "a", "x", "b"]
JUDGEMENTS = {"a": 2.0, "b": 1.0, "d": 1.0, "c": 0.0}


def test_values_by_hand():
    gained = 2 / math.log2(3) + 1 / math.log2(5)
    best = 2 + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(RANKING, JUDGEMENTS, 10) == pytest.approx(gained / best)
    assert ndcg(RANKING, JUDGEMENTS, 2) == pytest.approx(2 / math.log2(3) / (2 + 1 / math.log2(3)))
    assert recall(RANKING, JUDGEMENTS, 10) == pytest.approx(2 / 3)
    assert recall(RANKING, JUDGEMENTS, 2) == pytest.approx(1 / 3)
    assert recall(RANKING, JUDGEMENTS, 1) == 0
    assert reciprocal_rank(RANKING, JUDGEMENTS, 10) == 1 / 2
    assert reciprocal_rank(RANKING, JUDGEMENTS, 1) == 0
    assert ndcg([], JUDGEMENTS, 10) == recall([], JUDGEMENTS, 10) == 0


def test_a_document_listed_twice_gains_once():
    gained = 2 / (2 + 1 / math.log2(3) + 1 / math.log2(4))
    assert ndcg(["a", "a", "a"], JUDGEMENTS, 10) == pytest.approx(gained)
    assert ndcg(["a", "a"], {"a": 1.0}, 10) == 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cut", [1, 5, 10, 40])
def test_ndcg_is_scikit_learns(seed, cut):
    draw = np.random.default_rng(seed)
    names = [f"d{number}" for number in range(30)]
    relevances, scores = draw.integers(0, 4, 30), draw.permutation(30)
    ranking = [names[i] for i in np.argsort(-scores)]
    judgements = dict(zip(names, relevances.astype(float), strict=True))
    expected = ndcg_score(relevances[None], scores[None], k=cut)
    assert ndcg(ranking, judgements, cut) == pytest.approx(expected)


def test_means_are_over_queries_with_relevant_documents():
    rankings = {"p": ["a"], "q": ["x", "a"], "none": ["a"]}
    judged = {"p": {"a": 1.0}, "q": {"a": 1.0}, "missing": {"a": 1.0}, "none": {"a": 0.0}}
    scores = {score.name: score for score in retrieval_scores(rankings, judged, True)}
    assert scores["MRR@10"].value == pytest.approx(100 * (1 + 1 / 2) / 3)
    assert scores["recall@1"].value == pytest.approx(100 / 3)
    assert scores["recall@10"].value == pytest.approx(200 / 3)
    assert scores["nDCG@10"].value == pytest.approx(100 * (1 + 1 / math.log2(3)) / 3)
    interval = scores["MRR@10"].interval
    assert interval.low < scores["MRR@10"].value < interval.high
    assert scores["MRR@10"].signature.startswith("queries:3")
    with pytest.raises(BadInput, match="no query has a relevant document"):
        retrieval_scores(rankings, {"none": {"a": 0.0}})


@pytest.mark.parametrize("block", [1, 2, 1000])
def test_ranks_of_partners(monkeypatch, block):
    monkeypatch.setattr("regard.metrics.retrieval.BLOCK", block)
    texts = np.eye(4)[:, :3]
    queries = np.array([[1, 0.5, 0], [0.5, 1, 0], [0.9, 0.8, 0.1]])
    accuracy, mrr = partner_scores(queries, texts, np.array([0, 0, 2]))
    assert accuracy.value == pytest.approx(100 / 3)
    assert mrr.value == pytest.approx(100 * (1 + 1 / 2 + 1 / 3) / 3)


def test_a_collapsed_model_finds_nothing():
    same = np.ones((5, 2)) / math.sqrt(2)
    accuracy, mrr = partner_scores(same, same, np.arange(5))
    assert accuracy.value == 0 and mrr.value == pytest.approx(20)
