"""Line charts as SVG and as text, and reports: pages with a table, charts and notes.

The script of a page finds the marks of a line by ``data-line``, and its points as the vertices of
its polyline.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain

from rich.text import Text

from regard.views import markup
from regard.views.markup import MARGIN, TITLE, clip, escape_line, text_length
from regard.views.palette import LIGHT, PAGE, Palette

WIDTH, HEIGHT = 640, 400
LEFT, TOP, BOTTOM = 64, 84, 64  # margins of the plot area
LONGEST, APART = 22, 16  # characters of a name, pixels between names
BESIDE = 12  # pixels between the end of a line and its name
DOTS = 100  # points of a line, beyond which they are not marked
COLUMNS, ROWS = 72, 13  # of a chart as text
MARKS = "●○▲△■□◆◇"
LABEL = 9  # characters of a number beside the y-axis of a text


@dataclass(frozen=True)
class ChartLine:
    """Line of a chart: a name and its points, from left to right.

    ``intervals`` are the lower and upper bound of the value of each point, if they are known.
    """

    name: str
    points: Sequence[tuple[float, float]]
    intervals: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Chart:
    """Line chart, drawn as SVG; each line has its name at its right end.

    ``ticks`` are (position, text) on the x-axis; ``across`` and ``up`` are the names of the axes.
    The y-axis starts at 0, or is logarithmic with ``decades``, or spans the values with ``fitted``,
    and then the values in ``spanned``, too.
    """

    title: str
    across: str
    up: str
    ticks: Sequence[tuple[float, str]]
    lines: Sequence[ChartLine]
    decades: bool = False
    fitted: bool = False
    spanned: Sequence[float] = ()

    def heights(self) -> list[float]:
        """Ticks of the y-axis, from its lower to its upper end."""
        values = [y for line in self.lines for _, y in line.points]
        if self.fitted:
            values += [*self.spanned, *(y for line in self.lines for y in chain(*line.intervals))]
            return round_ticks(min(values, default=0.0), max(values, default=1.0))
        return _powers(values) if self.decades else _steps(values)

    @property
    def drawn(self) -> list[tuple[int, ChartLine]]:
        """Lines with points, each with its number, which gives its colour."""
        return [(number, line) for number, line in enumerate(self.lines) if line.points]

    def svg(self, colours: Palette = LIGHT) -> str:
        """Standalone SVG, in the colours of print or of the page around it."""
        heights = self.heights()
        scale = math.log10 if self.decades else float
        floor, top = scale(heights[0]), scale(heights[-1])
        points = (point for _, line in self.drawn for point in line.points)
        positions = [x for x, _ in (*self.ticks, *points)] or [0.0, 1.0]
        first, last = min(positions), max(positions)
        names = [clip(line.name, LONGEST) for _, line in self.drawn]
        right = WIDTH - 2 * BESIDE - max(map(text_length, names), default=0)

        def at(x: float, y: float) -> tuple[float, float]:
            share = 0.5 if first == last else (x - first) / (last - first)
            high = HEIGHT - TOP - BOTTOM
            level = HEIGHT - BOTTOM - high * (scale(y) - floor) / (top - floor)
            return LEFT + share * (right - LEFT), level

        heading = escape(escape_line(self.title))
        parts = [
            markup.svg_background(colours.paper),
            f'<text x="{MARGIN}" y="{MARGIN + TITLE}" font-size="{TITLE}">{heading}</text>',
            *_axes(self, heights, at, right, colours),
            *_lines(self.drawn, at, colours),
        ]
        return markup.svg_element(self.title, WIDTH, HEIGHT, parts, colours.ink)

    @property
    def fields(self) -> dict[str, object]:
        """Fields of a record for views: the drawing, and the values of its lines."""
        lines = [{"line": number, **vars(line)} for number, line in self.drawn]
        drawing = self.svg(PAGE).encode()
        return {"title": self.title, "across": self.across, "lines": lines, "drawing": drawing}

    def _repr_html_(self) -> str:
        return self.svg()


@dataclass(frozen=True)
class Report(markup.HTMLPage):
    """Report with a table, charts by name and notes: one HTML page, which notebooks show."""

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    charts: Mapping[str, Chart] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def html(self) -> str:
        charts = [chart.svg(PAGE) for chart in self.charts.values()]
        return markup.report_page(self.title, self.columns, self.rows, charts, self.notes)


def draw_charts(title: str, charts: Sequence[Chart], columns: int = 1) -> str:
    """Charts below each other, or in rows of several columns, as one standalone SVG."""
    moved = (
        f'<g transform="translate({WIDTH * (number % columns)} {HEIGHT * (number // columns)})">\n'
        f"{chart.svg()}</g>"
        for number, chart in enumerate(charts)
    )
    rows = math.ceil(len(charts) / columns)
    return markup.svg_element(title, WIDTH * columns, HEIGHT * rows, moved)


def _steps(values: Sequence[float]) -> list[float]:
    """Ticks from 0 to past the largest value, in round steps."""
    highest = max(values, default=1.0)
    step = next((n for n in (1, 2, 5, 10, 20, 50) if n * 6 >= highest), 100)
    return [step * number for number in range(max(1, math.ceil(highest / step)) + 1)]


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most ``most`` round numbers, and one at either end, that enclose all values."""
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # all values are equal
        margin = 0.1 * abs(low) or 1.0
        low, high = low - margin, high + margin
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(n * power for n in (1, 2, 5, 10) if n * power * most >= high - low)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _powers(values: Sequence[float]) -> list[float]:
    """Ticks from below the least value to above the largest, by powers of 10 or 100."""
    low, high = map(math.log10, (min(values, default=1.0), max(values, default=10.0)))
    first, last = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    step = 1 if last - first <= 8 else 2
    return [10.0**power for power in range(last, first - step, -step)][::-1]


