"""Milliseconds of the host's processor in one training step, by the number of processes.

    python bench/host_step.py [--steps 192] [--pairs 20000] [--tokens 4096] [--kinds pretrain]
    python bench/host_step.py --kinds translate --copies 10 --memory

Each process takes one batch of a step, so a step of n processes has n batches. Counted is the time
of the processor in all threads of rank 0, for everything beside the model: batches are drawn,
examples read, weights added up, rows collated. The model is one parameter. Several processes are
simulated: rank 0 runs alone, and collectives return what they are given, as though all processes
had cut the same window into batches. Data: the built-in
language, tokenised before; with BPE-dropout, which tokenises in every epoch; and its English as
rows to pre-train on, with masks drawn in every epoch. The first step, which opens the data, is left
out; the mean of the others counts. A process cuts a window in about 63 steps, for any number of
processes. ``--memory`` prints the memory of one process after its steps instead, over ``--copies``
of the pairs: that of its own, and the pages of mapped files, which the system may take back.
"""

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from regard.data.toy_language.corpus import corpus, write
from regard.training.distributed import World
from regard.training.dry_run import NoCheckpoints
from regard.training.loop import Job, train, trainable
from regard.training.loop.events import ReportEvent
from regard.training.parallel import Parallel
from regard.training.recipe import Recipe, read
from regard.training.run import prepare

TRANSLATE = """
[data]
train = {{ source = "train.en", target = "train.de" }}
dev = {{ source = "dev.en", target = "dev.de" }}
[text]
vocab = 2000
dropout = {dropout}
[model]
size = "laptop"
[batches]
tokens = {tokens}
rows = 1024
longest = 64
[optimiser]
rate = 0.001
[train]
steps = 1000000
precision = "fp32"
report_every = 1
"""
PRETRAIN = """
task = "pretrain"
[data]
train = {{ documents = "train.en" }}
dev = {{ documents = "dev.en" }}
[text]
kind = "wordpiece"
vocab = 1000
[objective.masked-lm]
[model]
paper = "bert"
size = "tiny"
[batches]
tokens = {tokens}
rows = 256
longest = 128
mixed = true
[optimiser]
rate = 0.001
[train]
steps = 1000000
smoothing = 0.0
precision = "fp32"
report_every = 1
"""
SIZES = (1, 2, 64, 1_024)
NEVER = 1 << 60


@dataclass(frozen=True)
class SimulatedWorld(World):
    """Rank 0 of many processes that are not there, and that would cut windows as it does."""

    gathered: list[Tensor] = field(default_factory=list)

    def all_reduce(self, sums: Tensor) -> Tensor:
        """As though the others had nothing to add."""
        return sums

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """As though the others had the same."""
        self.gathered[:] = [tensor]
        return [tensor] * self.size

    def all_to_all(self, sent: Tensor, sizes: list[int], received: list[int]) -> Tensor:
        """As though the others sent the batches of the same window, to ranks one after another."""
        (sums_BC,) = self.gathered
        parts, before = sent.split(sizes), range(0, self.size * len(sums_BC), len(sums_BC))
        return torch.cat([parts[-batches % self.size] for batches in before])


class SimulatedParallel(Parallel):
    """A model whose gradients stay in this process."""

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model, without others to wait for."""
        return model

    def gradient_sync(self, wrapped: nn.Module, last: bool) -> AbstractContextManager:
        """Nothing to wait for."""
        return nullcontext()


class OneParameter(nn.Module):
    """A model that costs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.parameter = nn.Parameter(torch.zeros(1))


class WithoutModel:
    """An objective in all but its loss, which is 0."""

    def __init__(self, objective: Any):
        self.objective = objective

    def __getattr__(self, name: str) -> Any:
        return getattr(self.objective, name)

    def __call__(self, model: OneParameter, batch: Any) -> tuple[Tensor, Tensor]:
        loss = model.parameter.sum() * torch.zeros(self.parts(batch))
        return loss, loss.detach()

    def parts(self, batch: Any) -> Sequence[int]:
        """The shape of the loss: a number for each member of a sum."""
        members = len(getattr(self.objective, "members", ()))
        return (members,) if members > 1 else ()


def milliseconds(job: Job, size: int, steps: int) -> float:
    """The mean over the steps after the first."""
    recipe: Recipe = job.recipe
    often = {"evaluate_every": NEVER, "checkpoint_every": NEVER, "steps": NEVER}
    changed = recipe.model_copy(
        update={
            "train": recipe.train.model_copy(update=often),
            "batches": recipe.batches.model_copy(update={"accumulate": size}),
        }
    )
    simulated = replace(
        job,
        recipe=changed,
        model=OneParameter(),
        objective=WithoutModel(job.objective),  # type: ignore[arg-type]
        world=SimulatedWorld(0, size, torch.device("cpu")),
        checkpoints=NoCheckpoints(job.checkpoints.folder),
    )
    times, last = list[float](), process_time()
    with patch.object(trainable, "parallel_of", lambda job: SimulatedParallel(job.world)):
        for event in train(simulated):
            if isinstance(event, ReportEvent):
                times.append(1_000 * (process_time() - last))
                if len(times) > steps:
                    break
            last = process_time()
    return fmean(times[1:])


def megabytes(*names: str) -> list[float]:
    """Sizes of the memory of this process, as Linux names them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {name: size for name, _, size in (line.partition(":") for line in lines)}
    return [int(sizes[name].split()[0]) / 1_024 for name in names]


def main() -> None:
    """A row for each kind of data, a column for each number of processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=192)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--memory", action="store_true")
    kinds = ("translate", "translate, BPE-dropout", "pretrain")
    parser.add_argument("--kinds", nargs="*", choices=kinds, default=kinds)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    recipes = {
        "translate": TRANSLATE.format(tokens=asked.tokens, dropout=0.0),
        "translate, BPE-dropout": TRANSLATE.format(tokens=asked.tokens, dropout=0.1),
        "pretrain": PRETRAIN.format(tokens=asked.tokens),
    }
    columns = ("own MB", "mapped MB") if asked.memory else [f"{size} ranks" for size in SIZES]
    print(f"| {'memory' if asked.memory else 'host ms a step'} | {' | '.join(columns)} |")
    print("|---" * (1 + len(columns)) + "|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(corpus(asked.pairs, 100, 100), folder)
        for path in folder.glob("train.*"):
            path.write_text(path.read_text() * asked.copies)
        for number, kind in enumerate(asked.kinds):
            text = recipes[kind]
            path = folder / f"{number}.toml"
            path.write_text(text)
            alone = World(0, 1, torch.device("cpu"))
            job = prepare(read(path), folder / f"run-{number}", alone, data=folder).job
            if asked.memory:
                milliseconds(job, 1, asked.steps)
                figures = iter(megabytes("RssAnon", "RssFile"))
            else:
                figures = (milliseconds(job, size, asked.steps) for size in SIZES)
            print(f"| {kind} | {' | '.join(f'{figure:.1f}' for figure in figures)} |", flush=True)


if __name__ == "__main__":
    main()
