"""Attention masks as values: full, causal, window, permutation.

A mask compares positions or orders, never data. Called with both layouts it returns (B, L, S), true
where a query may attend to a key; ``attend`` masks padding. Queries attend to their own row only.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.ground.layout import Layout


@dataclass(frozen=True)
class WindowMask:
    """Keys from ``left`` positions before the query to ``right`` after it; ``None``: no limit."""

    left: int | None = None
    right: int | None = None

    def __call__(self, queries: Layout, keys: Layout) -> Tensor:
        """Allowed keys by position."""
        if self.left is None and self.right is None:
            allowed = torch.ones((), dtype=torch.bool, device=keys.positions_T.device)
            return allowed.expand(keys.rows, queries.longest, keys.longest)
        ahead = _gap(queries, keys, queries.positions_T, keys.positions_T)
        allowed = torch.ones_like(ahead, dtype=torch.bool)
        if self.left is not None:
            allowed &= ahead >= -self.left
        if self.right is not None:
            allowed &= ahead <= self.right
        return allowed


@dataclass(frozen=True)
class PermutationMask:
    """Keys that come earlier in the row's permutation (XLNet, Yang et al., 2019, eq. 3).

    With ``itself`` also the query's own token, as in the content stream; not in the query stream.
    """

    itself: bool

    def __call__(self, queries: Layout, keys: Layout) -> Tensor:
        """Allowed keys by order."""
        if queries.orders_T is None or keys.orders_T is None:
            raise ValueError("a permutation mask needs layouts with orders")
        ahead = _gap(queries, keys, queries.orders_T, keys.orders_T)
        return ahead <= 0 if self.itself else ahead < 0


Mask = WindowMask | PermutationMask

full = WindowMask()
causal = WindowMask(right=0)
earlier = PermutationMask(itself=False)
earlier_or_itself = PermutationMask(itself=True)


def _gap(queries: Layout, keys: Layout, query_T: Tensor, key_T: Tensor) -> Tensor:
    """How far each key is ahead of each query, (B, L, S)."""
    return keys.pad(key_T)[:, None, :] - queries.pad(query_T)[:, :, None]
