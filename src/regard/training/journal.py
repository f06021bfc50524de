"""What a run leaves behind of its events: metrics.jsonl, and TensorBoard's files if it is there."""

import json
from pathlib import Path
from typing import Any

from regard.ground.errors import BadInput
from regard.ground.files import write_text
from regard.training.events import Event, Judged, Reported


class Journal:
    """Appends one line per report and verdict; a resumed run first forgets what it will redo."""

    def __init__(self, folder: Path, *, after_step: int = 0):
        self.path = folder / "metrics.jsonl"
        self._forget(after_step)
        self.board = _tensorboard(folder / "tensorboard", after_step)

    def write(self, event: Event) -> None:
        """Take note of an event that has figures."""
        figures = as_figures(event)
        if not figures:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(figures) + "\n")
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be written ({error.strerror})") from None
        if self.board is not None:
            for name, value in figures.items():
                if name not in ("event", "step"):
                    self.board.add_scalar(f"{figures['event']}/{name}", value, figures["step"])

    def _forget(self, after_step: int) -> None:
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if _step(line) <= after_step]
        write_text(self.path, "".join(f"{line}\n" for line in kept))


def _step(line: str) -> float:
    """The step of a line; infinite where a kill cut it off."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def as_figures(event: Event) -> dict[str, Any]:
    """The numbers of an event, under their names."""
    match event:
        case Reported(progress):
            return {
                "event": "train",
                "step": progress.step,
                "loss": event.loss,
                "nll": event.nll,
                "rate": event.rate,
                "gradient": event.gradient,
                "tokens": progress.tokens,
                "tokens_per_second": event.tokens_per_second,
                "fill": event.fill,
                "seconds": progress.seconds,
                "flops": progress.flops,
            }
        case Judged(progress, verdict):
            return {
                "event": "dev",
                "step": progress.step,
                **verdict.figures,
                "seconds": progress.seconds,
            }
    return {}


def _tensorboard(folder: Path, after_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=after_step + 1)
