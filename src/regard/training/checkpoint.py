"""Atomic checkpoints: a run killed at any moment resumes from the last one.

Each is a folder ``step-00000100``, which is renamed to that when all its files are on disk. No
generator state is stored: random numbers depend on (seed, step, slice).
"""

import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, cast

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor, nn

from regard.core.errors import BadInput
from regard.core.files import JSON, checksum_of_file, read_json, remove, synchronise, write_json
from regard.data.batches.sampler import Cursor
from regard.training.relative_optimisers import Adafactor, adafactor_moments
from regard.weights.files import write_tensors
from regard.weights.tensor_pieces import MappedTensors, TensorPieces

STATE, PROGRESS, TENSORS = "state.json", "progress", ".safetensors"
OPTIMISER = "optimiser"  # group without tensors before the first step, and in SGD
SHARD = "shard-"  # files with pieces of tensors begin with it
EVERY = slice(None)
Tensors = dict[str, dict[str, Tensor]]  # by group: model, optimiser, ...


Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
STRICT = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True)
class PendingTotals:
    """Sums since the last report; ``losses`` is indexed by rank, type (loss, NLL) and objective."""

    losses: list[list[list[float]]]
    values: list[float]
    weight: list[float]
    tokens: Count
    steps: Count
    room: Count
    seconds: Amount

    __pydantic_config__ = STRICT


@dataclass(frozen=True)
class RunProgress:
    """The state of a run besides its tensors."""

    step: Count = 0
    cursor: Cursor = field(default_factory=Cursor)
    tokens: Count = 0
    flops: Amount = 0.0
    seconds: Amount = 0.0
    best: Annotated[float, Field(allow_inf_nan=False)] | None = None
    best_step: Count = 0
    stale: Count = 0
    dev_values: list[float] = field(default_factory=list)  # of all evaluations, where they count
    averaged_since: Count = 0
    first_loss: Annotated[float, Field(allow_inf_nan=False)] | None = None  # of the first step
    best_loss: Annotated[float, Field(allow_inf_nan=False)] | None = None  # where it is known
    settings: dict[str, Any] = field(default_factory=dict)
    unreported: PendingTotals | None = None
    corpora: dict[str, Count] = field(default_factory=dict)  # examples of each, if they are mixed

    __pydantic_config__ = STRICT


@dataclass(frozen=True)
class CheckpointState:
    """Content of state.json: the progress, and checksums of it and of the other files."""

    progress: RunProgress
    checksums: dict[str, Count]

    __pydantic_config__ = STRICT


STATES = TypeAdapter(CheckpointState)
ADDED = {"best_loss", "corpora", "first_loss"}  # fields of the progress that older checkpoints lack


