"""Views of attention, as text, SVG and HTML."""

import shutil
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import ClassVar, Protocol, Self

import numpy as np
from rich.console import Console, ConsoleOptions
from rich.text import Text

from regard.core.errors import BadInput
from regard.inference.classifier import TextPrediction
from regard.inside.attention.attention_map import MOST_DRAWN, AttentionMap
from regard.inside.attention.attention_record import attention_record
from regard.inside.record import Records
from regard.tasks.question_answering import AnswerPrediction
from regard.views.attention_text import Paint, colour_cell, heat_map, shade_cell
from regard.views.markup import clip, converted_drawing, escape_line, write_rendering
from regard.views.matrix_svg import draw_attention
from regard.views.pages import RecordPage
from regard.views.view_record import ViewRecord


class TextPrinter(Protocol):
    """Protocol of the printer that IPython passes to ``_repr_pretty_``."""

    def text(self, text: str) -> None: ...


class View(RecordPage):
    """Base class of views of attention; views without choices explain that in ``_fixed``."""

    _fixed: ClassVar[str] = ""

    def choose(
        self, name: str | None = None, layer: int | None = None, head: int | None = None
    ) -> "View":
        """Select one map, layer or head; what is not given stays as it was.

        A map that is named begins with the mean of its layers and heads.
        """
        if any(value is not None for value in (name, layer, head)):
            raise BadInput(self._fixed)
        return self

    @abstractmethod
    def svg(self) -> str:
        """Render as a standalone SVG file."""

    def png(self) -> bytes:
        """Render as a PNG file; a view of text needs the library CairoSVG."""
        return converted_drawing(self.svg(), ".png")

    def save(self, path: str | Path) -> None:
        """Write a page (.html) or a drawing (.svg, .png, .pdf), by the suffix of ``path``.

        Missing folders are created. Texts as .png, and all .pdf, need the library CairoSVG.
        """
        write_rendering(path, {".html": self.html, ".svg": self.svg, ".png": self.png})

    @abstractmethod
    def to_json(self) -> dict[str, object]:
        """Return a record for JSON: weights, their labels, and the prediction of a classifier."""

    @abstractmethod
    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        """Lines of text, at most ``width`` columns wide, in colours or in shade characters."""

    def text(self, width: int = 80) -> str:
        """Plain text with shade characters, at most ``width`` columns wide (at least 20)."""
        lines = self.lines(max(width, 20), coloured=False)
        return "\n".join(line.plain.rstrip() for line in lines)

    def __str__(self) -> str:
        return self.text(shutil.get_terminal_size().columns)

    def _repr_pretty_(self, printer: TextPrinter, cycle: bool) -> None:
        """Print in a notebook or a shell of IPython that shows no HTML."""
        printer.text(str(self))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if console.is_terminal and console.color_system is not None:
            yield from self.lines(max(options.max_width, 20), coloured=True)
        else:
            yield Text(self.text(options.max_width))


@dataclass(frozen=True, eq=False)
class AttentionView(View):
    """Attention maps of one text, with a title, a second line and a classifier's prediction.

    ``name``, ``layer`` and ``head`` select what is shown; by default the first map and the mean.
    If there is an ``answer``, the title is its question.
    """

    title: str
    maps: tuple[AttentionMap, ...]
    summary: str = ""
    prediction: TextPrediction | None = None
    name: str | None = None
    layer: int | None = None
    head: int | None = None
    answer: AnswerPrediction | None = None

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        records: Records,
        subwords: bool,
        prediction: TextPrediction | None,
    ) -> "AttentionView":
        """Make a view of the maps of all sites, over words or over subwords."""
        maps = tuple(chain.from_iterable(record.maps(subwords=subwords) for record in records))
        return cls(texts[0], maps, " ".join(texts[1:]), prediction)

    @property
    def predicted(self) -> str:
        """Prediction in one line, or an empty string."""
        predicted = self.prediction or self.answer
        return "" if predicted is None else predicted.summary

    def map(self, name: str | None = None) -> AttentionMap:
        """Map of this name; default: the first."""
        named = [each for each in self.maps if name in (None, each.name)]
        if not named:
            names = ", ".join(each.name for each in self.maps) or "none"
            raise BadInput(f"no map called {name!r} here, only: {names}")
        return named[0]

    def choose(
        self, name: str | None = None, layer: int | None = None, head: int | None = None
    ) -> Self:
        if name is None:
            name = self.name
            layer = self.layer if layer is None else layer
            head = self.head if head is None else head
        self.map(name).select(layer, head)
        return replace(self, name=name, layer=layer, head=head)

    def svg(self) -> str:
        shown, weights_LS = self._shown
        labels = shown.queries, shown.keys
        return draw_attention(self.title, self._caption, *labels, weights_LS, shown.allowed)

    def static_drawing(self) -> str:
        _, weights_LS = self._shown
        return self.svg() if weights_LS.size <= MOST_DRAWN else ""

    def view_record(self, *, lazy: bool = False) -> ViewRecord:
        """Record of all maps; with ``lazy``, a page fetches the weights of one layer at a time."""
        caption = " · ".join(filter(None, (escape_line(self.summary), self.predicted)))
        labels = {"title": self.title, "caption": caption}
        return attention_record("attention", self.maps, lazy=lazy, **labels, chosen=self._chosen)

    @property
    def _chosen(self) -> dict[str, int | None]:
        """Indices of the map, layer and head that a page shows first."""
        if not self.maps:
            return {"map": 0, "layer": None, "head": None}
        shown = self.map(self.name)
        layer, head = shown.indices(self.layer, self.head)
        if head is not None and head < 0:  # the last of each layer, which a page cannot show
            head = None
        return {"map": self.maps.index(shown), "layer": layer, "head": head}

    def to_json(self) -> dict[str, object]:
        shown, weights_LS = self._shown
        return {
            **({} if self.prediction is None else asdict(self.prediction)),
            **({} if self.answer is None else self.answer.record),
            "map": shown.name,
            "rows": shown.queries,
            "columns": shown.keys,
            "weights": weights_LS.round(6).tolist(),
        }

    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        lines = self.title, self.summary, self.predicted, self._description
        for line in map(escape_line, lines):
            if line:
                yield Text(clip(line, width))
        yield Text()
        yield from self._heat(width, colour_cell if coloured else shade_cell)

    def _heat(self, width: int, paint: Paint) -> Iterator[Text]:
        shown, weights_LS = self._shown
        yield from heat_map(shown.queries, shown.keys, weights_LS, width, paint, shown.allowed)

    @property
    def _shown(self) -> tuple[AttentionMap, np.ndarray]:
        shown = self.map(self.name)
        return shown, shown.select(self.layer, self.head)

    @property
    def _caption(self) -> str:
        return "; ".join(filter(None, (self.predicted, self._description)))

    @property
    def _description(self) -> str:
        return self.map(self.name).describe(self.layer, self.head)
