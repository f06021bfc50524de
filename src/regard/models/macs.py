"""What a forward pass costs, in multiply-accumulate operations."""

from typing import NamedTuple

FORWARD_AND_BACKWARD = 6.0  # per MAC: multiply and add, once forward and twice backward


class MACs(NamedTuple):
    """Multiply-accumulate operations of one side of a model, by what they are made for.

    ``token``: each of its tokens; ``source_token``: each token of its source; ``row``: each row;
    ``own_pair``: each pair of its own tokens; ``cross_pair``: each of its tokens with each token of
    its source.
    """

    token: int
    source_token: int = 0
    row: int = 0
    own_pair: int = 0
    cross_pair: int = 0


def score_macs(
    score: str, query: int, key: int, inner: int, positions: int
) -> tuple[int, int, int]:
    """MACs of a score, from its sizes: for each query, each key, and each pair of them."""
    return {
        "additive": (query * inner, key * inner, inner),
        "concat": (query * inner, key * inner, inner),
        "general": (0, key * query, query),
        "bilinear": (0, key * query, query),
        "location": (query * positions, 0, 0),
    }.get(score, (0, 0, key))