class Checkpoints:
    """The checkpoints of one run."""

    kept = True  # they are written

    def __init__(self, folder: Path):
        self.folder = folder

    def steps(self) -> list[int]:
        """The steps with a checkpoint, sorted; empty folders and files are ignored."""
        if not self.folder.is_dir():
            return []
        numbered = [
            (path, int(name[1]))
            for path in self.folder.iterdir()
            if (name := re.fullmatch(r"step-([0-9]{8,18})", path.name))
        ]
        return sorted(
            step
            for path, step in numbered
            if path == self.place(step) and path.is_dir() and any(path.iterdir())
        )

    def place(self, step: int) -> Path:
        """The folder of one checkpoint."""
        return self.folder / f"step-{step:08d}"

    def temporary(self, step: int) -> Path:
        """The folder of a checkpoint while it is written."""
        return self.folder / f".{self.place(step).name}.tmp"

    def save(self, progress: RunProgress, tensors: Tensors) -> None:
        """Write a checkpoint: safetensors files and state.json."""
        temporary, checksums = self.temporary(progress.step), {}
        with self.written():
            self.sweep()
            for name, group in tensors.items():
                path = temporary / f"{name}{TENSORS}"
                write_tensors(path, group)
                checksums[path.name] = checksum_of_file(path)
            self.commit(progress, checksums)

    def begin(self, step: int) -> None:
        """Make the folder into which several processes write a checkpoint."""
        with self.written():
            self.sweep()
            self.temporary(step).mkdir(parents=True)

    def commit(self, progress: RunProgress, checksums: Mapping[str, int]) -> None:
        """Finish a checkpoint whose tensors are written: state.json, and the name of its folder."""
        place, temporary = self.place(progress.step), self.temporary(progress.step)
        checksums = {PROGRESS: _checksum_of_json(asdict(progress)), **checksums}
        write_json(temporary / STATE, asdict(CheckpointState(progress, checksums)))
        synchronise(temporary)
        remove(place)
        temporary.rename(place)
        synchronise(self.folder)

    @contextmanager
    def written(self) -> Iterator[None]:
        """Block that writes a checkpoint; if it fails, its remains are removed."""
        try:
            yield
        except (OSError, BadInput) as error:
            self.sweep()
            last = f"step {self.steps()[-1]}" if self.steps() else "none"
            raise BadInput(
                f"the checkpoint could not be written: {error}; last good checkpoint: {last}"
            ) from None

    def load(
        self, step: int, only: Iterable[str] | None = None
    ) -> tuple[RunProgress, dict[str, dict[str, Tensor]]]:
        """Read the progress and the tensors of a checkpoint, by group.

        If ``only`` is given, only these groups are read, and they must exist.
        """
        progress, groups = self.open(step, only)
        return progress, {group: tensors.read_all() for group, tensors in groups.items()}

    def open(
        self, step: int, only: Iterable[str] | None = None, share: slice = EVERY
    ) -> tuple[RunProgress, dict[str, TensorPieces]]:
        """The progress and the tensors of a checkpoint, by group, which are read when needed.

        The files are checked, or a ``share`` of them if other processes check the others.
        """
        place, groups = self.place(step), None if only is None else [*only]
        try:
            state = self._verified(step, groups, share)
        except BadInput as error:
            raise BadInput(f"{error}{self._advice(step)}") from None
        if shards := _shards(state):
            paths = [place / name for name in shards]
            every = TensorPieces(paths)
            known = sorted({name.partition("/")[0] for name in every} | {OPTIMISER})
            if missing := [group for group in groups or () if group not in known]:
                raise BadInput(f"{place}: {missing[0]} is missing{self._advice(step)}")
            return state.progress, {
                name: TensorPieces(paths, f"{name}/") for name in groups or known
            }
        files = _files(state, groups)
        return state.progress, {Path(name).stem: TensorPieces([place / name]) for name in files}

    def progress(self, step: int) -> RunProgress:
        """The progress of a checkpoint."""
        return self._state(step).progress

    def _state(self, step: int) -> CheckpointState:
        """Read state.json; refuse a damaged one."""
        path = self.place(step) / STATE
        content = read_json(path)
        try:
            state = STATES.validate_json(json.dumps(content), strict=True)
        except ValidationError as error:
            fault = error.errors()[0]
            name = ".".join(map(str, fault["loc"]))
            raise BadInput(f"{path}: damaged ({name}: {fault['msg']})") from None
        progress, known = state.progress, state.checksums
        written = cast(dict[str, JSON], content["progress"])
        if absent := sorted({item.name for item in fields(RunProgress)} - ADDED - written.keys()):
            raise BadInput(f"{path}: damaged ({absent[0]} is missing)")
        if progress.step != step or progress.best_step > step:
            raise BadInput(
                f"{path}: damaged (step {progress.step}, expected {step}; "
                f"best step {progress.best_step}, expected at most {step})"
            )
        if any(Path(name).name != name for name in known):
            raise BadInput(f"{path}: damaged (checksums of files outside the folder)")
        if known.get(PROGRESS) != _checksum_of_json(written):
            raise BadInput(f"{path}: damaged (its checksum differs)")
        return state

    def _verified(
        self, step: int, only: Sequence[str] | None = None, share: slice = EVERY
    ) -> CheckpointState:
        """Return the state of a checkpoint after checking the files of all groups, or of some."""
        state, place = self._state(step), self.place(step)
        for name in _files(state, only)[share]:
            path = place / name
            if name not in state.checksums or not path.is_file():
                raise BadInput(f"{place}: {name} is missing")
            if checksum_of_file(path) != state.checksums[name]:
                raise BadInput(f"{path}: damaged (its checksum differs)")
        return state

    def _advice(self, damaged: int) -> str:
        """Advice for an error message if the damaged checkpoint is the last one.

        No checkpoint is skipped silently.
        """
        *earlier, last = self.steps() or [damaged]
        if last != damaged:
            return ""
        for step in reversed(earlier):
            with suppress(BadInput):
                self._verified(step)
                return f"; delete {self.place(damaged)} to go on from step {step:,}, which is whole"
        return "; there is no other whole checkpoint to go on from"

    def prune(self, keep: Iterable[int]) -> None:
        """Delete all checkpoints except the steps in ``keep``."""
        for step in set(self.steps()) - set(keep):
            doomed = self.place(step).with_name(f".step-{step:08d}.tmp")
            self.place(step).replace(doomed)  # a half-deleted folder is no checkpoint
            shutil.rmtree(doomed, ignore_errors=True)

    def sweep(self) -> None:
        """Remove the remains of an interrupted ``save`` or ``prune``."""
        for leftover in self.folder.glob(".step-*.tmp"):
            with suppress(OSError):
                remove(leftover)

    def average(self, steps: Iterable[int]) -> Mapping[str, Tensor]:
        """The mean of the weights of several checkpoints, each computed when it is needed."""
        groups = [self.open(step, only=("model",))[1]["model"] for step in steps]

        def mean(name: str) -> Tensor:
            stacked = torch.stack([group[name].double() for group in groups])
            return stacked.mean(0).to(groups[0].dtype(name))

        return MappedTensors([*groups[0]], mean)


