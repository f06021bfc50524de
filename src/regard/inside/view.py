"""What every view of attention can do: it prints itself, and renders itself as SVG and as a page.

``name``, ``layer`` and ``head`` choose what is shown, where there are several; by default the first
map, and the mean over layers and heads.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.text import Text


class View(ABC):
    """A record of attention, for people."""

    @abstractmethod
    def svg(
        self, *, name: str | None = None, layer: int | None = None, head: int | None = None
    ) -> str:
        """A standalone SVG file."""

    @abstractmethod
    def html(self) -> str:
        """One offline page."""

    @abstractmethod
    def to_json(
        self, *, name: str | None = None, layer: int | None = None, head: int | None = None
    ) -> dict[str, Any]:
        """The weights with their labels, and the prediction of a classifier."""

    @abstractmethod
    def draw_lines(
        self, width: int, coloured: bool, name: str | None, layer: int | None, head: int | None
    ) -> Iterator[Text]:
        """Lines for a terminal, in colours or in shade characters."""

    def lines(
        self,
        width: int = 80,
        *,
        coloured: bool = False,
        name: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> Iterator[Text]:
        """Lines of at most ``width`` columns (at least 20)."""
        for line in self.draw_lines(max(width, 20), coloured, name, layer, head):
            if not coloured:
                line.rstrip()
            yield line

    def text(
        self,
        width: int = 80,
        *,
        name: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> str:
        """The same as plain text."""
        lines = self.lines(width, name=name, layer=layer, head=head)
        return "\n".join(line.plain for line in lines)

    def __str__(self) -> str:
        return self.text(shutil.get_terminal_size().columns)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from self.lines(options.max_width, coloured=has_colours(console))


def has_colours(console: Console) -> bool:
    """Whether a console is a terminal with colours."""
    return console.is_terminal and console.color_system is not None
