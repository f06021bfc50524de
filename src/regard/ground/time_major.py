"""Packed tokens in the order of time: all first ones, then all second ones, as recurrence runs.

At every time the rows still alive are the first of one order, longest first, so that a loop over
time only ever drops rows from the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.ground.scatter_gather import gather_rows, scatter_rows


@dataclass(frozen=True, eq=False)
class TimeMajor:
    """``alive[t]`` rows have a token at time t: the first of ``order_B``.

    Read forward, the n-th token in the order of time lies at ``forward_T[n]`` of the packed tokens;
    read backward, from the end of every row, at ``backward_T[n]``.
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
        """The order of rows of these lengths, the first token of each at ``starts``."""
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
        """Rows that have a token at all."""
        return self.alive[0] if self.alive else 0

    @property
    def order_R(self) -> Tensor:
        """Those rows, longest first."""
        return self.order_B[: self.rows]

    def from_packed(self, x: Tensor, *, backward: bool = False) -> Tensor:
        """Packed tokens in the order of time."""
        return gather_rows(x, self.backward_T if backward else self.forward_T)

    def to_packed(self, x: Tensor, *, backward: bool = False) -> Tensor:
        """Back to packed tokens; places that are no token's are zeros."""
        return scatter_rows(x, self.backward_T if backward else self.forward_T, self.tokens)