def _axes(chart: Chart, heights, at, right: float, colours: Palette) -> Iterator[str]:
    yield f'<g fill="{colours.quiet}">'
    yield f'<text x="{MARGIN}" y="{TOP - 18}">{escape(escape_line(chart.up))}</text>'
    yield f'<text x="{LEFT}" y="{HEIGHT - 20}">{escape(escape_line(chart.across))}</text>'
    for y in heights:
        _, level = at(0, y)
        rule = f'stroke="{colours.rule}"'
        yield f'<line x1="{LEFT}" x2="{right:.1f}" y1="{level:.1f}" y2="{level:.1f}" {rule}/>'
        yield f'<text x="{LEFT - 8}" y="{level + 4:.1f}" text-anchor="end">{y:,g}</text>'
    for x, name in chart.ticks:
        left, floor = at(x, heights[0])
        place = f'x="{left:.1f}" y="{floor + 20:.1f}" text-anchor="middle"'
        yield f"<text {place}>{escape(name)}</text>"
    yield "</g>"


def _lines(lines: Sequence[tuple[int, ChartLine]], at, colours: Palette) -> Iterator[str]:
    """Marks of all lines, and then their names, over the marks of other lines."""
    for number, line in lines:
        yield f'<g data-line="{number}">'
        yield from _marks(line, at, colours.hue(number), dashed=number >= len(colours.hues))
        yield "</g>"
    ends = [at(*line.points[-1]) for _, line in lines]
    levels = _spread([y for _, y in ends], HEIGHT - BOTTOM)
    for (number, line), (x, _), level in zip(lines, ends, levels, strict=True):
        name, left = clip(line.name, LONGEST), f"{x + BESIDE:.1f}"
        size = f'width="{text_length(name):.1f}" height="{APART}" fill="{colours.paper}"'
        place = f'x="{left}" y="{level + 4:.1f}" fill="{colours.hue(number)}"'
        yield f'<g data-line="{number}"><rect x="{left}" y="{level - APART / 2:.1f}" {size}/>'
        yield f"<text {place}>{escape(name)}</text></g>"


