"""Training in the command line: progress on standard error, and signals that end a run."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.text import Text
from typer import Exit

from regard.cli.io.console import ERR, show_line
from regard.core.interrupt import signals_in_use
from regard.experiments.notes import Note, Stop, Stopped
from regard.training.loop.events import Event


class TrainingProgress:
    """Printer of training events: a live line in a terminal, lines elsewhere."""

    def __init__(self) -> None:
        self.steps, self.dev = 0, ""  # length of the run, and the last line about the dev set
        self.live: Live | None = None

    def __enter__(self) -> "TrainingProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, event: Note | Event) -> None:
        """Print an event; in a terminal, a report replaces the report before it."""
        about = event.figures.get("event")
        if about == "progress" and ERR.is_terminal:
            self._show(str(event))
            return
        if about == "prepared":
            self._end()
            self.steps, self.dev = int(event.figures["steps"]), ""
        for line in event.lines(self.steps):
            if about == "dev":
                self.dev = line
            if about == "train" and ERR.is_terminal:
                self._show(f"{line}  {self.dev}")
            else:
                show_line(event, line)
        if event.is_last:
            self._end()

    def _show(self, line: str) -> None:
        """Replace the live line."""
        if self.live is None:
            self.live = Live(console=ERR, refresh_per_second=4, transient=True)
            self.live.start()
        self.live.update(Text(line))

    def _end(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None


class StopSignals(Stop):
    """Request by SIGINT (Ctrl-C), SIGTERM or SIGHUP; a second Ctrl-C interrupts at once."""

    @contextmanager
    def noticed(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._remember) for number in signals_in_use()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _remember(self, number: int, frame: object) -> None:
        self.number = number if self.number is None else self.number
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Give long work a request by signals; if it stops, the process exits with the code for it."""
    stop = StopSignals()
    try:
        yield stop
    except Stopped:  # by a signal to this process, or to another of those that train together
        raise Exit(128 + (stop.number or signal.SIGTERM)) from None
