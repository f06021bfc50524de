"""What every view of attention can do: print itself, and render itself as SVG and as a page."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.text import Text


class View(ABC):
    """A record of attention, for people."""

    @abstractmethod
    def choose(
        self, name: str | None = None, layer: int | None = None, head: int | None = None
    ) -> "View":
        """The same view of one map, layer or head; by default the first map, the mean of all."""

    @abstractmethod
    def svg(self) -> str:
        """A standalone SVG file."""

    @abstractmethod
    def html(self) -> str:
        """One offline page."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The weights with their labels, and the prediction of a classifier."""

    @abstractmethod
    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        """Lines of at most ``width`` columns, in colours or in shade characters."""

    def text(self, width: int = 80) -> str:
        """Plain text with shade characters, at most ``width`` columns (at least 20)."""
        lines = self.lines(max(width, 20), coloured=False)
        return "\n".join(line.plain.rstrip() for line in lines)

    def __str__(self) -> str:
        return self.text(shutil.get_terminal_size().columns)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if console.is_terminal and console.color_system is not None:
            yield from self.lines(max(options.max_width, 20), coloured=True)
        else:
            yield Text(self.text(options.max_width))
