"""The progress of a training run: one live line in a terminal, lines elsewhere."""

from rich.live import Live
from rich.text import Text

from regard.cli.console import ERR, duration, note
from regard.training.loop.events import (
    DevEvent,
    EndEvent,
    Event,
    ReportEvent,
    SaveEvent,
    StartEvent,
)

REASONS = {
    "steps": "all steps done",
    "time": "the time budget is used up",
    "patience": "the development set stopped improving",
    "asked": "stopped by a signal; everything is saved, --resume continues",
}


class Progress:
    """Prints training events; a context manager."""

    def __init__(self, steps: int, quiet: bool = False):
        self.steps, self.quiet = steps, quiet
        moves = ERR.is_terminal and not quiet
        self.live = Live(console=ERR, refresh_per_second=4, transient=True) if moves else None
        self.dev = ""

    def __enter__(self) -> "Progress":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def show(self, event: Event) -> None:
        """Print one event."""
        if self.quiet:
            return
        match event:
            case StartEvent(progress, precision, differences):
                note(f"precision {precision.kind} ({precision.why})")
                if progress.step:
                    note(f"resumed after step {progress.step:,}")
                if differences:
                    note(f"not bit-exact with the interrupted run: {'; '.join(differences)}")
            case ReportEvent():
                self._report(event)
            case DevEvent(progress, verdict, best):
                figures = "  ".join(f"{k} {v:.4g}" for k, v in verdict.figures.items())
                self.dev = f"dev {figures}"
                note(f"step {progress.step:>6,}  {self.dev}{'  (best)' if best else ''}")
            case SaveEvent():
                pass
            case EndEvent(progress, reason):
                note(f"{REASONS[reason]} after step {progress.step:,}")

    def _report(self, event: ReportEvent) -> None:
        step = event.progress.step
        line = (
            f"step {step:>6,}/{self.steps:,}  loss {event.loss:.4f}  nll {event.nll:.4f}  "
            f"rate {event.rate:.2e}  {event.tokens_per_second:,.0f} tok/s  fill {event.fill:.0%}  "
            f"{duration(event.seconds_left)} left"
        )
        if self.live:
            self.live.update(Text(f"{line}  {self.dev}"))
        else:
            note(line)
