"""What the loop is given: a model, an objective, batches, and what to do with a checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from regard.data.sampler import BatchSampler
from regard.objectives.objective import Objective
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import World
from regard.training.loop.events import DevResult
from regard.training.recipe import Recipe


@dataclass
class Job:
    """Everything a run consists of.

    ``flops`` counts the operations of a step over examples of these lengths. An ``eager`` model is
    neither compiled nor captured; the batches of one ``in_rectangles`` are padded on CUDA, and its
    steps captured by shape. ``data`` describes the training data in short,
    ``split_data`` the same where development examples are held out of it; ``remarks`` are about the
    first weights. ``check_folder`` is called before the leader writes.
    """

    recipe: Recipe
    model: nn.Module
    objective: Objective
    sampler: BatchSampler
    evaluate: Callable[[nn.Module], DevResult]
    flops: Callable[[Sequence[tuple[int, ...]]], float]
    checkpoints: Checkpoints
    world: World
    data: str = ""
    split_data: str = ""
    eager: bool = False
    in_rectangles: bool = False
    remarks: tuple[str, ...] = ()
    check_folder: Callable[[], None] = lambda: None
    budget_seconds: float = float("inf")
    stop_requested: Callable[[], bool] = lambda: False
