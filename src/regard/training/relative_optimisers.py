"""Optimisers whose steps are relative to the size of each weight: Adafactor and AdamW."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

DECAY = -0.8  # the moments forget a share t^-0.8 of the past in step t
SQUARE = 1e-30  # added to squared gradients
SMALLEST = 1e-3  # least size of weights that the learning rate is relative to
LARGEST = 1.0  # root mean square of an update above which it is scaled down


class Adafactor(Optimizer):
    """Adafactor without a first moment, as T5 was trained (Shazeer & Stern, 2018, algorithm 4,
    arXiv:1804.04235), with second moments of rows and columns only.

    The learning rate is relative to the root mean square of each weight matrix, and at most
    1 / √t in step t. Nothing is read back from the GPU, where ``torch.optim.Adafactor`` waits twice
    for each matrix; so a step can be captured as a CUDA graph.
    """

    def __init__(self, groups: Any, lr: float, weight_decay: float = 0.0):
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay, "capturable": False})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group["lr"], group["weight_decay"])

    def _update(self, weight: Tensor, gradient: Tensor, lr: float | Tensor, decay: float) -> None:
        state = self.state[weight]
        if not state:
            shapes = adafactor_moments(weight.shape)
            state |= {name: weight.new_zeros(shape) for name, shape in shapes.items()}
        step = state["step"].add_(1)
        share = step**DECAY
        update = gradient * _second_moment(state, gradient.square() + SQUARE, share).rsqrt_()
        update /= (_rms(update) / LARGEST).clamp(min=1)
        rate = step.rsqrt().clamp(max=lr) * _rms(weight).clamp(min=SMALLEST)
        if decay:
            weight.mul_(1 - lr * decay)
        weight.sub_(update.mul_(rate))


def adafactor_moments(shape: Sequence[int]) -> dict[str, Sequence[int]]:
    """The state of a weight of a shape: second moments of rows and columns; all of a vector's."""
    if len(shape) < 2:
        return {"step": (), "squares": shape}
    return {"step": (), "rows": shape[:-1], "columns": (*shape[:-2], shape[-1])}


def _second_moment(state: dict[str, Tensor], squares: Tensor, share: Tensor) -> Tensor:
    """Add squared gradients to the moments by their share; the moment of each weight."""
    if "squares" in state:
        return state["squares"].lerp_(squares, share).clone()
    rows = state["rows"].lerp_(squares.mean(-1), share)
    columns = state["columns"].lerp_(squares.mean(-2), share)
    return (rows / rows.mean(-1, keepdim=True))[..., None] * columns[..., None, :]


def _rms(x: Tensor) -> Tensor:
    """Root mean square."""
    return x.square().mean().sqrt()


class RelativeAdamW(Optimizer):
    """AdamW (Loshchilov & Hutter, 2017) whose learning rate is relative to each weight's size
    (Nawrot, 2023, arXiv:2309.02373, nanoT5).

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