def _marks(line: ChartLine, at, hue: str, *, dashed: bool) -> Iterator[str]:
    """A line, the intervals of its points, and dots with tooltips if there are few."""
    points = [at(*point) for point in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    yield f'<polyline points="{path}" fill="none" stroke="{hue}" stroke-width="2"{dashes}/>'
    for (x, _), (low, high) in zip(line.points, line.intervals, strict=False):
        (left, bottom), (_, top) = at(x, low), at(x, high)
        bounds = f'x1="{left:.1f}" x2="{left:.1f}" y1="{bottom:.1f}" y2="{top:.1f}"'
        yield f'<line {bounds} stroke="{hue}" stroke-width="1.2"/>'
    shown = zip(points, line.points, strict=True) if len(points) <= DOTS else ()
    for (x, y), (_, value) in shown:
        tooltip = f"<title>{escape(escape_line(line.name))}: {value:.3g}</title>"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{hue}">{tooltip}</circle>'


def _spread(heights: Sequence[float], floor: float) -> list[float]:
    """Vertical positions of the line names, moved down where they would overlap."""
    moved, downwards = list(heights), sorted(range(len(heights)), key=heights.__getitem__)
    before, after = float("-inf"), floor + APART
    for number in downwards:
        moved[number] = before = max(moved[number], before + APART)
    for number in reversed(downwards):
        moved[number] = after = min(moved[number], after - APART)
    return moved


def chart_text(chart: Chart, width: int = COLUMNS, height: int = ROWS) -> Iterator[Text]:
    """Lines of a chart as text, one mark per line and column: title, plot with axes, legend."""
    lines = chart.drawn
    positions = [x for _, line in lines for x, _ in line.points]
    first, last = min(positions, default=0.0), max(positions, default=1.0)
    heights = chart.heights()
    columns = max(10, width - LABEL - 3)
    cells: list[list[tuple[str, str]]] = [[(" ", "")] * columns for _ in range(height)]
    for number, line in lines:
        style = MARKS[number % len(MARKS)], LIGHT.hue(number)
        for column, y in _by_column(line, first, last, columns):
            share = (y - heights[0]) / (heights[-1] - heights[0])
            cells[height - 1 - round(share * (height - 1))][column] = style
    yield Text(clip(chart.title, width), "bold")
    for row, marks in enumerate(cells):
        value = heights[-1] + (heights[0] - heights[-1]) * row / (height - 1)
        labelled = row in (0, height // 2, height - 1)
        text = Text(f"{value:>{LABEL}.4g} ┤" if labelled else " " * LABEL + " │")
        for mark, hue in marks:
            text.append(mark, hue)
        text.rstrip()
        yield text
    end = f"{last:,.0f} {chart.across}"
    yield Text(" " * LABEL + " └" + "─" * columns)
    yield Text(f"{' ' * LABEL}  {first:<{columns - len(end)},.0f}{end}")
    if len(lines) > 1:
        yield _text_legend(lines, width)


def _by_column(
    line: ChartLine, first: float, last: float, columns: int
) -> Iterator[tuple[int, float]]:
    """The height of a line in each column between its ends, interpolated between its points."""
    across = [x for x, _ in line.points]
    span = (last - first) or 1.0
    for column in range(columns):
        x = first + span * column / (columns - 1)
        if across[0] - 0.5 * span / columns <= x <= across[-1] + 0.5 * span / columns:
            yield column, _height(line.points, across, x)


def _height(points: Sequence[tuple[float, float]], across: Sequence[float], x: float) -> float:
    right = bisect_right(across, x)
    if right in (0, len(points)):
        return points[min(right, len(points) - 1)][1]
    (left_x, left_y), (right_x, right_y) = points[right - 1], points[right]
    return left_y + (right_y - left_y) * (x - left_x) / (right_x - left_x)


def _text_legend(lines: Sequence[tuple[int, ChartLine]], width: int) -> Text:
    """The mark and the name of each line."""
    legend = Text(" " * (LABEL + 2))
    for number, line in lines:
        legend.append(MARKS[number % len(MARKS)], LIGHT.hue(number))
        legend.append(f" {clip(line.name, width // 2)}   ")
    legend.rstrip()
    return legend
