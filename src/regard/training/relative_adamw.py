"""AdamW with steps relative to the size of each weight (Nawrot, 2023, arXiv:2309.02373, nanoT5)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from regard.training.adafactor import SMALLEST


class RelativeAdamW(Optimizer):
    """AdamW (Loshchilov & Hutter, 2017) whose learning rate is relative to each weight's size.

    That is its root mean square, and at least ``SMALLEST``, as in Adafactor; weight decay is not
    relative. Operations run over all weights at once, and nothing is read back from the GPU, so
    that a step can be captured as a CUDA graph.
    """

    def __init__(
        self,
        groups: Any,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(groups, {**defaults, "capturable": False})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self._update(weights, group)

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        for weight in weights:
            if not self.state[weight]:
                moments = {name: torch.zeros_like(weight) for name in ("exp_avg", "exp_avg_sq")}
                self.state[weight] = {"step": weight.new_zeros(()), **moments}
        steps, firsts, seconds = (
            [self.state[weight][name] for weight in weights]
            for name in ("step", "exp_avg", "exp_avg_sq")
        )
        (first, second), lr = group["betas"], group["lr"]
        torch._foreach_add_(steps, 1)
        torch._foreach_lerp_(firsts, gradients, 1 - first)
        torch._foreach_mul_(seconds, second)
        torch._foreach_addcmul_(seconds, gradients, gradients, 1 - second)

        step_W = torch.stack(steps)  # weights of several groups of layers may be unfrozen later
        roots = torch._foreach_sqrt(seconds)
        torch._foreach_div_(roots, (1 - second**step_W).sqrt().unbind())
        torch._foreach_add_(roots, group["eps"])
        torch._foreach_reciprocal_(roots)
        torch._foreach_mul_(roots, firsts)

        counts = [math.sqrt(max(1, weight.numel())) for weight in weights]
        sizes_W = torch.stack(torch._foreach_div(torch._foreach_norm(weights), counts))
        rate_W = lr * sizes_W.clamp(min=SMALLEST) / (1 - first**step_W)
        torch._foreach_mul_(roots, rate_W.unbind())
        if group["weight_decay"]:
            torch._foreach_mul_(weights, 1 - lr * group["weight_decay"])
        torch._foreach_sub_(weights, roots)
