"""Checkpoints that are whole or absent: a run killed at any moment goes on from the last one.

Each is a folder ``step-000100`` that gets its name when everything in it is on the disk. No
generator state is stored: draws come from (seed, step, batch), so the step is enough.
"""

import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.sampler import Cursor
from regard.ground.errors import BadInput
from regard.ground.files import read_json, synchronise, write_json
from regard.weights.files import read_tensors, write_tensors

STATE = "state.json"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what Adam keeps of a parameter


@dataclass(frozen=True)
class Progress:
    """How far a run is, beside its tensors."""

    step: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    stale: int = 0
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Progress":
        """What ``asdict`` made of it."""
        return cls(**{**content, "cursor": Cursor(**content["cursor"])})


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path):
        self.folder = folder

    def steps(self) -> list[int]:
        """The steps at which a whole checkpoint lies, in order."""
        if not self.folder.is_dir():
            return []
        names = (re.fullmatch(r"step-(\d+)", path.name) for path in self.folder.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def place(self, step: int) -> Path:
        """The folder of one checkpoint."""
        return self.folder / f"step-{step:08d}"

    def save(self, progress: Progress, tensors: dict[str, dict[str, Tensor]]) -> None:
        """Write a checkpoint: a folder of safetensors files and the state, named at the end."""
        place = self.place(progress.step)
        temporary = self.folder / f".{place.name}.tmp"
        try:
            self.sweep()
            for name, group in tensors.items():
                write_tensors(temporary / f"{name}.safetensors", group)
            write_json(temporary / STATE, asdict(progress))
            synchronise(temporary)
            if place.exists():
                shutil.rmtree(place)
            temporary.rename(place)
            synchronise(self.folder)
        except (OSError, BadInput) as error:
            self.sweep()
            last = f"step {self.steps()[-1]}" if self.steps() else "none"
            raise BadInput(f"no checkpoint could be written: {error}; last good: {last}") from None

    def load(self, step: int) -> tuple[Progress, dict[str, dict[str, Tensor]]]:
        """A checkpoint's progress and tensors by group."""
        place, progress = self.place(step), self.progress(step)
        tensors = {path.stem: read_tensors(path) for path in sorted(place.glob("*.safetensors"))}
        return progress, tensors

    def progress(self, step: int) -> Progress:
        """How far a checkpoint is."""
        path = self.place(step) / STATE
        try:
            return Progress.from_json(read_json(path))
        except (KeyError, TypeError) as error:
            raise BadInput(f"{path}: damaged ({error})") from None

    def prune(self, keep: Iterable[int]) -> None:
        """Delete all checkpoints but these."""
        for step in set(self.steps()) - set(keep):
            doomed = self.place(step).with_name(f".step-{step:08d}.tmp")
            self.place(step).replace(doomed)  # a half-deleted folder bears no checkpoint's name
            shutil.rmtree(doomed, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what an interrupted write or prune left."""
        for leftover in self.folder.glob(".step-*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)

    def average(self, steps: Iterable[int]) -> dict[str, Tensor]:
        """The mean of the weights of several checkpoints."""
        groups = [read_tensors(self.place(step) / "model.safetensors") for step in steps]
        return {
            name: torch.stack([group[name].double() for group in groups]).mean(0).to(first.dtype)
            for name, first in groups[0].items()
        }


def optimiser_tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's moments under the names of the parameters they belong to."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state[parameter].items()
    }


def load_optimiser(
    model: nn.Module, optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], where: str
) -> None:
    """The inverse: bit for bit what was saved."""
    parameters = dict(model.named_parameters())
    names = {full.rpartition("/")[0] for full in tensors}
    if odd := sorted(tensors.keys() ^ {f"{name}/{key}" for name in names for key in MOMENTS}):
        raise BadInput(f"{where}: {odd[0]} is {'unknown' if odd[0] in tensors else 'missing'}")
    for full, value in tensors.items():
        name, _, key = full.rpartition("/")
        parameter = parameters.get(name)
        if parameter is None or (key != "step" and value.shape != parameter.shape):
            raise BadInput(f"{where}: {full} does not fit the model")
        on_host = key == "step" and not parameter.is_cuda
        optimiser.state[parameter][key] = value.clone() if on_host else value.to(parameter.device)
