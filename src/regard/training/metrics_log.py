"""The log of a run: metrics.jsonl, and files of TensorBoard if that is installed."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from regard.ground.errors import BadInput
from regard.ground.files import read_bytes, replacing, writing
from regard.training.loop.events import Event

LOG, BOARD = "metrics.jsonl", "tensorboard"

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class MetricsLog:
    """Appends one line per event with figures; a resumed run first removes later lines."""

    def __init__(self, folder: Path, *, after_step: int = 0):
        self.path = folder / LOG
        self._truncate(after_step)
        self.board = _tensorboard(folder / BOARD, after_step)

    def write(self, event: Event) -> None:
        """Log an event, if it has figures."""
        figures = event.figures
        if not figures:
            return
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
        if self.board is not None:
            for name, value in figures.items():
                if name not in ("event", "step"):
                    self.board.add_scalar(f"{figures['event']}/{name}", value, figures["step"])

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


def _step(line: bytes) -> int | None:
    """The step of a line; None if it is no complete line of a log."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if isinstance(step, int) and line.endswith(b"\n") else None


def _tensorboard(folder: Path, after_step: int) -> "SummaryWriter | None":
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=after_step + 1)
