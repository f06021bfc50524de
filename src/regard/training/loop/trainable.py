"""A model with its optimiser: how a slice of a step is run, and how weights are updated."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from regard.core.batch import Batch
from regard.core.device import seed_generators
from regard.core.errors import BadInput
from regard.training import precision as precisions
from regard.training.checkpoint import OPTIMISER, Tensors, load_optimiser, optimiser_tensors
from regard.training.distributed import World
from regard.training.loop.events import Job
from regard.training.loop.microbatch import (
    EagerStep,
    GraphedStep,
    Scale,
    StepResult,
    fixed_shape,
    rectangle,
)
from regard.training.optimiser import SCHEDULES, GraphedOptimiser, ModelOptimiser
from regard.training.parallel import ExactSum, Parallel, decided_sharing, recompute_blocks
from regard.training.precision import Precision
from regard.training.recipe import Recipe
from regard.training.recipe.tables import DistributedConfig
from regard.weights.files import load_weights, weights_of
from regard.weights.tensor_pieces import TensorPieces

MOST_RECTANGLES = 128  # shapes of which steps are captured


class TrainableModel:
    """The model of a job on its device. It runs slices once its precision is known: ``open``."""

    def __init__(self, job: Job):
        self.job, self.recipe, self.world = job, job.recipe, job.world
        self.model = self.wrapped = job.model
        distributed = self.recipe.distributed
        self.parallel = parallel_of(job)
        job.divided = self.parallel.sharded
        if distributed.checkpoint_blocks:
            recompute_blocks(self.model)
        self.parallel.place(self.model)
        for teacher in job.objective.teachers:
            self.parallel.place(teacher, trained=False)
        job.objective.to(job.world.device)
        config = self.recipe.optimiser
        alone = self.world.size == 1 and not (self.parallel.sharded or distributed.exact)
        lazy = alone and not self.fixed  # others need the same graph at each step
        self.optimiser = (
            GraphedOptimiser(self.model, config)
            if self.captures
            else ModelOptimiser(self.model, config, lazy=lazy)
        )
        self.weights = weights_of(self.model)
        self.own = {name: self.parallel.local(tensor) for name, tensor in self.weights.items()}
        self.average = average_of(self.recipe, self.own)
        self.plan_rate(config.warmup_steps(self.recipe.train.steps))

    def plan_rate(self, warmup: int) -> None:
        """Set the schedule of the learning rate, with this number of steps of warm-up."""
        build = SCHEDULES[self.recipe.optimiser.schedule]
        self.factor = build(warmup, self.recipe.train.steps)

    @property
    def fixed(self) -> bool:
        """Whether shapes of batches are fixed: on CUDA, unless the model is eager.

        Rectangular batches have fixed shapes only if their steps are replayed.
        """
        free = self.job.eager or (self.job.in_rectangles and not self._replayable)
        return self.world.device.type == "cuda" and not free

    @property
    def compiles(self) -> bool:
        """Whether the forward pass is compiled: if there is one shape of batch."""
        several = self.job.in_rectangles or self.recipe.batches.pad_to_multiple
        return self.fixed and self.recipe.train.compile and not several

    @property
    def captures(self) -> bool:
        """Whether steps are captured as CUDA graphs: if shapes are fixed."""
        return self.fixed and self._replayable

    @property
    def _replayable(self) -> bool:
        recipe, distributed = self.recipe, self.recipe.distributed
        eager = self.parallel.sharded or distributed.checkpoint_blocks or distributed.exact
        alone = self.world.size == 1 and not eager
        return alone and recipe.optimiser.has_moments and not recipe.train.deterministic

    def open(self, precision: Precision) -> None:
        """Prepare for steps in this precision."""
        self.precision = precision
        self.wrapped = self.parallel.wrap(self.model)
        forward = torch.compile(self._forward) if self.compiles else self._forward
        eager = EagerStep(forward, self.context)
        few = {"capture_at": 2, "most_graphs": MOST_RECTANGLES} if self.job.in_rectangles else {}
        self.run_batch = GraphedStep(eager, self.model, **few) if self.captures else eager

    def start_step(self, number: int, epoch: int) -> None:
        """Set the model to training mode, and unfreeze layers that are due."""
        if not self.model.training:  # train() walks through all modules
            self.model.train()
        self.optimiser.unfreeze(number, epoch)

    def run_slice(
        self, examples: Sequence[tuple], scale: Scale | Tensor, state: object, *, last: bool
    ) -> StepResult:
        """Add the gradient of ``scale`` times the loss; the ``last`` slice sums it over ranks."""
        batch = replace(self._collate(examples).to(self.world.device), state=state)
        self.world.begin_turn()
        synchronised = self.parallel.gradient_sync(self.wrapped, last=last)
        with synchronised, self.precision.tf32_beside_bf16():
            return self.run_batch(batch, scale)

    def update(self, number: int, share: float = 1.0) -> Tensor:
        """Change the weights at the end of a step, at a ``share`` of its learning rate.

        Returns the norm of the gradient before clipping.
        """
        self.parallel.await_copies()
        norm = self.optimiser.step(share * self.factor(number))
        self.optimiser.zero_grad()
        if self.average is not None:
            self.average.update(self.own, number)
        return self.parallel.whole_tensor(norm)

    def rate(self, step: int) -> float:
        """The learning rate of a step by the schedule."""
        return self.recipe.optimiser.rate * self.factor(step)

    def context(self) -> AbstractContextManager:
        """Context of forward passes: autocast, if the precision is bf16."""
        return self.precision.context(self.world.device)

    @contextmanager
    def evaluated(self, *, exact: bool = False) -> Iterator[None]:
        """Evaluation mode for a block, with averaged weights if there are any.

        ``exact``: in the precision of the weights.
        """
        self.model.eval()
        own = {}
        if self.average is not None:
            self.parallel.await_copies()
            own = {name: tensor.clone() for name, tensor in self.own.items()}
            self._set_weights(self.average.weights)
        try:
            whole = self.parallel.whole(self.model, *self.job.objective.teachers)
            with whole, nullcontext() if exact else self.context():
                yield
        finally:
            if own:
                self._set_weights(own)

    @torch.no_grad()
    def _set_weights(self, own: "Weights") -> None:
        """Copy the parts of weights that this process has into the model."""
        for name, tensor in self.own.items():
            tensor.copy_(own[name])

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the files of a checkpoint that hold its tensors."""
        return ("model", OPTIMISER, *(() if self.average is None else ("average",)))

    def tensors(self) -> Tensors:
        """Weights, optimiser moments and averaged weights, as stored in a checkpoint."""
        moments = optimiser_tensors(self.model, self.optimiser.optimiser)
        learnt = dict(self.model.named_parameters())
        # Forward passes change buffers, such as running means, while a checkpoint is written.
        weights = {name: x if name in learnt else x.clone() for name, x in self.weights.items()}
        tensors = {"model": weights, OPTIMISER: moments}
        if self.average is None:
            return tensors
        averaged = self.average.weights.items()
        like, weights = self.parallel.like, self.weights
        return {**tensors, "average": {name: like(own, weights[name]) for name, own in averaged}}

    def load(self, groups: Mapping[str, TensorPieces], where: str) -> None:
        """Load the tensors of a checkpoint."""
        tensors = {name: self.parallel.read(groups[name], self.weights) for name in self.groups}
        load_weights(self.model, tensors["model"], where)
        moments = f"{where}/{OPTIMISER}.safetensors"
        load_optimiser(self.model, self.optimiser.optimiser, tensors[OPTIMISER], moments)
        if self.average is not None:
            self.average.weights = {
                name: self.parallel.local(tensor).to(self.world.device)
                for name, tensor in tensors["average"].items()
            }

    def _forward(self, batch: Batch) -> tuple[Tensor, ...]:
        return self.job.objective(self.wrapped, batch)

    def _collate(self, examples: Sequence[tuple]) -> Batch:
        """Collate a batch: free shapes on a CPU; on CUDA one fixed shape, or a few rectangles.

        Chunks of streams are rectangles with any limits, and are not padded.
        """
        objective, limits = self.job.objective, self.recipe.batches
        if not self.fixed:
            return objective.collate(examples)
        splits = self.job.sampler.splits(limits.accumulate, self.job.processes)
        if self.job.in_rectangles:
            return objective.collate(examples, rectangle(limits, splits))
        lengths = map(objective.length, examples)
        return objective.collate(examples, fixed_shape(limits, lengths, splits))


