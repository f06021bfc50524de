"""The only place where the net touches the package: what is renamed or moved is mended here."""

import os

os.environ["REGARD_HIDE"] = "compiler,cuda,bf16"  # the eager path of torch, before regard is loaded
os.environ["COLUMNS"] = "100"

# isort: split
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.training.distributed import World
from regard.training.loop import Job, train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.recipe import read
from regard.training.run import Run, prepare

Begin = Callable[[nn.Module], Any]


def pin() -> None:
    """One thread, one device."""
    torch.set_num_threads(1)


def open_run(recipe: Path, settings: list[str], data: Path, out: Path) -> tuple[nn.Module, Run]:
    """A run from a recipe and data, all but trained, and the model that it will train."""
    run = prepare(read(recipe, settings), out, World(0, 1, torch.device("cpu")), data=data)
    return run.job.model, run


def steps(run: Run) -> Iterator[tuple[str, list[float]]]:
    """The numbers of a training run as they come, by what they are."""
    job: Job = run.job
    for event in train(job):
        if isinstance(event, ReportEvent):
            yield "loss", [event.loss, event.nll]
            yield "rate", [event.rate]
            yield "counts", [event.progress.tokens, event.progress.flops]
        elif isinstance(event, DevEvent):
            yield "dev", sorted(event.verdict.figures.values())


def save_with(run: Path, folder: Path, begin: Begin, form: str) -> None:
    """Save the model of a trained run again, with other weights."""
    model = regard.load(run / "model", "cpu")
    begin(model.module)
    model.save(folder, form)


def verb(arguments: list[str], stdin: str | None, begin: Begin) -> tuple[int, str, str]:
    """What a verb of the command line said, run in this process: exit code, output, messages.

    What it trains begins with weights of ours.
    """

    def prepared(*given: Any, **options: Any) -> Run:
        run = prepare(*given, **options)
        begin(run.job.model)
        return run

    with patch("regard.experiments.training.prepare", prepared):
        done = CliRunner().invoke(app, arguments, input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr
