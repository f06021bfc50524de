"""Logs of a run, one line of JSON for each event: metrics.jsonl, and reports on its heads.

Figures are also given to loggers of other projects: TensorBoard, W&B and MLflow. Each is an
optional package, imported when a run begins. A logger gets the numbers of each report and
evaluation by name ("train/loss", "dev/accuracy"). A resumed run continues in the same run of W&B or
MLflow, whose id is stored in the run folder. Nothing that runs a model is imported here, so that
logs can be read quickly.
"""

import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.core.errors import BadInput, did_you_mean, reason_of, shorten
from regard.core.files import JSON, read_bytes, read_json, replacing, write_json, writing

if TYPE_CHECKING:
    from regard.training.loop.events import Event

LOGGED_RUNS = "loggers.json"  # ids of the runs at W&B and MLflow
BOARD = "tensorboard"  # folder of its files
PROJECT = "regard"  # W&B's project and MLflow's experiment, unless the environment names another
LONGEST = 250  # characters of a parameter in MLflow


class RunLogger(ABC):
    """Base class of loggers: its ``name``, and the ``package`` that it needs.

    A logger is opened for a run folder, with the recipe as nested tables, and may continue an
    earlier run by its ``identity``.
    """

    name: ClassVar[str]
    package: ClassVar[str]

    @abstractmethod
    def __init__(
        self, folder: Path, recipe: Mapping[str, object], after_step: int, identity: str
    ): ...

    @property
    def identity(self) -> str:
        """Id by which a resumed run continues; empty: the run folder is enough."""
        return ""

    @abstractmethod
    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Log the numbers of a step."""

    @abstractmethod
    def close(self, succeeded: bool) -> None:
        """End the run."""


class TensorBoardLogger(RunLogger):
    """TensorBoard: event files in the folder ``tensorboard`` of the run."""

    name = package = "tensorboard"

    def __init__(self, folder: Path, recipe: Mapping[str, object], after_step: int, identity: str):
        board = import_module("torch.utils.tensorboard")
        self.writer = board.SummaryWriter(str(folder / BOARD), purge_step=after_step + 1)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def close(self, succeeded: bool) -> None:
        self.writer.close()


class WandbLogger(RunLogger):
    """Weights & Biases: a run of the project "regard", or of WANDB_PROJECT."""

    name = package = "wandb"

    def __init__(self, folder: Path, recipe: Mapping[str, object], after_step: int, identity: str):
        self.run = import_module(self.package).init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=folder.name,
            dir=str(folder),
            config=dict(recipe),
            id=identity or None,
            resume="allow" if identity else None,
        )

    @property
    def identity(self) -> str:
        return str(self.run.id)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self.run.log(dict(numbers), step=step)

    def close(self, succeeded: bool) -> None:
        self.run.finish(exit_code=int(not succeeded))


class MLflowLogger(RunLogger):
    """MLflow: a run of the experiment "regard", or of MLFLOW_EXPERIMENT_NAME."""

    name = package = "mlflow"

    def __init__(self, folder: Path, recipe: Mapping[str, object], after_step: int, identity: str):
        self.mlflow = import_module(self.package)
        self.mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT))
        self.run = self.mlflow.start_run(run_id=identity or None, run_name=folder.name)
        if not identity:
            self.mlflow.log_params(dict(flat_keys(recipe)))

    @property
    def identity(self) -> str:
        return str(self.run.info.run_id)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self.mlflow.log_metrics(dict(numbers), step=step)

    def close(self, succeeded: bool) -> None:
        self.mlflow.end_run("FINISHED" if succeeded else "FAILED")


LOGGERS: dict[str, type[RunLogger]] = {
    logger.name: logger for logger in (TensorBoardLogger, WandbLogger, MLflowLogger)
}


def check_loggers(names: Iterable[str]) -> tuple[str, ...]:
    """Names of loggers, without repetition; refuse unknown ones and those not installed."""
    chosen = tuple(dict.fromkeys(names))
    for name in chosen:
        if name not in LOGGERS:
            raise BadInput(f"no logger is called {name!r}{did_you_mean(name, LOGGERS)}")
        if not _is_installed(LOGGERS[name]):
            raise BadInput(
                f"logger {name}: its package is not installed; pip install 'regard[{name}]'"
            )
    return chosen


class OpenLoggers:
    """The loggers of a run: those named, and TensorBoard wherever it is installed.

    A logger that cannot be opened is an error; one that fails later is left out, with a warning.
    """

    def __init__(
        self, names: Sequence[str], folder: Path, recipe: Mapping[str, object], after_step: int
    ):
        path = folder / LOGGED_RUNS
        stored = read_json(path) if after_step and path.is_file() else {}
        if _is_installed(TensorBoardLogger):
            names = tuple(dict.fromkeys((TensorBoardLogger.name, *names)))
        self.loggers: dict[str, RunLogger] = {}
        try:
            for name in names:
                identity = str(stored.get(name, ""))
                self.loggers[name] = LOGGERS[name](folder, recipe, after_step, identity)
        except Exception as error:
            self.close(succeeded=False)
            raise BadInput(f"logger {name}: {type(error).__name__}: {reason_of(error)}") from None
        own = {name: logger.identity for name, logger in self.loggers.items()}
        if any(own.values()):
            write_json(path, {**stored, **own})

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Give the numbers of a step to all loggers."""
        for name, logger in list(self.loggers.items()):
            with self._leaving_out(name):
                logger.log(numbers, step)

    def close(self, succeeded: bool) -> None:
        """End the run in all loggers."""
        for name, logger in list(self.loggers.items()):
            with self._leaving_out(name):
                logger.close(succeeded)
        self.loggers.clear()

    @contextmanager
    def _leaving_out(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # training goes on without it
            self.loggers.pop(name, None)
            message = f"{name} fails and gets no more figures: {reason_of(error)}"
            warnings.warn(message, RuntimeWarning, stacklevel=4)


def flat_keys(tables: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys of nested tables with their values as text; unset keys are left out."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from flat_keys(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", shorten(str(value), LONGEST)


def _is_installed(logger: type[RunLogger]) -> bool:
    return find_spec(logger.package) is not None


LOG = "metrics.jsonl"
WATCHES = "watch"  # folder of the reports of watches, one file each
Figures = dict[str, str | float]
"""The type of an event ("train", "dev"), its step, and numbers by name."""


class StepLog:
    """File of JSON lines, each with its step; a resumed run first removes later lines."""

    def __init__(self, path: Path, *, after_step: int = 0):
        self.path = path
        if path.exists():
            self._truncate(after_step)

    def write(self, record: Mapping[str, JSON]) -> None:
        """Append one line."""
        with writing(self.path):
            self.path.parent.mkdir(exist_ok=True)
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def _truncate(self, after_step: int) -> None:
        lines = read_bytes(self.path).splitlines(keepends=True)
        steps = [_step(line) for line in lines]
        while steps and steps[-1] is None:  # cut off by a kill
            steps.pop()
        if after_step and None in steps:
            where = f"{self.path}:{steps.index(None) + 1}"
            raise BadInput(f"{where}: damaged; delete this line to go on without it")
        earlier = [
            line
            for line, step in zip(lines, steps, strict=False)
            if after_step and step is not None and step <= after_step
        ]
        with replacing(self.path) as temporary:
            temporary.write_bytes(b"".join(earlier))


class MetricsLog:
    """Logs of a run: one line per event with figures, which are also given to ``loggers``, and
    one line per report of a watch, in a file of its own.
    """

    def __init__(self, folder: Path, *, after_step: int = 0, loggers: OpenLoggers | None = None):
        self.path, self.loggers = folder / LOG, loggers
        self.lines = StepLog(self.path, after_step=after_step)
        reports = [*(folder / WATCHES).glob("*.jsonl")]
        self.reports = {path.stem: StepLog(path, after_step=after_step) for path in reports}

    def write(self, event: "Event") -> None:
        """Log an event, if it has figures or is a report."""
        for name, record in event.reports.items():
            if name not in self.reports:
                self.reports[name] = StepLog(watch_log(self.path.parent, name))
            self.reports[name].write(record)
        figures = event.figures
        if not figures:
            return
        self.lines.write({**figures})
        kind, step = figures["event"], int(figures["step"])
        numbers = {f"{kind}/{name}": value for name, value in numbers_of(figures).items()}
        if self.loggers is not None:
            self.loggers.log(numbers, step)


def watch_log(folder: Path, name: str) -> Path:
    """File of the reports of a watch in the folder of a run."""
    return folder / WATCHES / f"{name}.jsonl"


def read_watch(folder: Path, name: str) -> list[Any]:
    """Reports of a watch in the folder of a run, which may still be going on."""
    path = watch_log(folder, name)
    if not path.exists():
        raise BadInput(f"{folder}: has no reports on {name}: it was trained without watching them")
    return read_steps(path)


def read_log(folder: Path) -> list[Figures]:
    """Figures of all events in the log of a run, which may still be going on."""
    return read_steps(folder / LOG)


def read_steps(path: Path) -> list[Any]:
    """All lines of a log, without one that is just being written or was cut off by a kill."""
    lines = read_bytes(path).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if _step(line) is None:
            raise BadInput(f"{path}:{number}: damaged; delete this line to go on without it")
    return [json.loads(line) for line in lines]


def numbers_of(figures: Figures) -> dict[str, float]:
    """The numbers of an event by name, without its type and step."""
    return {name: float(value) for name, value in figures.items() if name not in ("event", "step")}


def _step(line: bytes) -> int | None:
    """Step of a line of the log; None if the line is incomplete."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if isinstance(step, int) and line.endswith(b"\n") else None
