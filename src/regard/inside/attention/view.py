"""What every view of attention can do: print itself, and render itself as SVG and as a page."""

import shutil
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.text import Text

from regard.ground.errors import BadInput
from regard.ground.files import write_bytes
from regard.inside.views.html import HTMLPage


class View(HTMLPage):
    """A record of attention, for people."""

    @abstractmethod
    def choose(
        self, name: str | None = None, layer: int | None = None, head: int | None = None
    ) -> "View":
        """The same view of one map, layer or head; by default the map shown, the mean of all."""

    @abstractmethod
    def svg(self) -> str:
        """A standalone SVG file."""

    def png(self) -> bytes:
        """A PNG file, of views of images."""
        raise BadInput("only the attention on an image is drawn as PNG: write SVG or HTML")

    def save(self, path: str | Path) -> None:
        """Write a page (.html) or a drawing (.svg, and of an image .png), by the end of its name.

        Folders on the way to it are made.
        """
        path = Path(path)
        renderings = {
            ".html": lambda: self.html().encode(),
            ".svg": lambda: self.svg().encode(),
            ".png": self.png,
        }
        if path.suffix.lower() not in renderings:
            raise BadInput(f"{path}: views are saved as {', '.join(renderings)}")
        write_bytes(path, renderings[path.suffix.lower()]())

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
