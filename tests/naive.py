"""Attention once more, slowly and without regard: loops over rows, heads and queries."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

import torch
from hypothesis import strategies as st
from torch import Tensor

# Rows of every kind, the empty and the one-token row more often than chance would have them.
LENGTH = st.one_of(st.sampled_from([0, 1]), st.integers(0, 7))
LENGTHS = st.lists(LENGTH, min_size=1, max_size=5)
PAIRS = st.lists(st.tuples(LENGTH, LENGTH), min_size=1, max_size=5)
SEED = st.integers(0, 2**31)


def spans(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First token and end of each row."""
    return pairwise(accumulate(lengths, initial=0))


def attend(
    score: Callable[[Tensor, Tensor, int, int, int], Tensor],
    q_THK: Tensor,
    k_THK: Tensor,
    v_THK: Tensor,
    query_lengths: Sequence[int],
    key_lengths: Sequence[int],
    sees: Callable[[int, int, int], bool] = lambda row, i, j: True,
) -> Tensor:
    """``score(q, k, head, i, j)`` and ``sees(row, i, j)``: of a row, query i and key j."""
    heads, size = q_THK.shape[1], v_THK.shape[2]
    out_THK = q_THK.new_zeros(len(q_THK), heads, size)
    rows = zip(spans(query_lengths), spans(key_lengths), strict=True)
    for row, ((first, end), (first_key, end_key)) in enumerate(rows):
        for i in range(end - first):
            seen = [j for j in range(end_key - first_key) if sees(row, i, j)]
            for head in range(heads if seen else 0):
                q = q_THK[first + i, head]
                scores = [score(q, k_THK[first_key + j, head], head, i, j) for j in seen]
                powers = torch.stack(scores).exp()
                values = torch.stack([v_THK[first_key + j, head] for j in seen])
                out_THK[first + i, head] = (powers / powers.sum()) @ values
    return out_THK


def dot(q: Tensor, k: Tensor, head: int, i: int, j: int) -> Tensor:
    """q·k"""
    return (q * k).sum()


def scaled_dot(q: Tensor, k: Tensor, head: int, i: int, j: int) -> Tensor:
    """q·k/√K"""
    return (q * k).sum() / len(q) ** 0.5


def gradients(out: Tensor, inputs: Sequence[Tensor], towards: Tensor) -> list[Tensor]:
    """Gradients of Σ out·towards; zeros where nothing depends on an input."""
    if not out.requires_grad:
        return [torch.zeros_like(one) for one in inputs]
    return list(
        torch.autograd.grad(
            (out * towards).sum(), inputs, allow_unused=True, materialize_grads=True
        )
    )


def word_groups(words: Sequence[int | None]) -> list[list[int]]:
    """From the word of every token to the tokens of every word; tokens of no word are left out."""
    count = max((word for word in words if word is not None), default=-1) + 1
    groups: list[list[int]] = [[] for _ in range(count)]
    for position, word in enumerate(words):
        if word is not None:
            groups[word].append(position)
    return groups