def parallel_of(job: Job) -> Parallel:
    """How the processes of a job share its model."""
    world, memory = job.world, None
    if world.device.type == "cuda":
        memory = torch.cuda.get_device_properties(world.device).total_memory
    config = sharing_of(job, world.size, memory)
    if config.exact:
        return ExactSum(world)
    if not config.sharded:
        return Parallel(world)
    from regard.training.sharding import OneShard, Shards  # what they import takes seconds

    return OneShard(world) if world.size == 1 else Shards(config, world, precision_of_shards(job))


def sharing_of(job: Job, count: int, memory: float | None) -> DistributedConfig:
    """How ``count`` processes, each with a GPU of this ``memory``, share the model of a job."""
    config = job.recipe.distributed
    if config.exact and job.sampler.streams:
        raise BadInput("distributed.exact cannot be used with streams, whose rows have states")
    job.sampler.splits(job.recipe.batches.accumulate, count)  # streams may not be divisible
    return decided_sharing(config, job.model, job.recipe.optimiser, count, memory)


def precision_of_shards(job: Job) -> Precision:
    """The precision of weights that are gathered from shards: known before the first step."""
    steps = job.checkpoints.steps()
    if not steps:
        return chosen_precision(job.recipe, job.world)
    kind = str(job.checkpoints.progress(steps[-1]).settings["precision"])
    return precisions.kept_precision(kind, job.recipe.train.precision, job.world.device)


