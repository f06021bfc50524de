"""Dry runs: sizes of the data and of the model, and an estimate of the time; nothing is kept."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple, cast

import numpy as np
from torch import nn

from regard.data.batches.sampler import BatchSampler
from regard.data.batches.training_data import held_out_indices
from regard.data.data_facts import DataFacts, describe_sets
from regard.data.readers.fields import DropCounts
from regard.models.paper import count_parameters
from regard.tasks.run_paths import STDIN_COPY
from regard.training.checkpoint import Checkpoints, RunProgress, Tensors
from regard.training.loop import Job, train
from regard.training.loop.events import Event, ReportEvent, StartEvent
from regard.training.loop.trainable import sharing_of
from regard.training.memory_estimate import (
    MemoryEstimate,
    StepShape,
    estimate_memory,
    has_uncounted_layers,
    memory_of,
)
from regard.training.parallel import blocks_of
from regard.training.precision import Precision
from regard.training.recipe import task_of
from regard.training.recipe.tables import DistributedConfig
from regard.training.run import Run

COUNTING = 20.0  # seconds in which an epoch is counted; beyond them it is estimated
MOST, ENOUGH = 12, 10.0  # steps that are timed, and seconds after which no other is
NEVER = 1 << 62


class EpochSize(NamedTuple):
    """Batches and tokens of an epoch; ``estimated`` if it was not read completely."""

    batches: int
    tokens: int
    estimated: bool = False


@dataclass(frozen=True)
class DryRun:
    """Sizes of a run; ``seconds`` are the times of its first steps.

    ``remarks`` are about weights that were copied, ``long_texts`` about texts longer than a row.
    """

    sizes: dict[str, int]
    dropped: DropCounts
    epoch: EpochSize
    vocabulary: tuple[int, ...]
    labels: int
    parameters: int
    trained: int
    steps: int
    accumulate: int
    precision: Precision
    seconds: Sequence[float]
    data: DataFacts
    remarks: tuple[str, ...] = ()
    long_texts: str = ""

    @property
    def epochs(self) -> float:
        """Number of passes over the training data."""
        return self.steps * self.accumulate / self.epoch.batches

    @property
    def tokens(self) -> int:
        """Number of tokens of all steps."""
        return round(self.epochs * self.epoch.tokens)

    @property
    def step(self) -> float:
        """The median time of a step in seconds, without the first, which includes set-up."""
        return median(self.seconds[1:] or self.seconds)

    @property
    def estimate(self) -> float:
        """Seconds of all steps, without evaluation and checkpoints."""
        return self.seconds[0] + self.step * (self.steps - 1)


def estimate_run(run: Run, data: Path, skip_bad: bool = False) -> DryRun:
    """Describe the data of a prepared run, read an epoch and time a few steps."""
    job, recipe = run.job, run.job.recipe
    epoch = count_epoch(job.sampler)
    precision, seconds = time_steps(job)
    return DryRun(
        run.sizes,
        run.dropped,
        epoch,
        tuple(map(len, run.tokenizer.vocabularies)),
        0 if run.labels is None else len(run.labels.classes),
        count_parameters(job.model),
        sum(parameter.numel() for parameter in job.model.parameters() if parameter.requires_grad),
        recipe.train.steps,
        recipe.batches.accumulate,
        precision,
        seconds,
        describe_data(run, data, skip_bad),
        job.remarks,
        job.long_texts,
    )


class RankEstimate(NamedTuple):
    """Memory and operations of a step of one process, and how processes share the model.

    ``uncounted``: the model has layers whose activations are not in the estimate.
    """

    memory: MemoryEstimate
    config: DistributedConfig
    flops: float
    uncounted: bool = False


def estimate_rank(job: Job, ranks: int, gpu: str | None) -> RankEstimate:
    """Estimate a step of one of several processes of a job in bf16."""
    recipe, objective = job.recipe, job.objective
    limits, memory = recipe.batches, None if gpu is None else memory_of(gpu)
    config = sharing_of(job, ranks, memory)
    if ranks == 1:  # nothing is divided
        config = config.model_copy(update={"kind": "ddp"})
    examples = next(job.sampler.uncounted().batches())[1].read(slice(None))
    batch = objective.collate(examples)
    tokens = sum(sum(objective.length(example)) for example in examples)
    targets = max((len(tensor) for tensor in batch.targets.values()), default=0)
    of_blocks = {module for block in blocks_of(job.model) for module in block.modules()}
    outputs = [
        module.out_features
        for module in job.model.modules()
        if isinstance(module, nn.Linear) and module not in of_blocks
    ]
    filled = limits.tokens / max(1, tokens)  # on a GPU every batch has the same size
    step = StepShape(
        limits.tokens,
        round(targets * filled),
        max(outputs, default=0),
        limits.rows * limits.longest**2,
        limits.accumulate > ranks,
    )
    estimate = estimate_memory(
        job.model,
        step,
        config,
        ranks=ranks,
        optimiser=recipe.optimiser.kind,
        averaged=bool(recipe.train.ema or recipe.optimiser.trigger),
    )
    lengths = np.array([objective.length(example) for example in examples])
    flops = filled * limits.accumulate * job.flops(lengths) / ranks
    return RankEstimate(estimate, config, flops, has_uncounted_layers(job.model))


def describe_data(run: Run, data: Path, skip_bad: bool) -> DataFacts:
    """Facts about the training, development and test sets of a prepared run."""
    recipe = run.job.recipe
    files, task = recipe.data, task_of(recipe)
    train = files.train.without_stdin(run.out / STDIN_COPY, again=True)
    dropped = DropCounts() if skip_bad else None
    read = partial(task.contents, data=data, dropped=dropped)
    if files.dev.held_out is None:
        sets = {"train": task.train_contents(train, data, dropped), "dev": read(files.dev)}
    else:
        held_out = np.zeros(run.sizes["train"] + run.sizes["dev"], dtype=bool)
        labels = task.split_labels(read(train))
        held_out[held_out_indices(len(held_out), files.dev.held_out, labels)[1]] = True
        choices = {"train": ~held_out, "dev": held_out}
        sets = {name: compress(read(train), chosen) for name, chosen in choices.items()}
    return describe_sets({**sets, **{name: read(test) for name, test in files.tests.items()}})


def count_epoch(sampler: BatchSampler, limit: float = COUNTING) -> EpochSize:
    """Count an epoch; dropped examples are counted in the sampler's ``dropped``."""
    batches = tokens = seen = 0
    began = monotonic()
    with closing(sampler.batches()) as stream:  # type: ignore[type-var]
        for cursor, batch in stream:
            batches += 1
            seen += len(batch)
            tokens += int(batch.lengths.sum())
            if cursor.epoch:
                return EpochSize(batches, tokens)
            if monotonic() - began > limit:
                break
    share = len(sampler.dataset) / seen
    return EpochSize(round(batches * share), round(tokens * share), estimated=True)


def time_steps(job: Job) -> tuple[Precision, list[float]]:
    """The chosen precision, and the times of the first steps."""
    often = {"report_every": 1, "evaluate_every": NEVER, "checkpoint_every": NEVER}
    settings = job.recipe.train.model_copy(update=often)
    tried = replace(
        job,
        recipe=job.recipe.model_copy(update={"train": settings}),
        sampler=job.sampler.uncounted(),
        checkpoints=NoCheckpoints(job.checkpoints.folder),
    )
    most, seconds = min(MOST, settings.steps), list[float]()
    with closing(cast(Generator[Event, None, None], train(tried))) as events:
        precision, last = cast(StartEvent, next(events)).precision, monotonic()
        for event in events:
            if isinstance(event, ReportEvent):
                seconds.append(monotonic() - last)
                if len(seconds) == most or (len(seconds) > 1 and sum(seconds) > ENOUGH):
                    break
            last = monotonic()
    return precision, seconds


class NoCheckpoints(Checkpoints):
    """Checkpoints of a dry run: nothing is written."""

    kept = False

    def save(self, progress: RunProgress, tensors: Tensors) -> None:
        """Write nothing."""

    def steps(self) -> list[int]:
        return []
