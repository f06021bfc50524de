"""The folder of a run: its lock, its recipe and its environment."""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from weakref import ref

from regard.core.config import Config
from regard.core.errors import BadInput
from regard.core.files import (
    JSON,
    read_bytes,
    read_json,
    remove,
    sweep_folder,
    write_bytes,
    write_json,
    writing,
)
from regard.core.lock import LOCK, FolderLock, is_vacant, lock_folder
from regard.models.folders.loaded_model import CONFIG
from regard.tasks.run_paths import STDIN_COPY
from regard.training.checkpoint import Checkpoints
from regard.training.metrics_log import BOARD, LOG, LOGGED_RUNS, WATCHES
from regard.training.recipe import Recipe
from regard.training.recipe.faults import with_new_names

ENVIRONMENT = "environment.jsonl"
# Packages on which results may depend.
PACKAGES = (
    "torch",
    "numpy",
    "tokenizers",
    "sentencepiece",
    "safetensors",
    "huggingface_hub",
    "sacrebleu",
    "pydantic",
    "triton",
    "pillow",
    "h5py",
)
GIT_SECONDS = 10  # limit of a call of git


def record_environment(folder: Path, *, resume: bool = False) -> None:
    """Add the environment of this start to the record of environments in the folder of a run."""
    path = folder / ENVIRONMENT
    earlier = b""
    if resume and path.is_file():
        lines = read_bytes(path).splitlines(keepends=True)
        earlier = b"".join(line for line in lines if line.endswith(b"\n"))
    line = json.dumps(environment(), ensure_ascii=False).encode(errors="backslashreplace")
    write_bytes(path, earlier + line + b"\n")


def environment() -> dict[str, object]:
    """Time, command, versions and the git commit of the working folder, of this process."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "regard": _version("regard"),
        "command": shlex.join(sys.argv),
        "folder": str(Path.cwd()),
        "git": git_state(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: number for name in PACKAGES if (number := _version(name)) is not None},
    }


def git_state(folder: Path) -> dict[str, object] | None:
    """Commit of a folder's repository, and whether tracked files differ; None without a commit."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(folder, "status", "-s", "-uno")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of a git command that changes no file; None if it fails or there is no git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


RECIPE = "recipe.json"  # marks the folder of a run
BRANCH = "branch.json"  # of a run that goes on from a checkpoint of another
OURS = ("checkpoints", "text", "data", "model", "generator", WATCHES)
OTHERS = (  # also written by a run
    *(STDIN_COPY, LOG, BOARD, LOGGED_RUNS),
    *(RECIPE, BRANCH, ENVIRONMENT, LOCK),
)


def claim(
    out: Path, recipe: Recipe, *, resume: bool = False, overwrite: bool = False
) -> FolderLock:
    """Lock a folder for this run; a folder with other content is refused.

    Resuming in an empty folder starts a run, which may have been killed before its first write.
    With ``overwrite``, an earlier run in the folder is removed; other files stay.
    """
    if resume and overwrite:
        raise BadInput(f"{out}: resume and overwrite exclude each other: choose one")
    if out.is_file():
        raise BadInput(f"{out}: is a file, not a folder; choose a new or empty folder")
    with writing(out):
        fits = (out / RECIPE).is_file() or is_vacant(out)
    if not fits:
        raise BadInput(f"{out}: has files that are not of a run; choose a new or empty folder")
    lock = lock_folder(out)
    try:
        _clear(out, recipe, resume, overwrite)
        if lock.held:
            sweep_folder(out)
        write_recipe(out, recipe)
    except BadInput:
        lock.release()
        raise
    return lock


def check_folder(reference: ref[FolderLock]) -> None:
    """Refuse to continue if the folder of a run was removed or replaced."""
    lock = reference()
    if lock is not None and not (lock.in_place and (lock.folder / RECIPE).is_file()):
        advice = "begin the run again"
        raise BadInput(f"{lock.folder}: was removed or replaced during the run; {advice}")


