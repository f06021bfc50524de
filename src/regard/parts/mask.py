"""Sight: who may look at whom, by comparing positions or orders, never by looking at data.

A sight is a value. Called with both layouts it answers (B, L, S), true where the query may look;
``attend`` adds that a key must exist. Rows only ever see their own row.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.ground.layout import Layout


@dataclass(frozen=True)
class WindowMask:
    """From ``left`` places before the query to ``right`` places after it; ``None`` is no limit."""

    left: int | None = None
    right: int | None = None

    def __call__(self, queries: Layout, keys: Layout) -> Tensor:
        """Which keys each query may see, by position."""
        if self.left is None and self.right is None:
            seen = torch.ones((), dtype=torch.bool, device=keys.positions_T.device)
            return seen.expand(keys.rows, queries.longest, keys.longest)
        ahead = _gap(queries, keys, queries.positions_T, keys.positions_T)
        allowed = torch.ones_like(ahead, dtype=torch.bool)
        if self.left is not None:
            allowed &= ahead >= -self.left
        if self.right is not None:
            allowed &= ahead <= self.right
        return allowed


@dataclass(frozen=True)
class PermutationMask:
    """Only what comes earlier in the row's drawn order (XLNet, Yang et al., 2019, eq. 3).

    The content stream may see itself as well (``itself``); the query stream may not.
    """

    itself: bool

    def __call__(self, queries: Layout, keys: Layout) -> Tensor:
        """Which keys each query may see, by order."""
        if queries.orders_T is None or keys.orders_T is None:
            raise ValueError("a permuted sight needs layouts that carry orders")
        ahead = _gap(queries, keys, queries.orders_T, keys.orders_T)
        return ahead <= 0 if self.itself else ahead < 0


Mask = WindowMask | PermutationMask

full = WindowMask()
causal = WindowMask(right=0)


def _gap(queries: Layout, keys: Layout, query_T: Tensor, key_T: Tensor) -> Tensor:
    """How far each key is ahead of each query, (B, L, S)."""
    return keys.pad(key_T)[:, None, :] - queries.pad(query_T)[:, :, None]
