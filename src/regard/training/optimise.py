"""Optimisers, clipping and the moving average of weights."""

import torch
from torch import Tensor, nn

from regard.training.recipe import Optimiser


def optimiser(model: nn.Module, facts: Optimiser) -> torch.optim.Optimizer:
    """Adam or AdamW in one fused kernel; vectors (biases, norms) do not decay."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": facts.decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if facts.kind == "adamw" else torch.optim.Adam
    return kind(groups, lr=facts.rate, betas=facts.betas, eps=facts.eps, fused=True)


def clip(model: nn.Module, longest: float) -> Tensor:
    """Shorten the gradient to ``longest`` (0: as it is); its norm before."""
    parameters = [p for p in model.parameters() if p.grad is not None]
    limit = longest or float("inf")
    return torch.nn.utils.clip_grad_norm_(parameters, limit)


class MovingAverage:
    """Exponential moving average of weights: average ← decay·average + (1 - decay)·weights.

    Early on the decay is smaller, (1 + step) / (10 + step), so that the start is soon forgotten.
    """

    def __init__(self, weights: dict[str, Tensor], decay: float):
        self.decay = decay
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}

    @torch.no_grad()
    def update(self, weights: dict[str, Tensor], step: int) -> None:
        """Take in the weights after a step."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averages = [self.weights[name] for name in weights]
        torch._foreach_lerp_(averages, list(weights.values()), 1 - decay)