def give_up(lock: FolderLock) -> None:
    """Release the folder of a run, and remove its files if the run has done no steps.

    A folder with other files is kept, and so is one that another process put in its place.
    """
    out, names = lock.folder, (*OURS, *OTHERS)
    if lock.in_place and not _has_steps(out) and {path.name for path in out.iterdir()} <= {*names}:
        for name in names:
            remove(out / name)
        lock.discard()
    lock.release()


def _has_steps(out: Path) -> bool:
    """Whether the folder has weights or figures of a step."""
    log = out / LOG
    logged = log.is_file() and log.stat().st_size > 0
    return logged or any(_steps(out)) or (out / "model" / CONFIG).exists()


def _steps(out: Path) -> list[int]:
    return Checkpoints(out / "checkpoints").steps()


def write_recipe(out: Path, recipe: Recipe) -> None:
    """Write the recipe of a run."""
    write_json(out / RECIPE, _dump(recipe))


def _dump(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", serialize_as_any=True)  # also examples in memory


def _clear(out: Path, recipe: Recipe, resume: bool, overwrite: bool) -> None:
    """Remove an earlier run without steps; refuse other runs, unless this one resumes them."""
    ours, steps = (out / RECIPE).is_file(), _steps(out)
    whole = (out / "model" / CONFIG).exists()
    if overwrite and ours:
        for name in {*OURS, *OTHERS} - {RECIPE, LOCK}:
            remove(out / name)
        return
    if whole and not steps:
        raise BadInput(
            f"{out}: has a finished model, but no checkpoints to resume from; choose another folder"
        )
    if resume and ours:
        _check_same(out, recipe)
    elif whole or (steps and steps[-1] > 0):
        remedy = "resume it, overwrite it, or choose another folder"
        raise BadInput(f"{out}: already has a run; {remedy}")
    else:
        for name in OURS:
            shutil.rmtree(out / name, ignore_errors=True)


def _check_same(out: Path, recipe: Recipe) -> None:
    """Refuse a changed recipe, except for keys that do not affect the weights."""
    if changed := changed_keys(out, recipe):
        differs = f"was started with another recipe (differs in: {', '.join(changed)})"
        raise BadInput(f"{out}: {differs}; change it back, or choose another folder")


def changed_keys(out: Path, recipe: Recipe, *, free: bool = False) -> list[str]:
    """Keys that affect the weights and differ between a recipe and the recipe of a run.

    With ``free``, also keys that may be changed when a run is resumed, such as train.steps.
    """
    before, now = with_new_names(read_json(out / RECIPE)), _dump(recipe)
    if (kind := first_precision([out])) is not None:
        _set_precision(before, kind)
        _set_precision(now, kind)
    if before.get("task", "translate") != now["task"]:
        return ["task"]
    return [
        f"{name}.{key}"
        for name, table in recipe
        if isinstance(table, Config)
        for key, value in now[name].items()
        if (free or key not in table.free_keys)
        and _without_unset(_before(before, table, name, key)) != _without_unset(value)
    ]


def first_precision(folders: Iterable[Path]) -> str | None:
    """The precision of the first of these runs that has begun; None: none of them has."""
    for out in folders:
        if steps := _steps(out):
            return str(Checkpoints(out / "checkpoints").progress(steps[-1]).settings["precision"])
    return None


def _set_precision(recipe: dict[str, JSON], kind: str) -> None:
    """Set this precision in place of "auto", which a run that has begun does not read."""
    train = recipe.get("train")
    if isinstance(train, dict) and train.get("precision", "auto") == "auto":
        train["precision"] = kind


def _before(before: dict[str, JSON], table: Config, name: str, key: str) -> JSON:
    """Value of a key in the stored recipe, which may be older and lack keys."""
    defaults = type(table).model_construct().model_dump(mode="json")
    stored = before.get(name) or {}
    return stored.get(key, defaults.get(key)) if isinstance(stored, dict) else stored


def _without_unset(value: JSON) -> JSON:
    """A value without unset keys."""
    if not isinstance(value, dict):
        return value
    return {key: _without_unset(inner) for key, inner in value.items() if inner is not None}
