"""The trainer: the actions of a run at each step, report, evaluation and checkpoint.

The loop that calls it is ``regard.training.loop.train``. A step reads ``batches.accumulate``
batches; a *slice* is a batch, or the rows of one, that this process runs forward and backward.
Random numbers depend on (seed, step, slice) only and not on earlier steps, so resuming is exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from time import monotonic
from typing import ClassVar, cast

import torch
from torch import Tensor

from regard.core.errors import FAILED, BadInput
from regard.training.checkpoint import PendingTotals, RunProgress
from regard.training.distributed import World
from regard.training.loop.events import (
    DevEvent,
    DevResult,
    Job,
    ReportEvent,
    SaveEvent,
    StartEvent,
    WatchEvent,
)
from regard.training.loop.run_store import CarriedState, RunStore
from regard.training.loop.steps import StepRows, read_steps
from regard.training.loop.trainable import TrainableModel, chosen_precision, seed_everything

EXPLODED = 50  # times the first loss, or 1 if that is lower: training has diverged
EARLY = ("", "time", "request")  # reasons to end before the last step; the last one counts
REMEDIES = "a lower optimiser.rate, a longer warmup, optimiser.clip=1"


class Diverged(BadInput):
    """Error of a run whose loss is not finite or has exploded; ``progress`` is where it ended."""

    code: ClassVar[int] = FAILED

    def __init__(self, message: str, progress: RunProgress):
        super().__init__(message)
        self.progress = progress


@dataclass
class RunningTotals:
    """Sums on the device; reading them synchronises with the device."""

    losses: Tensor  # losses and likelihoods, of each part of the objective
    values: Tensor  # gradient norm, first bad step
    weight: Tensor
    tokens: int = 0
    steps: int = 0
    room: int = 0
    began: float = field(default_factory=monotonic)

    @classmethod
    def zeros(cls, device: torch.device) -> "RunningTotals":
        """Totals before the first step: zeros."""
        losses = torch.zeros(2, 1, dtype=torch.float64, device=device)
        return cls(losses, losses[:, 0].clone(), torch.zeros(1, dtype=torch.float64))

    @classmethod
    def stored(cls, pending: PendingTotals, world: World, where: str) -> "RunningTotals":
        """The totals of a checkpoint; for another number of ranks, the leader gets the sum."""
        try:
            losses = torch.tensor(pending.losses, dtype=torch.float64)
            values = torch.tensor(pending.values, dtype=torch.float64, device=world.device)
            weight = torch.tensor(pending.weight, dtype=torch.float64)
            _, kinds, parts = losses.shape
            if (kinds, len(values)) != (2, 2) or len(weight) != parts:
                raise ValueError
        except ValueError:
            raise BadInput(
                f"{where}: damaged (progress.unreported: losses, values or weight of a wrong shape)"
            ) from None
        if len(losses) == world.size:
            own = losses[world.rank]
        else:
            own = losses.sum(0) if world.is_leader else torch.zeros_like(losses[0])
        began = monotonic() - pending.seconds
        return cls(
            own.to(world.device), values, weight, pending.tokens, pending.steps, pending.room, began
        )

    def add(self, loss: Tensor, nll: Tensor) -> None:
        """Add the sums of a batch."""
        self.losses = self.losses + torch.stack([loss, nll]).view(2, -1)

    def add_norm(self, number: int, norm: Tensor) -> None:
        """Add the gradient norm; note the first step with a non-finite value, without a sync."""
        bad = ~torch.isfinite(norm + self.losses[0].sum())
        self.values[0] += norm
        first = bad & (self.values[1] == 0)
        self.values[1] = torch.where(first, float(number), self.values[1])

    def count(self, weight: Tensor, tokens: int, room: int) -> None:
        """Count a step: its weight, its tokens, and the capacity of its batches in tokens."""
        self.weight = self.weight.to(weight.device) + weight
        self.tokens += tokens
        self.room += room
        self.steps += 1

    def means(self, world: World) -> tuple[float, float]:
        """Mean loss and negative log-likelihood over all processes, summed over objectives.

        A part of the objective that had no targets adds 0.
        """
        sums = world.all_reduce(self.losses.clone()).cpu()
        loss, nll = share_of(sums, self.weight.cpu()).sum(-1).tolist()
        return loss, nll

    def absent(self, names: Sequence[str]) -> tuple[str, ...]:
        """The parts of the objective, of these names, that had no targets."""
        weights = self.weight.reshape(-1).tolist()
        return tuple(name for name, weight in zip(names, weights, strict=True) if not weight)

    def to_store(self, world: World) -> PendingTotals | None:
        """The sums of every rank for a checkpoint; None if there are no steps since the last
        report.
        """
        if not self.steps:
            return None
        each = self.losses.new_zeros(world.size, *self.losses.shape)
        each[world.rank] = self.losses
        return PendingTotals(
            losses=world.all_reduce(each).tolist(),
            values=self.values.tolist(),
            weight=self.weight.tolist(),
            tokens=self.tokens,
            steps=self.steps,
            room=self.room,
            seconds=monotonic() - self.began,
        )


def share_of(amounts: Tensor | float, weight: Tensor) -> Tensor:
    """Amounts divided by the weight of each part of an objective; 0 for a part without targets."""
    return torch.where(weight > 0, amounts / weight, 0.0)


class Trainer:
    """The state of a run: model and optimiser, data, progress, totals since the last report.

    ``rate`` is the learning rate of the last step.
    """

    def __init__(self, job: Job):
        self.job, self.recipe, self.world = job, job.recipe, job.world
        self.trainable = TrainableModel(job)
        self.carried = CarriedState(job, self.trainable.parallel.whole_tensor)
        self.store = RunStore(job, self.trainable, self.carried)
        self.progress, self.rate = RunProgress(), 0.0
        self.began = monotonic()

    def start(self, resume: bool) -> StartEvent:
        """Load the last checkpoint or start anew; choose the precision; open the data."""
        restored = self.store.restore() if resume else None
        if restored is None:
            own = self.trainable.parallel.precision
            restored = self.progress, own or chosen_precision(self.recipe, self.world), ()
        self.progress, precision, differences = restored
        if self.trainable.average is not None:
            self.trainable.average.since = self.progress.averaged_since
        self.trainable.open(precision)
        before, schedule = self.progress.settings, self._schedule(self.progress.settings)
        settings = {**self.store.settings(), "precision": precision.kind, **schedule}
        self.progress = replace(self.progress, settings=settings)
        self.seconds_before = self.progress.seconds
        self.steps: Iterator[StepRows] = read_steps(self.job, self.progress.cursor)
        if resume:
            self.store.prune(self.progress)  # if the run was killed before it could
        self.totals = self._resumed_totals()
        self.progress = replace(self.progress, unreported=None)
        long_texts = self.job.long_texts and f"long texts: {self.job.long_texts}"
        warmup = self.recipe.optimiser.remark(self.recipe.train.steps)
        remarks = (*filter(None, [long_texts, warmup]), *self.job.remarks)
        if self.progress.step:
            remarks = _changed_length(before, settings)
        return StartEvent(self.progress, precision, differences, remarks)

    def _schedule(self, before: Mapping[str, object]) -> dict[str, object]:
        """Settings of the learning rate; a run that is resumed keeps the steps of its warm-up."""
        config, steps = self.recipe.optimiser, self.recipe.train.steps
        chosen, warmup = str(config.warmup), config.warmup_steps(steps)
        if before.get("warmup") == chosen:
            warmup = cast(int, before["warmup_steps"])
        self.trainable.plan_rate(warmup)
        return {"steps": steps, "warmup": chosen, "warmup_steps": warmup}

    def step(self) -> None:
        """Run one optimiser step: forward and backward over all slices, then an update."""
        number, rows = self.progress.step + 1, next(self.steps)
        weight = self._total_weight(rows)
        scale = share_of(self.trainable.parallel.gradient_scale, weight)
        self.trainable.start_step(number, self.progress.cursor.epoch)
        for part in rows.slices:
            if part.begins:
                self.carried.restart()
            seed_everything(self.recipe.train.seed, number, part.number)
            last = part is rows.slices[-1]
            result = self.trainable.run_slice(part.examples, scale, self.carried.tree, last=last)
            self.carried.update(result.state)
            self.totals.add(result.loss, result.nll)
        share = self.job.sampler.rate_share(rows.sums.mean_length)
        self.rate = share * self.trainable.rate(number)
        self.totals.add_norm(number, self.trainable.update(number, share))
        tokens = rows.sums.tokens
        capacity = rows.sums.sides * self.recipe.batches.tokens * self.recipe.batches.accumulate
        self.totals.count(weight, tokens, capacity)
        if self.progress.first_loss is None and bool((weight > 0).all()):
            loss, _ = self.totals.means(self.world)
            self.progress = replace(self.progress, first_loss=loss if isfinite(loss) else None)
        self.progress = replace(
            self.progress,
            step=number,
            cursor=rows.cursor,
            tokens=self.progress.tokens + tokens,
            corpora={
                name: self.progress.corpora.get(name, 0) + count
                for name, count in rows.sums.corpora.items()
            },
            flops=self.progress.flops + rows.sums.flops,
            seconds=self.seconds_before + monotonic() - self.began,
        )

    def _total_weight(self, rows: StepRows) -> Tensor:
        """Weight of a step's targets over all processes; summed if each knows only its own rows."""
        own = torch.as_tensor(rows.weight, dtype=torch.float64)
        if not rows.partial or self.world.size == 1:
            return own
        return self.world.all_reduce(own.to(self.world.device))

    def reason_to_end(self) -> str:
        """Reason to end the run after this step ("steps", "request", "time"); "": it continues."""
        if self.progress.step >= self.recipe.train.steps:
            return "steps"
        over = monotonic() - self.began > self.job.budget_seconds
        own = "request" if self.job.stop_requested() else "time" if over else ""
        return EARLY[self.world.highest(EARLY.index(own))]  # all processes must agree

    def report(self) -> ReportEvent:
        """Means since the last report; a loss that is not finite or exploded raises an error."""
        totals, elapsed = self.totals, monotonic() - self.totals.began
        loss, nll = totals.means(self.world)
        norm, bad = totals.values.tolist()
        if bad or not isfinite(loss):
            raise Diverged(
                f"the loss is not a number at step {int(bad) or self.progress.step}; the last good "
                f"checkpoint is untouched. Try {REMEDIES}, or train.precision=fp32",
                self.progress,
            )
        if self._exploded(loss):
            first = self.progress.first_loss
            raise Diverged(
                f"the loss is {loss:.3g} at step {self.progress.step} and was {first:.3g} at the "
                f"first step: training diverges; the last good checkpoint is untouched. "
                f"Try {REMEDIES}",
                self.progress,
            )
        done = self.progress.step
        left = min(
            elapsed / totals.steps * (self.recipe.train.steps - done),
            max(0.0, self.job.budget_seconds - (monotonic() - self.began)),
        )
        event = ReportEvent(
            self.progress,
            loss=loss,
            nll=nll,
            rate=self.rate,
            gradient=norm / totals.steps,
            tokens_per_second=totals.tokens / elapsed,
            seconds_left=left,
            fill=totals.tokens / totals.room,
            counted=self.job.sampler.dataset.counted,
            absent=totals.absent(self.job.objective.parts),
        )
        self.totals = RunningTotals.zeros(self.world.device)
        if self.progress.first_loss is None:  # a part of the objective never had a target
            self.progress = replace(self.progress, first_loss=loss)
        return event

    def evaluate(self) -> DevEvent:
        """Evaluate on the development set, with averaged weights if the recipe averages."""
        self._check_finite()
        result = self.dev_result()
        earlier, value, loss = self.progress.best, result.value, result.figures.get("loss")
        sensible = isfinite(value) and not self._exploded(loss or 0.0)
        better = sensible and (earlier is None or value > earlier)
        best = better or (sensible and value == earlier and self._lower_loss(loss))
        self._judge_average(value)
        self.progress = replace(self.progress, stale=0 if better else self.progress.stale + 1)
        if best:
            step, known = self.progress.step, loss if loss is not None and isfinite(loss) else None
            self.progress = replace(self.progress, best=value, best_step=step, best_loss=known)
        self.totals.began = monotonic() if not self.totals.steps else self.totals.began
        return DevEvent(self.progress, result, best)

    def dev_result(self) -> DevResult:
        """Result of the current weights on the development set."""
        with self.trainable.evaluated():
            return self.job.evaluate(self.trainable.model)

    def watch(self, dev: DevResult) -> Iterator[WatchEvent]:
        """Reports on the evaluated model; the leader makes them."""
        for name, report in self.job.watches.items():
            began = monotonic()
            with self.trainable.evaluated(exact=True):
                figures = self.world.from_leader(report)
            at = {"step": self.progress.step, "loss": dev.figures["loss"]}
            record = {**at, "seconds": round(monotonic() - began, 2), **figures}
            self.totals.began = monotonic() if not self.totals.steps else self.totals.began
            yield WatchEvent(self.progress, name, record)

    def _lower_loss(self, loss: float | None) -> bool:
        """Whether a dev loss is below the loss of the best weights, if both are known."""
        lowest = self.progress.best_loss
        return loss is not None and lowest is not None and loss < lowest

    def _judge_average(self, value: float) -> None:
        """Report the result on the development set to the average, which may begin then."""
        if (average := self.trainable.average) is None:
            return
        values = [*self.progress.dev_values, value]
        average.judge(values, self.progress.step)
        self.progress = replace(self.progress, dev_values=values, averaged_since=average.since)

    def out_of_patience(self) -> bool:
        """Whether the dev metric has not improved in ``train.patience`` evaluations."""
        patience = self.recipe.train.patience
        return bool(patience) and self.progress.stale >= patience

    def save(self) -> SaveEvent:
        """Write a checkpoint and delete those that are no longer needed."""
        self._check_finite()
        unreported = self.totals.to_store(self.world)
        self.store.save(replace(self.progress, unreported=unreported))
        return SaveEvent(self.progress)

    def _check_finite(self) -> None:
        """Raise the error of ``report`` if a loss since the last report is not finite, or too high.

        All processes take part.
        """
        if not self.totals.steps:
            return
        loss, _ = self.totals.means(self.world)
        if self.world.any_rank(bool(self.totals.values[1])) or self._exploded(loss):
            self.report()

    def _exploded(self, loss: float) -> bool:
        """Whether a loss is far higher than the first one."""
        first = self.progress.first_loss
        return first is not None and loss > EXPLODED * max(first, 1.0)

    def _resumed_totals(self) -> RunningTotals:
        """The totals of unreported steps in a checkpoint, or zeros."""
        stored, step = self.progress.unreported, self.progress.step
        if stored is None:
            return RunningTotals.zeros(self.world.device)
        return RunningTotals.stored(stored, self.world, str(self.job.checkpoints.place(step)))


def _changed_length(before: Mapping[str, object], now: Mapping[str, object]) -> tuple[str, ...]:
    """Remark on a run that is resumed with another number of steps."""
    if before.get("steps", now["steps"]) == now["steps"]:
        return ()
    warmup = f"the warm-up of the learning rate has {now['warmup_steps']:,}"
    return (f"train.steps was {before['steps']:,}, is {now['steps']:,}; {warmup} steps",)
