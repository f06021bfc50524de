"""Forward and backward of one batch: plainly, or captured once on CUDA and replayed.

A small step is bound by the time it takes to launch its kernels. With fixed shapes they can be
captured as one graph; a replay copies the batch into the captured tensors and launches once.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.ground.batch import Batch

Forward = Callable[[Batch], tuple[Tensor, Tensor]]
WARM_UPS = 3


class Plain:
    """Adds the gradient of ``scale`` times the loss; answers with (loss, likelihood)."""

    def __init__(self, forward: Forward, precision: Callable[[], AbstractContextManager]):
        self.forward, self.precision = forward, precision

    def __call__(self, batch: Batch, scale: Tensor | float) -> tuple[Tensor, Tensor]:
        with self.precision():
            loss, likelihood = self.forward(batch)
        (loss * scale).backward()
        return loss.detach(), likelihood


class Captured:
    """The same, as one CUDA graph. Dropout still follows the seed: a replay reads it anew."""

    def __init__(self, plain: Plain, model: nn.Module):
        self.plain, self.model = plain, model
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batch: Batch, scale: float) -> tuple[Tensor, Tensor]:
        if self.graph is None:
            self.graph = self._capture(batch)
        for held, new in zip(tensors(self.batch), tensors(batch), strict=True):
            held.copy_(new, non_blocking=True)
        self.scale.fill_(scale)
        self.graph.replay()
        return self.results

    def _capture(self, batch: Batch) -> torch.cuda.CUDAGraph:
        """Compile and warm up aside, keep the gradients there were, then capture."""
        self.batch = batch
        self.scale = torch.ones((), device=batch.goals_T.device)
        parameters = list(self.model.parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        before = [parameter.grad.clone() for parameter in parameters]  # type: ignore[union-attr]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                self.plain(batch, self.scale)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.results = self.plain(batch, self.scale)
        for parameter, gradient in zip(parameters, before, strict=True):
            parameter.grad.copy_(gradient)  # type: ignore[union-attr]
        return graph


def tensors(value: Any) -> list[Tensor]:
    """All tensors of a batch, in a fixed order."""
    if isinstance(value, Tensor):
        return [value]
    if not is_dataclass(value):
        return []
    return [one for field in fields(value) for one in tensors(getattr(value, field.name))]
