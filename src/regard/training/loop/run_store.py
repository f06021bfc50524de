"""Checkpoints of a run, and how it resumes from the last one.

An objective over streams carries state from batch to batch, and into checkpoints. It gives the
``initial_state`` for a model and a number of streams: a tree of tensors (``core/pytree.py``)
whose first axis is the stream. It reads its state from the batch and returns the next one beside
the losses, without a gradient.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor

from regard.core.errors import BadInput
from regard.core.pytree import map_tensors, tensors_in
from regard.objectives.sum import Sum
from regard.training.checkpoint import RunProgress
from regard.training.loop.events import Job
from regard.training.loop.trainable import TrainableModel
from regard.training.precision import Precision, kept_precision

CARRIED = "carried"  # the file of carried states


class CarriedState:
    """The state of this process's streams; a job without streams has none.

    States are whole tensors, also if weights are divided: ``whole`` makes them so.
    """

    def __init__(self, job: Job, whole: Callable[[Tensor], Tensor] = lambda tensor: tensor):
        self.world, self.streams = job.world, job.sampler.streams
        world = job.world
        self.own = slice(world.rank, None, world.size) if self.streams else slice(None)
        self.initial: object = None
        if self.streams:
            objective = cast(Sum, job.objective)
            initial = objective.initial_state(job.model, len(range(self.streams)[self.own]))
            self.initial = map_tensors(lambda x: whole(x.detach()).to(world.device), initial)
        self.tree = self.initial

    def restart(self) -> None:
        """Reset to the state at the beginning of the streams."""
        self.tree = self.initial

    def update(self, tree: object) -> None:
        """Set the state after a batch."""
        self.tree = tree

    def gather(self) -> dict[str, Tensor]:
        """The states of all streams, in all processes, by their number in the tree."""
        return {
            str(number): _interleave(self.world.all_gather(tensor))
            for number, tensor in enumerate(tensors_in(self.tree))
        }

    def load(self, tensors: dict[str, Tensor], where: str) -> None:
        """Load the states of this process's streams from a checkpoint."""
        expected = [(tensor.shape, tensor.dtype) for tensor in tensors_in(self.initial)]
        states = [tensors[str(number)] for number in range(len(tensors)) if str(number) in tensors]
        own = [tensor[self.own] if tensor.ndim else tensor for tensor in states]
        if [(tensor.shape, tensor.dtype) for tensor in own] != expected:
            raise BadInput(f"{where}: the carried state does not fit the model and its streams")
        rest = iter(own)
        self.tree = map_tensors(lambda x: next(rest).to(x.device), self.initial)


def _interleave(parts: list[Tensor]) -> Tensor:
    """States of all streams; process ``i % size`` has stream i."""
    return torch.stack(parts, dim=1).flatten(0, 1)


class RunStore:
    """The checkpoints of a run; only the leader writes them."""

    def __init__(self, job: Job, trainable: TrainableModel, carried: CarriedState):
        self.job, self.world, self.checkpoints = job, job.world, job.checkpoints
        self.trainable, self.carried = trainable, carried
        self.writer = trainable.parallel.writer(job.checkpoints)

    def save(self, progress: RunProgress) -> None:
        """Write a checkpoint and delete those that are no longer needed."""
        carried = {CARRIED: self.carried.gather()} if self.carried.streams else {}
        tensors = {**self.trainable.tensors(), **carried}
        if self.world.is_leader:
            self.job.check_folder()
        self.writer.save(progress, tensors, partial(self.prune, progress))

    def wait(self) -> None:
        """Wait until the last checkpoint is written."""
        self.writer.wait()

    def prune(self, progress: RunProgress) -> None:
        """Keep the last two checkpoints, those to be averaged, the best, and those for branches."""
        if not self.world.is_leader:
            return
        train, steps = self.job.recipe.train, self.checkpoints.steps()
        regular = train.regular(steps)[-train.average :]
        needed = (*steps[-2:], *regular, *train.kept(steps), progress.best_step)
        self.checkpoints.prune(needed)
        self.checkpoints.sweep()

    def restore(self) -> tuple[RunProgress, Precision, tuple[str, ...]] | None:
        """Load the last checkpoint, if there is one; also return the settings changed since."""
        steps = self.checkpoints.steps()
        if not steps:
            return None
        groups = (*self.trainable.groups, *((CARRIED,) if self.carried.streams else ()))
        share = slice(self.world.rank, None, self.world.size)  # that this process checks
        progress, stored = self.checkpoints.open(steps[-1], groups, share)
        where = str(self.checkpoints.place(steps[-1]))
        self.trainable.load(stored, where)
        if self.carried.streams:
            self.carried.load(stored[CARRIED].read_all(), f"{where}/{CARRIED}.safetensors")
        self.world.barrier()  # the files of all others are whole, too
        before, now = progress.settings, self.settings()
        self._check_split(before.get("data", ""), where)
        requested = self.job.recipe.train.precision
        precision = kept_precision(str(before["precision"]), requested, self.world.device)
        differences = tuple(
            f"{name} was {before[name]}, is {now[name]}"
            for name in now
            if name in before and before[name] != now[name]
        )
        return progress, precision, differences

    def _check_split(self, before: str, where: str) -> None:
        """Refuse changed data, of which examples that were trained on would be held out."""
        if not before.startswith(self.job.split_data):
            change = f"the training data was {before}, is {self.job.data}"
            advice = "other examples would be held out (data.dev.held_out); begin another run"
            raise BadInput(f"{where}: {change}: {advice}")

    def settings(self) -> dict[str, object]:
        """Settings that must be equal for a resumed run to be bit-exact."""
        device, distributed = self.world.device, self.job.recipe.distributed
        return {
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "world": f"any, {distributed.shards} slices" if distributed.exact else self.world.size,
            "kind": self.trainable.parallel.kind,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "compile": self.trainable.compiles,
            "data": self.job.data,
        }
