"""Everything there is to see of one run: prints itself, and draws itself as SVG and as a page."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from rich.console import Console, ConsoleOptions
from rich.text import Text

from regard.ground.errors import BadInput
from regard.inside.drawing import drawing
from regard.inside.labels import clip, visible_line
from regard.inside.maps import Map
from regard.inside.page import page
from regard.inside.terminal import Paint, glow, heat, shade
from regard.tasks.classify import Judgement


@dataclass(frozen=True, eq=False)
class Look:
    """The attention maps of one text (the first is shown first), under a title and a line more.

    Of a classifier they come with its ``prediction``.
    Where a map, layer or head can be chosen, none means the first map and the mean of all.
    """

    title: str
    maps: tuple[Map, ...]
    summary: str = ""
    prediction: Judgement | None = None

    @property
    def predicted(self) -> str:
        """The prediction in one line, if there is one."""
        return "" if self.prediction is None else self.prediction.line

    def map(self, name: str | None = None) -> Map:
        """The map of this name, or the first."""
        named = [each for each in self.maps if name in (None, each.name)]
        if not named:
            names = ", ".join(each.name for each in self.maps) or "none"
            raise BadInput(f"no map called {name!r} here, only: {names}")
        return named[0]

    def terminal(
        self,
        width: int = 80,
        *,
        name: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> str:
        """A heat map in plain shade characters, no line wider than ``width`` (at least 20)."""
        lines = self._lines(width, shade, name, layer, head)
        return "\n".join(line.plain.rstrip() for line in lines)

    def svg(
        self, *, name: str | None = None, layer: int | None = None, head: int | None = None
    ) -> str:
        """A heat map as a standalone vector drawing."""
        shown = self.map(name)
        caption = "; ".join(filter(None, (self.predicted, shown.describe(layer, head))))
        return drawing(self.title, caption, shown.queries, shown.keys, shown.select(layer, head))

    def html(self) -> str:
        """One page with every map, layer and head; it needs nothing but a browser."""
        summary = " · ".join(filter(None, (visible_line(self.summary), self.predicted)))
        return page(self.title, summary, self.maps)

    def __str__(self) -> str:
        return self.terminal(shutil.get_terminal_size().columns)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        coloured = console.is_terminal and console.color_system is not None
        yield from self._lines(options.max_width, glow if coloured else shade)

    def _repr_html_(self) -> str:
        """For notebooks: a frame of its own, so that neither side's styles reach the other."""
        return (
            f'<iframe srcdoc="{escape(self.html())}" title="{escape(visible_line(self.title))}" '
            'sandbox="allow-scripts" style="width:100%;height:760px;border:0"></iframe>'
        )

    def _lines(
        self,
        width: int,
        paint: Paint,
        name: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> Iterator[Text]:
        width = max(width, 20)
        shown = self.map(name)
        lines = self.title, self.summary, self.predicted, shown.describe(layer, head)
        for words in map(visible_line, lines):
            if words:
                yield Text(clip(words, width))
        yield Text()
        yield from heat(shown.queries, shown.keys, shown.select(layer, head), width, paint)
