"""Metrics of retrieval: nDCG, recall, reciprocal rank; and how often a text finds its partner.

A ranking lists documents, best first; judgements give documents a relevance, 0 where they say
nothing. Means are over queries with at least one relevant document, as in trec_eval and BEIR.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from regard.core.errors import BadInput
from regard.metrics.classification import in_percent
from regard.metrics.intervals import FloatArray, resampled
from regard.metrics.translation import MetricScore

Ranking = Sequence[str]  # documents, best first
Judgements = Mapping[str, float]  # the relevance of documents
Measure = Callable[[Ranking, Judgements], float]
CUTS = (1, 10, 100)  # ranks at which recall is measured
FIRST = 10  # documents of which nDCG and reciprocal rank are measured
BLOCK = 1_024  # texts whose similarities with all others are in memory at once


def ndcg(ranking: Ranking, judgements: Judgements, cut: int) -> float:
    """DCG over the DCG of the best ranking: Σ_i rel_i / log2(i + 1) over the first ``cut`` ranks i
    (Järvelin & Kekäläinen, 2002, with linear gains). A document gains at its first rank only.
    """
    left = dict(judgements)
    gains = np.array([left.pop(document, 0.0) for document in ranking[:cut]])
    best = np.sort([*judgements.values()])[::-1][:cut]
    return float(gains @ _discounts(len(gains)) / (best @ _discounts(len(best))))


def recall(ranking: Ranking, judgements: Judgements, cut: int) -> float:
    """Share of the relevant documents that are among the first ``cut``."""
    relevant = {document for document, relevance in judgements.items() if relevance > 0}
    return len(relevant & {*ranking[:cut]}) / len(relevant)


def reciprocal_rank(ranking: Ranking, judgements: Judgements, cut: int) -> float:
    """1 / rank of the first relevant document; 0 if it is not among the first ``cut``."""
    ranks = (rank for rank, name in enumerate(ranking[:cut], 1) if judgements.get(name, 0) > 0)
    return 1 / next(ranks, np.inf)


MEASURES: dict[str, Measure] = {
    f"nDCG@{FIRST}": partial(ndcg, cut=FIRST),
    f"MRR@{FIRST}": partial(reciprocal_rank, cut=FIRST),
    **{f"recall@{cut}": partial(recall, cut=cut) for cut in CUTS},
}


def retrieval_scores(
    rankings: Mapping[str, Ranking],
    judgements: Mapping[str, Judgements],
    with_interval: bool = False,
) -> list[MetricScore]:
    """All of ``MEASURES`` in percent; a judged query without a ranking counts 0."""
    by_query = judgements.items()
    judged = [query for query, each in by_query if any(value > 0 for value in each.values())]
    if not judged:
        raise BadInput("no query has a relevant document: there is nothing to score")
    return [
        _mean(
            name,
            [measure(rankings.get(query, ()), judgements[query]) for query in judged],
            f"queries:{len(judged)}",
            with_interval,
        )
        for name, measure in MEASURES.items()
    ]


def partner_scores(
    queries_ND: np.ndarray,
    texts_TD: np.ndarray,
    partners_N: np.ndarray,
    with_interval: bool = False,
) -> list[MetricScore]:
    """Accuracy and mean reciprocal rank of the partner of each query among all texts, by cosine.

    Vectors have length 1. Texts as similar as the partner are counted as before it.
    """
    ranks: list[int] = []
    for start in range(0, len(queries_ND), BLOCK):
        cosines_BT = queries_ND[start : start + BLOCK] @ texts_TD.T
        partners_B = partners_N[start : start + BLOCK]
        own_B = cosines_BT[np.arange(len(partners_B)), partners_B]
        ranks += (cosines_BT >= own_B[:, None]).sum(1).tolist()
    reciprocal_N = 1 / np.array(ranks, np.float64)
    signature = f"queries:{len(ranks)}|texts:{len(texts_TD)}"
    return [
        _mean("accuracy", reciprocal_N == 1, signature, with_interval),
        _mean("MRR", reciprocal_N, signature, with_interval),
    ]


def _mean(name: str, values: ArrayLike, signature: str, with_interval: bool) -> MetricScore:
    values_N1 = np.asarray(values, np.float64)[:, None]
    drawn: FloatArray | None = None
    if with_interval:
        drawn = resampled(values_N1, lambda sums: float(sums[0]) / len(values_N1))
    return in_percent(name, float(values_N1.mean()), signature, drawn)


def _discounts(count: int) -> FloatArray:
    return 1 / np.log2(np.arange(2, count + 2))
