"""Retrieval: documents ranked for queries by the cosine of vectors, or by a classifier of pairs."""

from collections.abc import Mapping, Sequence

import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import BadInput, shown
from regard.inference.classifier import Classifier
from regard.inference.embed import Embedder
from regard.inference.nearest import nearest_vectors

Hit = tuple[str, float]  # a document and its score
Hits = dict[str, list[Hit]]
"""Documents by query, the best first."""


def unit_vectors(embedder: Embedder, texts: Sequence[str]) -> Tensor:
    """Vectors of length 1."""
    return F.normalize(embedder.vectors(texts), dim=-1)


def retrieve_documents(
    embedder: Embedder, queries: Mapping[str, str], documents: Mapping[str, str], top: int
) -> Hits:
    """The ``top`` documents nearest to each query, by cosine."""
    names = [*documents]
    texts_TD = unit_vectors(embedder, [*documents.values()])
    queries_ND = unit_vectors(embedder, [*queries.values()])
    near = nearest_vectors(queries_ND, texts_TD, top)
    rows = zip(queries, near.indices_NK.tolist(), near.cosines_NK.tolist(), strict=True)
    return {
        query: [(names[i], cosine) for i, cosine in zip(indices, cosines, strict=True)]
        for query, indices, cosines in rows
    }


def rerank_by_vectors(
    embedder: Embedder,
    queries: Mapping[str, str],
    documents: Mapping[str, str],
    candidates: Mapping[str, Sequence[str]],
) -> Hits:
    """The candidates of each query, in the order of their cosines."""
    _check_candidates(queries, documents, candidates)
    names = [*dict.fromkeys(name for of_query in candidates.values() for name in of_query)]
    places = {name: number for number, name in enumerate(names)}
    texts_TD = unit_vectors(embedder, [documents[name] for name in names])
    queries_ND = unit_vectors(embedder, [queries[query] for query in candidates])
    return {
        query: ordered_hits(of, (texts_TD[[places[name] for name in of]] @ query_D).tolist())
        for query_D, (query, of) in zip(queries_ND, candidates.items(), strict=True)
    }


def rerank_by_classifier(
    classifier: Classifier,
    queries: Mapping[str, str],
    documents: Mapping[str, str],
    candidates: Mapping[str, Sequence[str]],
) -> Hits:
    """The candidates of each query, in the order of a score of (query, document) (cross-encoder).

    The score is the number of a regression, or the difference of the logits of two labels.
    """
    _check_candidates(queries, documents, candidates)
    if len(classifier.labels) > 2:
        raise BadInput(
            f"reranking needs a model of a number or of two labels, not of {len(classifier.labels)}"
        )
    hits: Hits = {}
    for query, of in candidates.items():
        logits = classifier.logits([(queries[query], documents[name]) for name in of])
        scores = [float(logits_V[-1] - logits_V[:-1].sum()) for logits_V in logits]
        hits[query] = ordered_hits(of, scores)
    return hits


def without_own_ids(hits: Hits) -> Hits:
    """Hits without the document whose id is that of the query.

    Scores of BEIR ignore it: where queries are documents of the corpus (ArguAna, Quora), each would
    retrieve itself first.
    """
    return {query: [hit for hit in of if hit[0] != query] for query, of in hits.items()}


def ordered_hits(names: Sequence[str], scores: Sequence[float]) -> list[Hit]:
    """Documents with their scores, the best first; equal scores in the given order."""
    return sorted(zip(names, scores, strict=True), key=lambda hit: -hit[1])


def _check_candidates(
    queries: Mapping[str, str],
    documents: Mapping[str, str],
    candidates: Mapping[str, Sequence[str]],
) -> None:
    for query, of in candidates.items():
        if query not in queries:
            raise BadInput(f"reranking: no query has the _id {shown(query)}")
        for name in of:
            if name not in documents:
                raise BadInput(f"reranking: no document has the _id {shown(name)}")
