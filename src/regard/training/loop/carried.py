"""State that is carried from batch to batch of the same streams, and into checkpoints.

An objective over streams gives the ``initial_state`` of a model and a number of streams: a tree of
tensors (``ground/pytree.py``) whose first axis are the streams. It finds its state in the batch,
and returns the next one beside the losses; it is carried without its gradient.
"""

from typing import Any

import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.ground.pytree import map_tensors, tensors_in
from regard.training.loop.job import Job


class CarriedState:
    """The state of this process's streams; a job without streams has none."""

    def __init__(self, job: Job):
        self.world, self.streams = job.world, job.sampler.streams
        world = job.world
        self.own = slice(world.rank, None, world.size) if self.streams else slice(None)
        self.initial: Any = None
        if self.streams:
            objective: Any = job.objective
            initial = objective.initial_state(job.model, len(range(self.streams)[self.own]))
            self.initial = map_tensors(lambda x: x.detach().to(world.device), initial)
        self.tree = self.initial

    def restart(self) -> None:
        """As at the beginning of the streams."""
        self.tree = self.initial

    def update(self, tree: Any) -> None:
        """Take over the state after a batch."""
        self.tree = tree

    def gather(self) -> dict[str, Tensor]:
        """The states of all streams, in all processes, by their number in the tree."""
        return {
            str(number): _interleave(self.world.all_gather(tensor))
            for number, tensor in enumerate(tensors_in(self.tree))
        }

    def load(self, tensors: dict[str, Tensor], where: str) -> None:
        """The inverse: take the states of this process's streams."""
        expected = [(tensor.shape, tensor.dtype) for tensor in tensors_in(self.initial)]
        states = [tensors[str(number)] for number in range(len(tensors)) if str(number) in tensors]
        own = [tensor[self.own] if tensor.ndim else tensor for tensor in states]
        if [(tensor.shape, tensor.dtype) for tensor in own] != expected:
            raise BadInput(f"{where}: the carried state does not fit the model and its streams")
        rest = iter(own)
        self.tree = map_tensors(lambda x: next(rest).to(x.device), self.initial)


def _interleave(parts: list[Tensor]) -> Tensor:
    """Stream i is that of process i % size."""
    return torch.stack(parts, dim=1).flatten(0, 1)