def chosen_precision(recipe: Recipe, world: World) -> Precision:
    """The precision of a new run; all processes use the leader's choice."""
    chosen = precisions.choose(recipe.train.precision, world.device)
    half = world.any_rank(world.is_leader and chosen.is_bf16)
    return Precision("bf16" if half else "fp32", chosen.why)


def seed_everything(*key: int) -> None:
    """Seed torch's generators from a key alone."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    seed_generators(int.from_bytes(digest, "little") >> 1)


Weights = dict[str, Tensor]


# Averages of weights, with which a model is evaluated and kept instead of those of the last step.
# Triggered averaging (NT-ASGD: Merity et al., 2017, arXiv:1708.02182, algorithm 1) begins once the
# development set stops improving.
class MovingAverage:
    """Exponential moving average of weights: average ← decay·average + (1 - decay)·weights.

    The decay is at most (1 + step) / (10 + step), so that initial weights have little influence.
    """

    since = 0  # the step after which weights are averaged; always

    def __init__(self, weights: Weights, decay: float):
        self.decay = decay
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}

    def update(self, weights: Weights, step: int) -> None:
        """Update the average after a step."""
        _mix(self.weights, weights, 1 - min(self.decay, (1 + step) / (10 + step)))

    def judge(self, values: Sequence[float], step: int) -> None:
        """Do nothing: this average does not depend on the development set."""


class TriggeredAverage:
    """Mean of the weights after each step from ``since`` on; before that, the current weights.

    Averaging begins after an evaluation that is worse than the best one more than ``interval``
    evaluations before it.
    """

    def __init__(self, weights: Weights, interval: int):
        self.interval, self.since = interval, 0
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}

    def update(self, weights: Weights, step: int) -> None:
        """Update the average after a step."""
        _mix(self.weights, weights, 1 / (step - self.since) if self.since else 1.0)

    def judge(self, values: Sequence[float], step: int) -> None:
        """Begin to average if the values of all evaluations (higher is better) stop improving."""
        *earlier, last = values
        before = earlier[: -self.interval]
        if not self.since and before and last < max(before):
            self.since = step


Average = MovingAverage | TriggeredAverage


def average_of(recipe: Recipe, weights: Weights) -> Average | None:
    """Average of weights that a recipe configures; None: none."""
    if interval := recipe.optimiser.trigger:
        return TriggeredAverage(weights, interval)
    return MovingAverage(weights, recipe.train.ema) if recipe.train.ema else None


@torch.no_grad()
def _mix(averages: Weights, weights: Weights, share: float) -> None:
    torch._foreach_lerp_([averages[name] for name in weights], list(weights.values()), share)
