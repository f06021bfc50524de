"""The progress of a training run: one live line in a terminal, lines elsewhere."""

from rich.live import Live
from rich.text import Text

from regard.cli.console import ERR, note
from regard.training.loop.events import Event


class Progress:
    """Prints training events; a context manager."""

    def __init__(self, steps: int, quiet: bool = False):
        self.steps, self.quiet = steps, quiet
        moves = ERR.is_terminal and not quiet
        self.live = Live(console=ERR, refresh_per_second=4, transient=True) if moves else None
        self.dev = ""  # the last line about the development set

    def __enter__(self) -> "Progress":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def show(self, event: Event) -> None:
        """Print one event; reports replace each other where a line can move."""
        if self.quiet:
            return
        about = event.figures.get("event")
        for line in event.lines(self.steps):
            if about == "dev":
                self.dev = line
            if self.live and about == "train":
                self.live.update(Text(f"{line}  {self.dev}"))
            else:
                note(line)
