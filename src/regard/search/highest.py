"""The highest entries of long rows, with ties settled: ``torch.topk`` leaves them open."""

from functools import lru_cache

import torch
from torch import Tensor

BLOCK = 64


def highest(logprobs_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and indices of the ``count`` highest float32 entries <= 0 of each row, highest first.

    Among equals the lower index comes first, on every device and in every batch. In a long row
    the entries looked for lie in the ``count`` blocks with the highest maxima (or in what remains
    after the last whole block), and maxima come at the speed of memory.
    """
    R, V = logprobs_RV.shape
    lean_V, index_V = _lean(V, logprobs_RV.device)
    if count * BLOCK >= V:
        index = index_V.expand(R, V)
    else:
        whole = V - V % BLOCK
        maxima = logprobs_RV[:, :whole].unflatten(1, (-1, BLOCK)).amax(-1)
        blocks = (maxima * lean_V[: maxima.shape[1]]).topk(count).indices
        index = torch.add(index_V[:BLOCK], blocks[:, :, None], alpha=BLOCK).flatten(1)
        if whole < V:
            index = torch.cat([index, index_V[whole:].expand(R, -1)], dim=1)
    values = logprobs_RV.gather(1, index)
    order = (values * lean_V[index]).topk(min(count, V)).indices
    return values.gather(1, order), index.gather(1, order)


@lru_cache(maxsize=8)
def _lean(V: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Factors that turn log-probabilities into keys of which no two are equal; and all indices.

    A float32 leaves 29 bits of a double free; the index goes there.
    """
    index_V = torch.arange(V, device=device)
    return 1 + index_V.double() * 2.0**-50, index_V
