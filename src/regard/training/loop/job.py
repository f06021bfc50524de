"""What the loop is given: a model, an objective, batches, and what to do with a checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from regard.data.sampler import BatchSampler
from regard.ground.batch import Batch, BatchLimits
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import World
from regard.training.loop.events import DevResult
from regard.training.recipe import Recipe


class LoopObjective(Protocol):
    """What the loop asks of an objective.

    A sum of several objectives, each a mean over targets of its own, has a weight and a loss for
    each of them.
    """

    def length(self, example: Any) -> tuple[int, ...]: ...
    def weight(self, example: Any) -> float | np.ndarray: ...
    def collate(self, examples: Sequence[Any], limits: BatchLimits | None = None) -> Batch: ...
    def __call__(self, model: nn.Module, batch: Batch) -> tuple[Tensor, ...]: ...


class StreamObjective(LoopObjective, Protocol):
    """An objective over streams: it finds its state in the batch, and returns the next one.

    A state is a tree of tensors (``ground/pytree.py``) whose first axis are the streams. It is
    carried from batch to batch without its gradient, and starts anew where the streams do.
    """

    def initial_state(self, model: nn.Module, streams: int) -> Any: ...
    def __call__(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Any]: ...


@dataclass
class Job:
    """Everything a run consists of.

    ``flops`` counts the operations of a step over examples of these lengths. An ``eager`` model is
    neither compiled nor captured. ``data`` describes the training data in short.
    """

    recipe: Recipe
    model: nn.Module
    objective: LoopObjective
    sampler: BatchSampler
    evaluate: Callable[[nn.Module], DevResult]
    flops: Callable[[Sequence[tuple[int, ...]]], float]
    checkpoints: Checkpoints
    world: World
    data: str = ""
    eager: bool = False
    budget_seconds: float = float("inf")
    stop_requested: Callable[[], bool] = lambda: False
