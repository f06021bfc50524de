"""Multiply-accumulate operations (MACs) of a forward pass, by formulas; a test compares them.

``torch.utils.flop_counter`` counts a run, not the MACs per token, row and pair: six runs of seconds
each for a translator, and exceptions (frozen features, pruned spans, texts of a row) as long.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

RowLengths = Sequence[tuple[int, ...]] | np.ndarray
"""The number of tokens of each row of examples."""
FORWARD_AND_BACKWARD = 6.0  # per MAC: multiply and add, once forward and twice backward


def first_lengths(lengths: RowLengths) -> np.ndarray:
    """The length of the first row of each example."""
    if isinstance(lengths, np.ndarray):
        return lengths[:, 0]
    return np.array([length[0] for length in lengths], dtype=np.int64)


def vector_counts(lengths: RowLengths, vectors: Callable[[int], int]) -> np.ndarray:
    """The number of vectors of each row of all examples, by a function of its length."""
    if not isinstance(lengths, np.ndarray):  # examples may differ in their numbers of rows
        lengths = np.array([length for example in lengths for length in example], dtype=np.int64)
    distinct_N, number_N = np.unique(lengths, return_inverse=True)
    counts_N = np.array([*map(vectors, distinct_N.tolist())], dtype=np.int64)
    return counts_N[number_N.ravel()]


def count_pairs(lengths: RowLengths) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Tokens of sources and targets; pairs of tokens of sources, of both, and of targets."""
    lengths_N2 = np.asarray(lengths, dtype=np.int64).reshape(-1, 2)
    (source, cross), (_, target) = (lengths_N2.T @ lengths_N2).tolist()
    first, second = lengths_N2.sum(axis=0).tolist()
    return (first, second), (source, cross, target)


class MACs(NamedTuple):
    """MACs of one side of a model for each ``token``, ``row`` and pair of tokens (``own_pair``).

    A decoder also has MACs for each ``source_token``, and for each pair of a token and a source
    token (``cross_pair``).
    """

    token: int
    source_token: int = 0
    row: int = 0
    own_pair: int = 0
    cross_pair: int = 0


def score_macs(
    score: str, query: int, key: int, inner: int, positions: int
) -> tuple[int, int, int]:
    """MACs of an attention score for each query, each key, and each pair of them."""
    return {
        "additive": (query * inner, key * inner, inner),
        "concat": (query * inner, key * inner, inner),
        "general": (0, key * query, query),
        "bilinear": (0, key * query, query),
        "location": (query * positions, 0, 0),
    }.get(score, (0, 0, key))
