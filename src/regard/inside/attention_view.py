"""The attention of a model on one text: prints itself, and renders itself as SVG and as a page."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from rich.console import Console, ConsoleOptions
from rich.text import Text

from regard.ground.errors import BadInput
from regard.inside.attention_map import AttentionMap
from regard.inside.views.attention_html import attention_page
from regard.inside.views.attention_svg import draw_attention
from regard.inside.views.attention_text import Paint, colour_cell, heat_map, shade_cell
from regard.inside.views.escape import clip, escape_line
from regard.tasks.classify import TextPrediction


@dataclass(frozen=True, eq=False)
class AttentionView:
    """The attention maps of one text, with a title, a second line and a classifier's prediction.

    Where a map, layer or head can be chosen, the default is the first map and the mean over all.
    """

    title: str
    maps: tuple[AttentionMap, ...]
    summary: str = ""
    prediction: TextPrediction | None = None

    @property
    def predicted(self) -> str:
        """The prediction in one line, or an empty string."""
        return "" if self.prediction is None else self.prediction.line

    def map(self, name: str | None = None) -> AttentionMap:
        """The map of this name, or the first."""
        named = [each for each in self.maps if name in (None, each.name)]
        if not named:
            names = ", ".join(each.name for each in self.maps) or "none"
            raise BadInput(f"no map called {name!r} here, only: {names}")
        return named[0]

    def text(
        self,
        width: int = 80,
        *,
        name: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> str:
        """A heat map in shade characters; no line is wider than ``width`` (at least 20)."""
        lines = self._lines(width, shade_cell, name, layer, head)
        return "\n".join(line.plain.rstrip() for line in lines)

    def svg(
        self, *, name: str | None = None, layer: int | None = None, head: int | None = None
    ) -> str:
        """A heat map as a standalone SVG file."""
        shown = self.map(name)
        caption = "; ".join(filter(None, (self.predicted, shown.describe(layer, head))))
        return draw_attention(
            self.title, caption, shown.queries, shown.keys, shown.select(layer, head)
        )

    def html(self) -> str:
        """One offline page with every map, layer and head."""
        summary = " · ".join(filter(None, (escape_line(self.summary), self.predicted)))
        return attention_page(self.title, summary, self.maps)

    def __str__(self) -> str:
        return self.text(shutil.get_terminal_size().columns)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        coloured = console.is_terminal and console.color_system is not None
        yield from self._lines(options.max_width, colour_cell if coloured else shade_cell)

    def _repr_html_(self) -> str:
        """For notebooks: in an iframe, so that the styles of page and notebook stay apart."""
        return (
            f'<iframe srcdoc="{escape(self.html())}" title="{escape(escape_line(self.title))}" '
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
        for line in map(escape_line, lines):
            if line:
                yield Text(clip(line, width))
        yield Text()
        yield from heat_map(shown.queries, shown.keys, shown.select(layer, head), width, paint)
