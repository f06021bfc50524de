"""Forward and backward of one batch: plainly, or captured once on CUDA and replayed.

A small step is bound by the time it takes to launch its kernels. With fixed shapes they can be
captured as one graph; a replay copies the batch into the captured tensors and launches once.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.config import BatchConfig
from regard.ground.batch import Batch, BatchLimits
from regard.ground.pytree import tensors_in, without_caches

Forward = Callable[[Batch], tuple[Tensor, Tensor]]
Scale = float | np.ndarray


class EagerStep:
    """Adds the gradient of ``scale`` times the loss; answers with (loss, likelihood)."""

    def __init__(self, forward: Forward, precision: Callable[[], AbstractContextManager]):
        self.forward, self.precision = forward, precision

    def __call__(self, batch: Batch, scale: Tensor | Scale) -> tuple[Tensor, Tensor]:
        with self.precision():
            loss, likelihood = self.forward(batch)
        if not isinstance(scale, Tensor):
            scale = as_tensor(scale, loss.device)
        (loss * scale).sum().backward()
        return loss.detach(), likelihood


class StepGraph(NamedTuple):
    """What was captured: a graph, the tensors that it reads, and those that it writes."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    scale: Tensor
    results: tuple[Tensor, Tensor]


class GraphedStep:
    """The same, as a CUDA graph for each shape of batch.

    Dropout still follows the seed: a replay reads it anew.
    """

    def __init__(self, plain: EagerStep, model: nn.Module):
        self.plain, self.model = plain, model
        self.graphs: dict[tuple[torch.Size, ...], StepGraph] = {}
        self.room = torch.cuda.graph_pool_handle()  # for all: no two run at once

    def __call__(self, batch: Batch, scale: Scale) -> tuple[Tensor, Tensor]:
        new = tensors_in(batch)
        shapes = tuple(one.shape for one in new)
        if shapes not in self.graphs:
            self.graphs[shapes] = self._capture(batch, as_tensor(scale, new[0].device))
        held = self.graphs[shapes]
        for old, one in zip(tensors_in(held.batch), new, strict=True):
            old.copy_(one, non_blocking=True)
        if held.scale.ndim:
            held.scale.copy_(as_tensor(scale), non_blocking=True)
        else:
            held.scale.fill_(float(scale))
        held.graph.replay()
        return held.results

    def _capture(self, batch: Batch, scale: Tensor) -> StepGraph:
        """Compile and warm up aside, then capture; gradients and draws go on as if nothing was."""
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        before = [parameter.grad.clone() for parameter in parameters]  # type: ignore[union-attr]
        draws = torch.cuda.get_rng_state(scale.device)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self.plain(without_caches(batch), scale)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.room):
            results = self.plain(without_caches(batch), scale)
        for parameter, gradient in zip(parameters, before, strict=True):
            parameter.grad.copy_(gradient)  # type: ignore[union-attr]
        torch.cuda.set_rng_state(draws, scale.device)
        return StepGraph(graph, batch, scale, results)


def fixed_shape(
    limits: BatchConfig, lengths: Iterable[tuple[int, ...]], splits: int = 1
) -> BatchLimits:
    """The shape of a batch on CUDA, or of one of the ``splits`` slices of a batch.

    It has the recipe's tokens, or as many whole rungs as examples of these lengths need: one rung
    at least, also for none. Tokens are not split, as long rows may meet in one slice.
    """
    tokens = limits.tokens
    if limits.rung:
        needed = max(map(sum, zip(*lengths, strict=True)), default=0)
        tokens = min(tokens, limits.rung * -(-max(needed, limits.longest) // limits.rung))
    return BatchLimits(tokens, -(-limits.rows // splits), limits.longest)


def as_tensor(scale: Scale, device: torch.device | str = "cpu") -> Tensor:
    """What each part of a loss is multiplied by."""
    return torch.as_tensor(scale, dtype=torch.float32).to(device)
