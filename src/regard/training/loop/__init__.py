"""The training loop: a generator of events that knows neither models nor tasks.

Each step draws its randomness from (seed, step, batch), so that it comes out the same whatever
happened before it in this process: that is why resuming is exact.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from math import isfinite
from time import monotonic
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.sampler import Sampler
from regard.data.sources import DropCounts
from regard.ground.batch import Batch, BatchLimits
from regard.ground.errors import BadInput
from regard.training import precision as precisions
from regard.training.checkpoint import (
    Checkpoints,
    RunProgress,
    load_optimiser,
    optimiser_tensors,
)
from regard.training.distributed import World
from regard.training.loop.events import (
    DevEvent,
    DevResult,
    EndEvent,
    Event,
    ReportEvent,
    SaveEvent,
    StartEvent,
)
from regard.training.loop.microbatch import EagerStep, GraphedStep, fixed_shape
from regard.training.loop.totals import RunningTotals
from regard.training.optim.optimiser import GraphedOptimiser, ModelOptimiser, MovingAverage
from regard.training.optim.schedule import schedule
from regard.training.precision import Precision
from regard.training.recipe import Recipe
from regard.weights.files import load_weights, weights_of


class LoopObjective(Protocol):
    """What the loop asks of an objective.

    One that is a sum of several, each a mean over things of its own, has a weight and a loss for
    each of them.
    """

    def length(self, example: Any) -> tuple[int, ...]: ...
    def weight(self, example: Any) -> float | np.ndarray: ...
    def collate(self, examples: Sequence[Any], limits: BatchLimits | None = None) -> Batch: ...
    def __call__(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]: ...


@dataclass
class Job:
    """Everything a run consists of. ``flops`` counts the operations of a list of examples."""

    recipe: Recipe
    model: nn.Module
    objective: LoopObjective
    sampler: Sampler
    judge: Callable[[nn.Module], DevResult]
    flops: Callable[[Sequence[Any]], float]
    checkpoints: Checkpoints
    world: World
    data: str = ""
    budget_seconds: float = float("inf")
    asked_to_stop: Callable[[], bool] = lambda: False


def train(job: Job, *, resume: bool = False) -> Iterator[Event]:
    """Run a job to its end, yielding what happens."""
    run = _Run(job)
    yield run.start(resume)
    if run.progress.step == 0:
        yield run.save()
    recipe = job.recipe.train
    reason = "patience" if run.out_of_patience() else ""
    reason = "steps" if run.progress.step >= recipe.steps else reason
    while not reason:
        run.step()
        step = run.progress.step
        reason, best = run.reason_to_end(), False
        if step % recipe.report_every == 0 or reason in ("steps", "time"):
            yield run.report()
        if step % recipe.evaluate_every == 0 or reason in ("steps", "time"):
            judged = run.judge()
            yield judged
            best = judged.best
            reason = reason or ("patience" if run.out_of_patience() else "")
        if step % recipe.checkpoint_every == 0 or reason or best:
            yield run.save()
    yield EndEvent(run.progress, reason)


class _Run:
    """The moving parts of a job."""

    def __init__(self, job: Job):
        self.job, self.recipe, self.world = job, job.recipe, job.world
        self.model = job.model.to(job.world.device)
        lazy = self.world.size == 1 and not self._fixed  # others need the same graph at each step
        self.updates = (
            GraphedOptimiser(self.model, self.recipe.optimiser)
            if self._captures
            else ModelOptimiser(self.model, self.recipe.optimiser, lazy=lazy)
        )
        self.weights = weights_of(self.model)
        ema = self.recipe.train.ema
        self.average = MovingAverage(self.weights, ema) if ema else None
        facts = self.recipe.optimiser
        self.factor = schedule(facts.schedule, facts.warmup, self.recipe.train.steps)
        self.progress = RunProgress()
        self.began = monotonic()

    def start(self, resume: bool) -> StartEvent:
        """Load the last checkpoint or begin anew; choose the precision; open the data."""
        differences: tuple[str, ...] = ()
        precision: Precision | None = None
        if resume:
            precision, differences = self._restore()
        if precision is None:
            self.probe_stream = replace(self.job.sampler, dropped=DropCounts()).batches()
            asked, device = self.recipe.train.precision, self.world.device
            precision = precisions.choose(asked, device, self._probe, self.job.budget_seconds)
            half = self.world.any_rank(self.world.is_leader and precision.kind == "bf16")
            precision = Precision("bf16" if half else "fp32", precision.why)
        self.precision = precision
        settings = {**self._settings(), "precision": precision.kind}
        self.progress = replace(self.progress, settings=settings)
        self.earlier = self.progress.seconds
        self.stream = self.job.sampler.batches(self.progress.cursor)
        self.wrapped = self.world.wrap(self.model)
        self.micro = self._micro()
        if resume and self.world.is_leader:
            self._prune()  # a kill may have come between a save and this
        self.sums, self.progress = self._resumed_sums(), replace(self.progress, unreported=None)
        return StartEvent(self.progress, precision, differences)

    def step(self) -> None:
        """One update of the weights."""
        number, accumulate = self.progress.step + 1, self.recipe.batches.accumulate
        drawn = list(islice(self.stream, accumulate))
        step = [[example for _, example in batch] for _, batch in drawn]
        every = [example for batch in step for example in batch]
        weight = np.array([self.job.objective.weight(example) for example in every]).sum(axis=0)
        mine = self.world.share(step)
        if not self.model.training:  # asked for it, a model walks through all its parts
            self.model.train()
        self.updates.wake(number)
        for turn, (slice_number, examples) in enumerate(mine):
            batch = self._collate(examples).to(self.world.device)
            seed_everything(self.recipe.train.seed, number, slice_number)
            with self.world.gradient_sync(self.wrapped, last=turn == len(mine) - 1):
                loss, nll = self.micro(batch, self.world.size / weight)
            self.sums.add(loss, nll)
        norm = self._update(number)
        self.sums.take_note(number, norm)
        lengths = list(map(self.job.objective.length, every))
        tokens = sum(map(sum, lengths))
        self.sums.weight = self.sums.weight + weight
        self.sums.tokens += tokens
        self.sums.room += len(lengths[0]) * self.recipe.batches.tokens * accumulate
        self.sums.steps += 1
        self.progress = replace(
            self.progress,
            step=number,
            cursor=drawn[-1][0],
            tokens=self.progress.tokens + tokens,
            flops=self.progress.flops + self.job.flops(every),
            seconds=self.earlier + monotonic() - self.began,
        )

    def reason_to_end(self) -> str:
        """Why this step is the last, if it is; all ranks agree."""
        if self.progress.step >= self.recipe.train.steps:
            return "steps"
        over = monotonic() - self.began > self.job.budget_seconds
        asked = self.job.asked_to_stop()
        if self.world.size > 1:
            over, asked = self.world.any_rank(over), self.world.any_rank(asked)
        return "asked" if asked else "time" if over else ""

    def report(self) -> ReportEvent:
        """The means since the last report; NaN ends the run here."""
        sums, taken = self.sums, monotonic() - self.sums.began
        means = self.world.all_reduce(sums.losses.clone()).cpu() / torch.from_numpy(sums.weight)
        loss, nll = means.sum(-1).tolist()
        norm, bad = sums.values.tolist()
        if bad or not isfinite(loss):
            raise BadInput(
                f"the loss is not a number at step {int(bad) or self.progress.step}; the last good "
                f"checkpoint is untouched. Try a lower optimiser.rate, a longer warmup, "
                f"optimiser.clip=1, or train.precision=fp32"
            )
        done = self.progress.step
        speed = taken / sums.steps
        left = min(
            speed * (self.recipe.train.steps - done),
            max(0.0, self.job.budget_seconds - (monotonic() - self.began)),
        )
        event = ReportEvent(
            self.progress,
            loss=loss,
            nll=nll,
            rate=self._rate(done),
            gradient=norm / sums.steps,
            tokens_per_second=sums.tokens / taken,
            seconds_left=left,
            fill=sums.tokens / sums.room,
        )
        self.sums = RunningTotals.of_nothing(self.world.device)
        return event

    def judge(self) -> DevEvent:
        """Ask the development set, with the averaged weights where there are some."""
        self._check_finite()
        self.model.eval()
        with self.kept_weights(), self.precision_context():
            verdict = self.job.judge(self.model)
        earlier, value = self.progress.best, verdict.value
        best = isfinite(value) and (earlier is None or value > earlier)
        if best:
            step = self.progress.step
            self.progress = replace(self.progress, best=value, best_step=step, stale=0)
        else:
            self.progress = replace(self.progress, stale=self.progress.stale + 1)
        self.sums.began = monotonic() if not self.sums.steps else self.sums.began
        return DevEvent(self.progress, verdict, best)

    def out_of_patience(self) -> bool:
        """Whether the development set has not improved for too long."""
        patience = self.recipe.train.patience
        return bool(patience) and self.progress.stale >= patience

    def save(self) -> SaveEvent:
        """Write a checkpoint and forget those nobody needs."""
        self._check_finite()
        state = replace(self.progress, unreported=self.sums.to_store(self.world))
        if self.world.is_leader:
            tensors = {
                "model": self.weights,
                "optimiser": optimiser_tensors(self.model, self.updates.optimiser),
            }
            if self.average is not None:
                tensors["average"] = self.average.weights
            self.job.checkpoints.save(state, tensors)
            self._prune()
        self.world.barrier()
        return SaveEvent(self.progress)

    def _prune(self) -> None:
        """Keep the last two checkpoints, those to be averaged and the best; sweep the rest away."""
        places = self.job.checkpoints
        steps = places.steps()
        regular = self.recipe.train.regular(steps)[-self.recipe.train.average :]
        places.prune([*steps[-2:], *regular, self.progress.best_step])
        places.sweep()

    @contextmanager
    def kept_weights(self) -> Iterator[None]:
        """The moving average in the place of the weights, for a while."""
        if self.average is None:
            yield
            return
        own = {name: tensor.clone() for name, tensor in self.weights.items()}
        load_weights(self.model, self.average.weights, "average")
        try:
            yield
        finally:
            load_weights(self.model, own, "weights")

    def _restore(self) -> tuple[Precision | None, tuple[str, ...]]:
        steps = self.job.checkpoints.steps()
        if not steps:
            return None, ()
        groups = ("model", "optimiser", *(() if self.average is None else ("average",)))
        self.progress, tensors = self.job.checkpoints.load(steps[-1], only=groups)
        where = str(self.job.checkpoints.place(steps[-1]))
        load_weights(self.model, tensors["model"], where)
        moments = f"{where}/optimiser.safetensors"
        load_optimiser(self.model, self.updates.optimiser, tensors["optimiser"], moments)
        if self.average is not None:
            self.average.weights = {
                name: tensor.to(self.world.device) for name, tensor in tensors["average"].items()
            }
        before = self.progress.settings
        kind, advice = before["precision"], precisions.RESUME
        precision = precisions.as_asked(kind, self.world.device, "as before", advice)
        now = self._settings()
        return precision, tuple(
            f"{name} was {before.get(name)}, is {now[name]}"
            for name in now
            if before.get(name) != now[name]
        )

    def _settings(self) -> dict[str, Any]:
        """What must stay the same for a resumed run to be the same, bit for bit."""
        device = self.world.device
        return {
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "world": self.world.size,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "compile": self._compiles(),
            "data": self.job.data,
        }

    def _compiles(self) -> bool:
        return self._fixed and self.recipe.train.compile and not self.recipe.batches.rung

    @property
    def _fixed(self) -> bool:
        """Whether all batches have one shape: on CUDA, unless the model is an eager one."""
        return self.world.device.type == "cuda" and not getattr(self.model, "eager", False)

    @property
    def _captures(self) -> bool:
        """Whether steps are replayed: where shapes are fixed, unless something forbids it."""
        return self._fixed and self.world.size == 1 and not self.recipe.train.deterministic

    def _micro(self) -> EagerStep | GraphedStep:
        """Compiled on CUDA, and captured."""
        forward = self._forward
        if self._compiles():
            forward = torch.compile(forward)
        plain = EagerStep(forward, self.precision_context)
        return GraphedStep(plain, self.model) if self._captures else plain

    def _forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.job.objective(self.wrapped, batch)

    def _collate(self, examples: Sequence[Any]) -> Batch:
        """Free shapes on a CPU, one fixed shape on CUDA."""
        if not self._fixed:
            return self.job.objective.collate(examples)
        limits = self.recipe.batches
        lengths = map(self.job.objective.length, examples)
        shape = fixed_shape(limits, lengths, self.world.splits(limits.accumulate))
        return self.job.objective.collate(examples, shape)

    def precision_context(self) -> AbstractContextManager:
        """Where forward passes of this run happen."""
        return self.precision.context(self.world.device)

    def _probe(self, precision: Precision) -> None:
        """A step without an update, on a batch of its own: new shapes cost what they cost."""
        self.precision = precision
        _, drawn = next(self.probe_stream)
        batch = self.job.objective.collate([example for _, example in drawn])
        self.model.train()
        self.wrapped = self.model
        EagerStep(self._forward, self.precision_context)(batch, 1.0)
        self.model.zero_grad()

    def _update(self, number: int) -> Tensor:
        norm = self.updates.apply(self.factor(number))
        self.updates.forget()
        if self.average is not None:
            self.average.update(self.weights, number)
        return norm

    def _rate(self, step: int) -> float:
        return self.recipe.optimiser.rate * self.factor(step)

    def _check_finite(self) -> None:
        if self.sums.steps and self.world.any_rank(bool(self.sums.values[1])):
            self.report()

    def _resumed_sums(self) -> RunningTotals:
        stored, step = self.progress.unreported, self.progress.step
        if stored is None:
            return RunningTotals.of_nothing(self.world.device)
        return RunningTotals.stored(stored, self.world, str(self.job.checkpoints.place(step)))


def seed_everything(*key: int) -> None:
    """Seed torch's generators from a key alone."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    torch.manual_seed(int.from_bytes(digest, "little") >> 1)