def _shards(state: CheckpointState) -> list[str]:
    """The files with pieces of tensors of all groups."""
    return sorted(name for name in state.checksums if name.startswith(SHARD))


def _files(state: CheckpointState, groups: Sequence[str] | None) -> list[str]:
    """The files with the tensors of these groups."""
    if shards := _shards(state):
        return shards
    every = state.checksums.keys() - {PROGRESS}
    return sorted(every if groups is None else {f"{group}{TENSORS}" for group in groups})


def _checksum_of_json(content: Mapping[str, object]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def adam_moments(shape: Sequence[int]) -> dict[str, Sequence[int]]:
    """The state that Adam has for a weight of a shape: names and shapes of tensors."""
    return {"step": (), "exp_avg": shape, "exp_avg_sq": shape}


MOMENTS: dict[type[torch.optim.Optimizer], Callable[[Sequence[int]], dict[str, Sequence[int]]]]
MOMENTS = {Adafactor: adafactor_moments}
"""State of a weight of a shape, by optimiser; of all others: Adam's, or none."""


def optimiser_tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments of an optimiser, by the names of their parameters."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state[parameter].items()
    }


def load_optimiser(
    model: nn.Module, optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], where: str
) -> None:
    """Load moments that ``optimiser_tensors`` returned into an optimiser, bit for bit."""
    parameters = dict(model.named_parameters())
    moments_of = MOMENTS.get(type(optimiser), adam_moments)
    shapes: dict[str, Sequence[int]] = {}
    for name in {full.rpartition("/")[0] for full in tensors}:
        if name not in parameters:
            raise BadInput(f"{where}: the optimiser moments of {name} do not fit the model")
        moments = moments_of(parameters[name].shape)
        shapes |= {f"{name}/{key}": shape for key, shape in moments.items()}
    if odd := sorted(tensors.keys() ^ shapes.keys()):
        raise BadInput(f"{where}: {odd[0]} is {'unknown' if odd[0] in tensors else 'missing'}")
    for full, value in tensors.items():
        if tuple(value.shape) != tuple(shapes[full]):
            raise BadInput(f"{where}: the optimiser moment {full} does not fit the model")
        name, _, key = full.rpartition("/")
        parameter = parameters[name]
        on_host = key == "step" and not parameter.is_cuda
        optimiser.state[parameter][key] = value.clone() if on_host else value.to(parameter.device)
