"""Nearest neighbours by cosine, over vectors that come in parts: only the nearest are kept."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from regard.ground.checks import check_whole, listed

AT_ONCE = 256  # inputs that are read at once

Part = tuple[Sequence[Any], np.ndarray]
"""Items, and their vectors of length 1, (items, width)."""


class Neighbour(NamedTuple):
    """An item, and its cosine with a query."""

    cosine: float
    item: Any


def nearest(
    queries: Sequence[Any], queries_BD: np.ndarray, parts: Iterable[Part], top: int
) -> list[list[Neighbour]]:
    """The ``top`` items of all parts for each query, best first, without the query itself."""
    best: list[list[Neighbour]] = [[] for _ in queries]
    for items, vectors_ND in parts:
        cosines_BN = queries_BD @ vectors_ND.T
        for number, (query, cosines_N) in enumerate(zip(queries, cosines_BN, strict=True)):
            order = np.argsort(-cosines_N, kind="stable")
            others = islice((n for n in order if items[n] != query), top)
            new = [Neighbour(float(cosines_N[n]), items[n]) for n in others]
            best[number] = sorted([*best[number], *new], key=lambda one: -one.cosine)[:top]
    return best


def neighbours(
    model: Any,
    queries: Iterable[Any],
    inputs: Iterable[Any],
    top: int = 5,
    pool: str | None = None,
) -> list[list[Neighbour]]:
    """The ``top`` inputs nearest to each query, best first, by the cosine of their vectors.

    Queries and inputs are what ``Model.embed`` reads with this ``pool``: images, or texts. The item
    of a neighbour is the number of an input, counted from 0. Inputs may be any iterable: a few are
    in memory at once.
    """
    check_whole("top", top, 1)
    given = listed(queries, "queries")
    inputs = inputs if isinstance(inputs, Iterator) else listed(inputs, "inputs")
    parts = vectors_in_parts(model, zip(count(), inputs, strict=False), pool)
    return nearest([None] * len(given), _vectors(model, given, pool), parts, top)


def vectors_in_parts(
    model: Any, items: Iterable[tuple[Any, Any]], pool: str | None
) -> Iterator[Part]:
    """Items and the vectors of their inputs, from pairs (item, input)."""
    coming = iter(items)
    while some := list(islice(coming, AT_ONCE)):
        yield [item for item, _ in some], _vectors(model, [one for _, one in some], pool)


def _vectors(model: Any, inputs: list[Any], pool: str | None) -> np.ndarray:
    return model.embed(inputs, pool, normalise=True, as_numpy=True)
