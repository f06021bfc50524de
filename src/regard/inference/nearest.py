"""Nearest vectors by cosine, and pairs mined from one collection of texts or between two.

Similarities are computed in blocks: memory grows with the number of vectors, not with its square.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 2_048  # vectors on each side whose similarities are in memory at once


class Neighbours(NamedTuple):
    """Indices of the nearest vectors of each query and their cosines, the nearest first."""

    indices_NK: Tensor
    cosines_NK: Tensor


class MinedPair(NamedTuple):
    """A pair of texts by index, and its score."""

    score: float
    first: int
    second: int


def nearest_vectors(
    queries_ND: Tensor, vectors_TD: Tensor, top: int, *, skip_own: bool = False
) -> Neighbours:
    """The ``top`` nearest of all vectors for each query; all have length 1.

    With ``skip_own``, vector n is not a neighbour of query n.
    """
    top = max(0, min(top, len(vectors_TD) - skip_own))
    blocks = [_nearest(block, vectors_TD, top, skip_own) for block in _blocks(queries_ND)]
    if not blocks:
        empty = queries_ND.new_zeros(0, top)
        return Neighbours(empty.long(), empty)
    return Neighbours(*map(torch.cat, zip(*blocks, strict=True)))


def _blocks(vectors_ND: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of vectors, each with the index of its first."""
    for start in range(0, len(vectors_ND), BLOCK):
        yield start, vectors_ND[start : start + BLOCK]


def _nearest(
    queries: tuple[int, Tensor], vectors_TD: Tensor, top: int, skip_own: bool
) -> Neighbours:
    first, queries_BD = queries
    own_B = torch.arange(first, first + len(queries_BD), device=queries_BD.device)
    best_BK = queries_BD.new_zeros(len(queries_BD), 0)
    indices_BK = best_BK.long()
    for start, block_TD in _blocks(vectors_TD):
        cosines_BT = queries_BD @ block_TD.T
        places_T = torch.arange(start, start + len(block_TD), device=cosines_BT.device)
        if skip_own:
            cosines_BT.masked_fill_(own_B[:, None] == places_T, -torch.inf)
        near_BK, at_BK = cosines_BT.topk(min(top, len(block_TD)))
        joined_BK = torch.cat([best_BK, near_BK], dim=1)
        places_BK = torch.cat([indices_BK, places_T[at_BK]], dim=1)
        order_BK = joined_BK.argsort(dim=1, descending=True, stable=True)[:, :top]
        best_BK, indices_BK = joined_BK.gather(1, order_BK), places_BK.gather(1, order_BK)
    return Neighbours(indices_BK, best_BK)


def by_cosine(cosines_NK: Tensor, own_N1: Tensor, others_NK: Tensor) -> Tensor:
    """The cosine of two texts."""
    return cosines_NK


def by_margin(cosines_NK: Tensor, own_N1: Tensor, others_NK: Tensor) -> Tensor:
    """The cosine of two texts over the mean of the cosines with their k nearest neighbours
    (Artetxe & Schwenk, 2019, arXiv:1811.01136, equations 2 and 4).
    """
    return cosines_NK / ((own_N1 + others_NK) / 2)


SCORES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "cosine": by_cosine,
    "margin": by_margin,
}


def mine_between(
    first_ND: Tensor, second_TD: Tensor, neighbours: int = 4, score: str = "margin"
) -> list[MinedPair]:
    """Pairs of a vector of each collection, the best first; each vector is in at most one pair.

    Candidates are the ``neighbours`` nearest of every vector of either side; the best is chosen,
    its vectors are removed, and so on (strategy "max" of Artetxe & Schwenk, 2019, section 3.3).
    """
    forward = nearest_vectors(first_ND, second_TD, neighbours)
    backward = nearest_vectors(second_TD, first_ND, neighbours)
    best = {
        **_scored(forward, backward, score),
        **{(b, a): value for (a, b), value in _scored(backward, forward, score).items()},
    }
    used_first, used_second, pairs = set[int](), set[int](), list[MinedPair]()
    for (a, b), value in sorted(best.items(), key=lambda item: (-item[1], item[0])):
        if a not in used_first and b not in used_second:
            pairs.append(MinedPair(value, a, b))
            used_first.add(a)
            used_second.add(b)
    return pairs


def mine_within(vectors_ND: Tensor, neighbours: int = 4, score: str = "cosine") -> list[MinedPair]:
    """Pairs of different vectors of one collection, the best first, each pair once.

    Candidates are the ``neighbours`` nearest of every vector.
    """
    near = nearest_vectors(vectors_ND, vectors_ND, neighbours, skip_own=True)
    best = {(min(pair), max(pair)): value for pair, value in _scored(near, near, score).items()}
    ordered = sorted(best.items(), key=lambda item: (-item[1], item[0]))
    return [MinedPair(value, *pair) for pair, value in ordered]


def _scored(near: Neighbours, others: Neighbours, score: str) -> dict[tuple[int, int], float]:
    """Scores of all candidates by (vector, neighbour); ``others`` are the neighbours' own."""
    if not near.indices_NK.numel():
        return {}
    own_N1, means_T = near.cosines_NK.mean(1, keepdim=True), others.cosines_NK.mean(1)
    scores_NK = SCORES[score](near.cosines_NK, own_N1, means_T[near.indices_NK])
    rows = zip(near.indices_NK.tolist(), scores_NK.tolist(), strict=True)
    return {
        (number, index): value
        for number, (indices, values) in enumerate(rows)
        for index, value in zip(indices, values, strict=True)
    }
