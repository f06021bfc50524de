"""Adafactor (Shazeer & Stern, 2018, arXiv:1804.04235): second moments of rows and columns only."""

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
    """Adafactor without a first moment, as T5 was trained (algorithm 4 of the paper).

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
            shapes = moment_shapes(weight.shape)
            state |= {name: weight.new_zeros(shape) for name, shape in shapes.items()}
        step = state["step"].add_(1)
        share = step**DECAY
        update = gradient * _second_moment(state, gradient.square() + SQUARE, share).rsqrt_()
        update /= (_rms(update) / LARGEST).clamp(min=1)
        rate = step.rsqrt().clamp(max=lr) * _rms(weight).clamp(min=SMALLEST)
        if decay:
            weight.mul_(1 - lr * decay)
        weight.sub_(update.mul_(rate))


def moment_shapes(shape: Sequence[int]) -> dict[str, Sequence[int]]:
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
