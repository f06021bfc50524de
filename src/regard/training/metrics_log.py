"""The log of a run, metrics.jsonl: one line of JSON for each event with figures.

Nothing that runs a model is imported here, so that logs can be read quickly.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from regard.ground.errors import BadInput
from regard.ground.files import read_bytes, replacing, writing
from regard.training.loggers import OpenLoggers

if TYPE_CHECKING:
    from regard.training.loop.events import Event

LOG = "metrics.jsonl"
Figures = dict[str, str | float]
"""The type of an event ("train", "dev"), its step, and numbers by name."""


class MetricsLog:
    """Log of a run: one line per event with figures; a resumed run first removes later lines.

    The figures are also given to other ``loggers``.
    """

    def __init__(self, folder: Path, *, after_step: int = 0, loggers: OpenLoggers | None = None):
        self.path, self.loggers = folder / LOG, loggers
        self._truncate(after_step)

    def write(self, event: "Event") -> None:
        """Log an event, if it has figures."""
        figures = event.figures
        if not figures:
            return
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
        kind, step = figures["event"], int(figures["step"])
        numbers = {f"{kind}/{name}": value for name, value in numbers_of(figures).items()}
        if self.loggers is not None:
            self.loggers.log(numbers, step)

    def _truncate(self, after_step: int) -> None:
        if not self.path.exists():
            return
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
            if step is not None and step <= after_step
        ]
        with replacing(self.path) as temporary:
            temporary.write_bytes(b"".join(earlier))


def read_log(folder: Path) -> list[Figures]:
    """Figures of all events in the log of a run, which may still be going on."""
    path = folder / LOG
    lines = read_bytes(path).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):  # just being written, or cut off by a kill
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
