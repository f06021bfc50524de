"""Forward and backward of one batch: eagerly, or captured once on CUDA and replayed.

Small steps are bound by kernel launches. With fixed shapes, the kernels are captured as one CUDA
graph; a replay copies the batch into the captured tensors and launches once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import inf
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import Batch, BatchLimits, RectangleLimits
from regard.core.capture import CapturedGraph, capture
from regard.core.pytree import map_tensors, tensors_in, without_caches
from regard.data.data_tables import BatchConfig

Forward = Callable[[Batch], tuple[Tensor, ...]]
Scale = float | np.ndarray


class StepResult(NamedTuple):
    """Sums over a batch, and the next state of an objective over streams."""

    loss: Tensor
    nll: Tensor
    state: object = None


class EagerStep:
    """Eager step: forward and backward of ``scale`` times the loss; returns detached sums."""

    def __init__(self, forward: Forward, precision: Callable[[], AbstractContextManager]):
        self.forward, self.precision = forward, precision

    def __call__(self, batch: Batch, scale: Tensor | Scale) -> StepResult:
        with self.precision():
            result = StepResult(*self.forward(batch))
        (result.loss * as_tensor(scale, result.loss.device)).sum().backward()
        return map_tensors(Tensor.detach, result)


class StepGraph(NamedTuple):
    """A captured graph, the tensors that it reads, and the tensors that it writes."""

    graph: CapturedGraph
    batch: Batch
    scale: Tensor
    result: StepResult


class GraphedStep:
    """Step with one CUDA graph for each shape of batch, of at most ``most_graphs``.

    A shape is captured at its ``capture_at``-th batch. Steps are eager before that, for shapes
    beyond ``most_graphs``, and if a capture fails. Dropout follows the seed, since a replay reads
    the generator's current state.
    """

    def __init__(
        self, eager: EagerStep, model: nn.Module, *, capture_at: int = 1, most_graphs: float = inf
    ):
        self.eager, self.model = eager, model
        self.capture_at, self.most_graphs = capture_at, most_graphs
        self.seen: Counter[tuple[torch.Size, ...]] = Counter()
        self.graphs: dict[tuple[torch.Size, ...], StepGraph | None] = {}  # None: it failed
        self.pool = torch.cuda.graph_pool_handle()  # of all graphs: no two run at once

    def __call__(self, batch: Batch, scale: Tensor | Scale) -> StepResult:
        new = tensors_in(batch)
        shapes = tuple(tensor.shape for tensor in new)
        self.seen[shapes] += 1
        if shapes not in self.graphs:
            if self.seen[shapes] < self.capture_at or len(self.graphs) >= self.most_graphs:
                return self.eager(batch, scale)
            self.graphs[shapes] = self._capture(batch, as_tensor(scale, new[0].device))
        captured = self.graphs[shapes]
        if captured is None:
            return self.eager(batch, scale)
        for old, tensor in zip(tensors_in(captured.batch), new, strict=True):
            old.copy_(tensor, non_blocking=True)
        if captured.scale.ndim:
            captured.scale.copy_(as_tensor(scale), non_blocking=True)
        else:
            captured.scale.fill_(float(scale))
        captured.graph.replay()
        return captured.result

    def _capture(self, batch: Batch, scale: Tensor) -> StepGraph | None:
        """Compile and warm up on another stream, then capture.

        Gradients, buffers and random state are restored.
        """
        batch = map_tensors(Tensor.clone, batch)  # later batches are copied into it
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        before = [parameter.grad.clone() for parameter in parameters]  # type: ignore[union-attr]
        draws = torch.cuda.get_rng_state(scale.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), unchanged_buffers(self.model):
            self.eager(without_caches(batch), scale)
        torch.cuda.current_stream().wait_stream(side)

        def step() -> StepResult:
            with gradients_added_at_once(parameters):
                return self.eager(without_caches(batch), scale)

        captured = capture(step, scale.device, "a training step", self.pool)
        for parameter, gradient in zip(parameters, before, strict=True):
            parameter.grad.copy_(gradient)  # type: ignore[union-attr]
        torch.cuda.set_rng_state(draws, scale.device)
        return None if captured is None else StepGraph(captured[0], batch, scale, captured[1])


@contextmanager
def unchanged_buffers(model: nn.Module) -> Iterator[None]:
    """Restore buffers, such as the running means of batch norm, after this block."""
    before = [buffer.clone() for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, value in zip(model.buffers(), before, strict=True):
            buffer.copy_(value)


@contextmanager
def gradients_added_at_once(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Add the gradients of this block to earlier ones by a few kernels, not one per parameter."""
    earlier = {parameter: parameter.grad for parameter in parameters}
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
        changed = [(earlier[p], p.grad) for p in parameters if p.grad is not None]
        torch._foreach_add_(*map(list, zip(*changed, strict=True)))
    finally:
        for parameter, gradient in earlier.items():
            parameter.grad = gradient


def fixed_shape(
    limits: BatchConfig, lengths: Iterable[tuple[int, ...]], splits: int = 1
) -> BatchLimits:
    """The shape of a batch on CUDA, or of one of the ``splits`` slices of a batch.

    The shape has the recipe's tokens, or the smallest multiple of ``pad_to_multiple`` that holds
    examples of these lengths. Tokens are not divided by ``splits``, as long rows may fall into one
    slice.
    """
    tokens, multiple = limits.tokens, limits.pad_to_multiple
    if multiple:
        needed = max(map(sum, zip(*lengths, strict=True)), default=0)
        tokens = min(tokens, multiple * -(-max(needed, limits.longest) // multiple))
    return BatchLimits(tokens, -(-limits.rows // splits), limits.longest)


def rectangle(limits: BatchConfig, splits: int = 1) -> RectangleLimits:
    """The shape of a batch of a model that reads padded rectangles."""
    return RectangleLimits(limits.tokens, -(-limits.rows // splits), limits.longest)


def as_tensor(scale: Tensor | Scale, device: torch.device | str = "cpu") -> Tensor:
    """The scale of each part of a loss as a tensor."""
    return torch.as_tensor(scale, dtype=torch.float32).to(device)
