"""Packed tokens in time-major order: all first tokens, then all second tokens, and so on.

Rows are ordered by length, longest first, so that a loop over time only drops rows from the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.ground.scatter_gather import gather_rows, scatter_rows


@dataclass(frozen=True, eq=False)
class TimeMajor:
    """``alive[t]`` rows have a token at time t: the first ones of ``order_B``.

    Token n in time-major order is packed token ``forward_T[n]``, or ``backward_T[n]`` where rows
    are read from their ends.
    """

    alive: tuple[int, ...]
    order_B: Tensor
    forward_T: Tensor
    backward_T: Tensor
    tokens: int

    @classmethod
    def of(
        cls, lengths: Sequence[int], starts: Sequence[int], tokens: int, device: torch.device
    ) -> "TimeMajor":
        """For rows of these lengths, whose first tokens are at ``starts`` of the packed tokens."""
        length_B, start_B = np.array(lengths, dtype=np.int64), np.array(starts, dtype=np.int64)
        order_B = np.argsort(-length_B, kind="stable")
        time_L1 = np.arange(length_B.max(initial=0))[:, None]
        alive_LB = length_B[order_B] > time_L1
        time_T, rank_T = np.nonzero(alive_LB)
        row_T = order_B[rank_T]
        forward_T = start_B[row_T] + time_T
        backward_T = start_B[row_T] + length_B[row_T] - 1 - time_T

        def moved(index: np.ndarray) -> Tensor:
            return torch.from_numpy(index).to(device)

        alive = tuple(alive_LB.sum(1).tolist())
        return cls(alive, moved(order_B), moved(forward_T), moved(backward_T), tokens)

    @property
    def rows(self) -> int:
        """The number of rows that have tokens."""
        return self.alive[0] if self.alive else 0

    @property
    def order_R(self) -> Tensor:
        """Those rows, longest first."""
        return self.order_B[: self.rows]

    def from_packed(self, x: Tensor, *, backward: bool = False) -> Tensor:
        """Packed tokens to time-major order."""
        return gather_rows(x, self.backward_T if backward else self.forward_T)

    def to_packed(self, x: Tensor, *, backward: bool = False) -> Tensor:
        """Time-major order to packed tokens; padding is zeros."""
        return scatter_rows(x, self.backward_T if backward else self.forward_T, self.tokens)
