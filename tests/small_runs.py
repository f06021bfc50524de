"""Runs of small recipes in this process: what they report, and that they resume bit for bit."""

from collections.abc import Callable
from pathlib import Path

import torch

from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import ReportEvent
from regard.training.recipe import read
from regard.training.run import Run, prepare
from regard.weights.files import weights_of

ALONE = World(0, 1, torch.device("cpu"))


def prepared(recipe: Path, out: Path, *settings: str, resume: bool = False) -> Run:
    """A run of a recipe, with the data in its folder."""
    return prepare(read(recipe, settings), out, ALONE, data=recipe.parent, resume=resume)


def losses(run: Run, resume: bool = False) -> list[float]:
    """The losses that a run reports."""
    return [event.loss for event in train(run.job, resume=resume) if isinstance(event, ReportEvent)]


def check_resume(begin: Callable[..., Run], folder: Path, killed: int, saved: int) -> Run:
    """A run that dies after ``killed`` reports goes on from its last checkpoint, bit for bit.

    ``begin(out, resume=...)`` prepares the run, which reports every step, and whose last checkpoint
    before its death is that of step ``saved``. Return the run that was left alone.
    """
    straight = begin(folder / "a", resume=False)
    expected = losses(straight)
    first, seen = begin(folder / "b", resume=False), []
    for event in train(first.job):
        seen += [event.loss] if isinstance(event, ReportEvent) else []
        if len(seen) == killed:
            break
    second = begin(folder / "b", resume=True)
    assert seen + losses(second, resume=True)[killed - saved :] == expected
    one, other = weights_of(straight.job.model), weights_of(second.job.model)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    return straight
