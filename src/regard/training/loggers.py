"""Loggers of other projects that a run reports its figures to: TensorBoard, W&B and MLflow.

Each is an optional package, imported when a run begins. A logger gets the numbers of each report
and evaluation by name ("train/loss", "dev/accuracy"). A resumed run continues in the same run of
W&B or MLflow, whose id is stored in the run folder.
"""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from regard.core.errors import BadInput, did_you_mean, reason_of, shorten
from regard.core.files import read_json, write_json

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
