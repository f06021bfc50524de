"""Runs of one process and of several that share every step."""

import json
from pathlib import Path

import torch

from regard.training.checkpoint import Checkpoints
from verb import run
from warm import WarmProcess, start_ranks

RECURRENT = ("model.paper=bahdanau", "model.change={width=16, embedding=16, maxout=16}")
STILL = "model.change.dropout=0.0"
SMOOTH = "optimiser.eps=1e-6"  # at 1e-9 Adam makes whole steps of gradients that are only rounding


def losses(recipe: Path, *settings: str, launch=start_ranks) -> tuple[list[float], list[float]]:
    """Of one process, and of two that share every step; settings of ``distributed`` are theirs."""
    changes = [word for setting in settings for word in ("--set", setting)]
    words = ("train", recipe, "--data", recipe.parent, "--device", "cpu", *changes, "--out")
    plain = [word for it in settings if "distributed." not in it for word in ("--set", it)]
    alone, together = recipe.parent / "alone", recipe.parent / "together"
    run(*words[:6], *plain, "--out", alone)
    processes = launch("-m", "regard", *words, together)
    said = [process.communicate(timeout=240)[1] for process in processes]
    assert not any(process.returncode for process in processes), "\n".join(said)
    return losses_of(alone), losses_of(together)


def losses_of(out: Path) -> list[float]:
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines]


def tensors_at(out: Path, step: int) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint."""
    groups = Checkpoints(out / "checkpoints").load(step)[1]
    return {
        f"{group}/{name}": tensor for group, part in groups.items() for name, tensor in part.items()
    }


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two sets of tensors have the same names and bits."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


OPENED = """
import torch.distributed as dist
from regard.cli import main

dist.init_process_group("gloo")
main()
"""


def start_with_group(*words: object) -> list[WarmProcess]:
    """Processes that find a process group, as launchers such as Ray Train open one."""
    option, module, *rest = words
    assert (option, module) == ("-m", "regard")
    return start_ranks("-c", OPENED, *rest)
