"""Drawing of a code path: functions in the order in which they run, in columns by folder.

The script of a page finds a step by ``data-step``; its title says what runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Protocol

from regard.views.markup import SANS, escape_line, svg_element, text_length
from regard.views.palette import PAGE, Palette

ROW, LEFT, COLUMN, DOT = 22, 14, 26, 5  # pixels: a line, the margin, a folder, a dot
FILES, FUNCTIONS = 300, 420  # pixels of the names of files and of functions


class CodeStep(Protocol):
    """Protocol of functions: the file in the package, the first line, and the name."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def function(self) -> str: ...


def draw_path(
    title: str,
    visits: Sequence[Sequence[CodeStep]],
    lines: Mapping[str, int],
    colours: Palette = PAGE,
) -> str:
    """A line for each visit, linked by their dots, and a legend of the folders, as SVG.

    ``lines`` are the numbers of lines of files, by name.
    """
    folders = [*dict.fromkeys(_folder(visit) for visit in visits)]
    names = LEFT + COLUMN * len(folders) + 8
    height = ROW * (len(visits) + 0.8)
    places = [
        (LEFT + COLUMN * folders.index(_folder(visit)), row) for row, visit in enumerate(visits)
    ]
    links = (
        f'<path d="M{x} {_middle(row):.1f}L{next_x} {_middle(row + 1):.1f}" '
        f'fill="none" stroke="{colours.rule}"/>'
        for (x, row), (next_x, _) in pairwise(places)
    )
    marks = (
        _mark(visit, row, x, names, lines, folders.index(_folder(visit)), colours)
        for (x, row), visit in zip(places, visits, strict=True)
    )
    legend = _legend(folders, height, colours)
    width = names + FILES + FUNCTIONS
    return svg_element(title, width, height + ROW, [*links, *marks, *legend], colours.ink)


def _mark(
    visit: Sequence[CodeStep],
    row: int,
    x: float,
    names: float,
    lines: Mapping[str, int],
    folder: int,
    colours: Palette,
) -> str:
    """Dot, place and functions of a visit."""
    first, others = visit[0], len(visit) - 1
    size = f" ({lines[first.file]} lines in the file)" if first.file in lines else ""
    functions = ", ".join(step.function for step in visit)
    told = escape(escape_line(f"{row + 1}. {first.file}:{first.line} {functions}{size}"))
    more = f" and {others} more" if others else ""
    y = f"{_middle(row) + 4:.1f}"
    quiet = f'x="{names + FILES}" y="{y}" fill="{colours.quiet}"'
    return (
        f'<g data-step="{row}"><title>{told}</title>'
        f'<circle cx="{x}" cy="{_middle(row):.1f}" r="{DOT}" fill="{colours.hue(folder)}"/>'
        f'<text x="{names}" y="{y}">{escape(first.file)}:{first.line}</text>\n'
        f"<text {quiet}>{escape(first.function)}{more}</text></g>"
    )


def _legend(folders: Sequence[str], y: float, colours: Palette) -> Iterator[str]:
    x = float(LEFT - DOT)
    for number, name in enumerate(folders):
        yield f'<circle cx="{x + DOT:.0f}" cy="{y:.1f}" r="{DOT}" fill="{colours.hue(number)}"/>'
        place = f'x="{x + 3 * DOT:.0f}" y="{y + 4:.1f}" fill="{colours.quiet}"'
        yield f"<text {place}>{escape(name)}</text>"
        x += SANS * text_length(name) + 6 * DOT


def _folder(visit: Sequence[CodeStep]) -> str:
    return visit[0].file.split("/")[0]


def _middle(row: int) -> float:
    """Vertical position of the dot of a row."""
    return ROW * (row + 0.7) - 4
