"""What this tree makes of frozen folders: answers of models, resumed runs, continued outputs.

``freeze.py`` wrote them once, at the base commit of a refactoring; ``tests/test_frozen.py``
compares what this module computes with what it computed then.
"""

import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

import regard
from safety.weights import digest
from verb import run

FROZEN = Path(__file__).parent / "frozen"
MODELS, RUNS, PARTIAL = FROZEN / "models", FROZEN / "runs", FROZEN / "partial"
DIGITS = 7  # significant digits of stored numbers
COLUMNS = 12  # stored of the last axis of a tensor, as of logits over a vocabulary

# Calls of the public face, each of which a model answers or refuses.
VERBS = ("encode", "embed", "logits", "predict", "fill", "translate", "generate", "score")
OPTIONS: dict[str, dict[str, Any]] = {"generate": {"max_new_tokens": 4}, "fill": {"top": 2}}


def inputs_of(name: str, inputs: dict[str, Any]) -> list[Any]:
    """The inputs of a call as they are stored: texts, ids, pairs or names of images."""
    given = inputs.get(name, inputs["encode"])
    if inputs.get("images"):
        return [FROZEN / "images" / file for file in given]
    return [tuple(one) if inputs.get("pairs", {}).get(name) else one for one in given]


def answer(model: regard.Model, name: str, inputs: dict[str, Any]) -> Any:
    """The answer of a model to a call as JSON; None if it refuses the call."""
    try:
        return plain(getattr(model, name)(inputs_of(name, inputs), **OPTIONS.get(name, {})))
    except regard.BadInput:
        return None


def plain(value: Any) -> Any:
    """A result as JSON, with numbers of ``DIGITS`` digits."""
    if isinstance(value, Tensor | np.ndarray):
        return plain(value[..., :COLUMNS].tolist())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS - 1}e}")
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return {key: plain(part) for key, part in value._asdict().items()}
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value if isinstance(value, int | str | None) else str(value)


def differences(path: str, old: Any, new: Any, rel: float, absolute: float) -> Iterator[str]:
    """A line for each value that differs, numbers by more than a tolerance."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            if key not in new or key not in old:
                yield f"{path}.{key} is {'missing' if key not in new else 'new'}"
            else:
                yield from differences(f"{path}.{key}", old[key], new[key], rel, absolute)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(f"{path}[{number}]", *pair, rel, absolute)
    elif isinstance(old, float) and isinstance(new, float):
        if not abs(old - new) <= absolute + rel * abs(old) and str(old) != str(new):
            yield f"{path}: {old} → {new}"
    elif old != new:
        yield f"{path}: {str(old)[:80]!r} → {str(new)[:80]!r}"


def tensors_of(path: Path) -> dict[str, list[str]]:
    """Digests of the tensors of a file, by name."""
    if path.suffix == ".hdf5":
        import h5py

        found: dict[str, list[str]] = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, value: found.update(
                    {name: digest(torch.from_numpy(value[()]))}
                    if isinstance(value, h5py.Dataset)
                    else {}
                )
            )
        return found
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 no dict
    return {name: [str(one.dtype), *digest(one)] for name, one in tensors.items()}


def content_of(path: Path) -> Any:
    """A file as it is compared: tensors, JSON, or bytes."""
    if path.suffix in (".safetensors", ".hdf5"):
        return tensors_of(path)
    return json.loads(path.read_text()) if path.suffix == ".json" else path.read_bytes()


def files_of(folder: Path) -> dict[str, Path]:
    """All files of a folder by their paths in it."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in found}


def machine() -> dict[str, str]:
    """What the bits of a training run may depend on beside the code."""
    return {
        "torch": torch.__version__,
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} {_part()}",
    }


def _part() -> str:
    """The model of the processor, by what Linux says of it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    named = re.search(r"^(?:model name|CPU part)\s*:\s*(.*)$", text, re.MULTILINE)
    return named[1] if named else ""


def train(recipe: Path, out: Path, *, resume: bool = False, stop: int | None = None) -> list[Any]:
    """The losses of a run by step, until a step or to the end."""
    events = regard.train_events(recipe, recipe.parent, out, device="cpu", resume=resume)
    losses = []
    for event in events:
        if isinstance(event, regard.ReportEvent):
            losses.append([event.progress.step, event.loss, event.nll])
        if isinstance(event, regard.SaveEvent) and event.progress.step == stop:
            break
    events.close()  # type: ignore[attr-defined]
    return losses


def weights_of(run: Path) -> dict[str, Any]:
    """The tensors of the model that a run wrote."""
    return tensors_of(run / "model" / "model.safetensors")


def continue_output(folder: Path, models: Path, work: Path) -> dict[str, bytes]:
    """Run the command of a stopped run again, in a copy of its folder: the files of its results."""
    if work != folder:
        shutil.copytree(folder, work)
    stored = json.loads((work / "command.json").read_text())
    shutil.copytree(models / stored["model"], work / "model")
    try:
        with working_in(work):
            run(*stored["arguments"], "--out", stored["out"], "--resume")
    finally:
        shutil.rmtree(work / "model")
    return {name: path.read_bytes() for name, path in files_of(work).items() if "out." in name}


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Run a block with another current folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
