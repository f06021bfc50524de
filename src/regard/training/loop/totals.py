"""Sums between two reports; a checkpoint holds them, so that a resumed run reports the same."""

from dataclasses import dataclass, field
from time import monotonic

import numpy as np
import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.training.checkpoint import PendingTotals
from regard.training.distributed import World


@dataclass
class RunningTotals:
    """Sums on the device; reading them waits for it."""

    losses: Tensor  # losses and likelihoods, of each part of the objective
    values: Tensor  # gradient norm, first bad step
    weight: Tensor
    tokens: int = 0
    steps: int = 0
    room: int = 0
    began: float = field(default_factory=monotonic)

    @classmethod
    def zeros(cls, device: torch.device) -> "RunningTotals":
        """Zeros."""
        losses = torch.zeros(2, 1, dtype=torch.float64, device=device)
        return cls(losses, losses[:, 0].clone(), torch.zeros(1, dtype=torch.float64))

    @classmethod
    def stored(cls, kept: PendingTotals, world: World, where: str) -> "RunningTotals":
        """Those of a checkpoint; for another number of ranks, the leader gets the sum."""
        try:
            losses = torch.tensor(kept.losses, dtype=torch.float64)
            values = torch.tensor(kept.values, dtype=torch.float64, device=world.device)
            weight = torch.tensor(kept.weight, dtype=torch.float64)
            _, kinds, parts = losses.shape
            if (kinds, len(values)) != (2, 2) or len(weight) != parts:
                raise ValueError
        except ValueError:
            raise BadInput(f"{where}: damaged (unreported)") from None
        if len(losses) == world.size:
            own = losses[world.rank]
        else:
            own = losses.sum(0) if world.is_leader else torch.zeros_like(losses[0])
        began = monotonic() - kept.seconds
        return cls(own.to(world.device), values, weight, kept.tokens, kept.steps, kept.room, began)

    def add(self, loss: Tensor, nll: Tensor) -> None:
        """Add the sums of a batch."""
        self.losses = self.losses + torch.stack([loss, nll]).view(2, -1)

    def add_norm(self, number: int, norm: Tensor) -> None:
        """Add the gradient norm; note the first step with a non-finite value, without a sync."""
        bad = ~torch.isfinite(norm + self.losses[0].sum())
        self.values[0] += norm
        first = bad & (self.values[1] == 0)
        self.values[1] = torch.where(first, float(number), self.values[1])

    def count(self, weight: np.ndarray | Tensor, tokens: int, room: int) -> None:
        """Count a step: its weight, its tokens, and the most tokens that its batches can hold."""
        added = torch.as_tensor(weight, dtype=torch.float64)
        self.weight = self.weight.to(added.device) + added
        self.tokens += tokens
        self.room += room
        self.steps += 1

    def means(self, world: World) -> tuple[float, float]:
        """Mean loss and negative log-likelihood over all processes, summed over objectives."""
        sums = world.all_reduce(self.losses.clone()).cpu()
        loss, nll = (sums / self.weight.cpu()).sum(-1).tolist()
        return loss, nll

    def to_store(self, world: World) -> PendingTotals | None:
        """The sums of every rank for a checkpoint; None if there are no steps since a report."""
        if not self.steps:
            return None
        each = self.losses.new_zeros(world.size, *self.losses.shape)
        each[world.rank] = self.losses
        return PendingTotals(
            losses=world.all_reduce(each).tolist(),
            values=self.values.tolist(),
            weight=self.weight.tolist(),
            tokens=self.tokens,
            steps=self.steps,
            room=self.room,
            seconds=monotonic() - self.began,
        )
