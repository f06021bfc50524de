"""Logs of a run, one line of JSON for each event: metrics.jsonl, and reports on its heads.

Nothing that runs a model is imported here, so that logs can be read quickly.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.errors import BadInput
from regard.core.files import JSON, read_bytes, replacing, writing
from regard.training.loggers import OpenLoggers

if TYPE_CHECKING:
    from regard.training.loop.events import Event

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
