"""Views of numbers, positive and negative, by layer and by head, part or position."""

import textwrap
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from rich.text import Text

from regard.inside.attention.attention_view import View
from regard.views.attention_text import colour_cell, heat_map, shade_cell
from regard.views.markup import clip, escape_line
from regard.views.matrix_svg import draw_attention
from regard.views.view_record import ViewRecord


class Grid(NamedTuple):
    """Table of numbers with names; cells where ``exists_LC`` is false are blank."""

    name: str
    rows: Sequence[str]
    columns: Sequence[str]
    values_LC: np.ndarray
    exists_LC: np.ndarray | None = None

    @property
    def fields(self) -> dict[str, object]:
        """Fields of a record for views."""
        labels = {"name": self.name, "rows": self.rows, "columns": self.columns}
        return {**labels, "values": self.values_LC, "exists": self.exists_LC}


class GridView(View):
    """Base class of views of one or several grids with a title and a caption."""

    _fixed: ClassVar[str] = "this view covers all layers and heads: do not choose any"
    kind: ClassVar[str] = "grids"  # of the record for views
    title: str

    @property
    @abstractmethod
    def caption(self) -> str:
        """Explanation of the numbers."""

    @property
    @abstractmethod
    def grids(self) -> Sequence[Grid]:
        """The grids, in the order in which they are shown; the SVG has the first."""

    @property
    def table(self) -> tuple[list[str], list[list[str | float | None]]]:
        """Columns and rows of all cells that exist, for tables."""
        rows: list[list[str | float | None]] = [
            [grid.name, row, column, float(grid.values_LC[place])]
            for grid in self.grids
            for place, row, column in _cells(grid)
        ]
        return ["map", "row", "column", "value"], rows

    def svg(self) -> str:
        return self._svg(self.grids[0])

    def _svg(self, grid: Grid) -> str:
        return draw_attention(self.title, self.caption, *grid[1:])

    def view_record(self) -> ViewRecord:
        grids = [grid.fields for grid in self.grids]
        return ViewRecord.of(
            self.kind, title=self.title, caption=self.caption, grids=grids, **self.fields
        )

    @property
    def fields(self) -> dict[str, object]:
        """Further fields of the record for views."""
        return {}

    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        yield Text(clip(escape_line(self.title), width))
        yield from map(Text, textwrap.wrap(escape_line(self.caption), width))
        paint = colour_cell if coloured else shade_cell
        for grid in self.grids:
            yield Text()
            if len(self.grids) > 1:
                yield Text(grid.name)
            _, rows, columns, values_LC, exists_LC = grid
            yield from heat_map(rows, columns, values_LC, width, paint, exists_LC)


def _cells(grid: Grid) -> Iterator[tuple[tuple[int, int], str, str]]:
    """Places of the cells that exist, with the names of their rows and columns."""
    for row, name in enumerate(grid.rows):
        for column, other in enumerate(grid.columns):
            if grid.exists_LC is None or grid.exists_LC[row, column]:
                yield (row, column), name, other
