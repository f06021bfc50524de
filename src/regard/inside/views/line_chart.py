"""Line charts as standalone SVG, and reports: pages with a table, charts and notes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain

from regard.inside.views import markup
from regard.inside.views.markup import MARGIN, TITLE, clip, escape_line, text_length

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 84, 64  # margins of the plot area
LONGEST, APART = 22, 16  # characters of a name, pixels between names
DOTS = 100  # points of a line, beyond which they are not marked
HUES = ("#c04a2a", "#3a80c0", "#47995a", "#b8841c", "#9365be", "#4f9b9e", "#b95789", "#857f76")


@dataclass(frozen=True)
class ChartColours:
    """Colours of a chart: values, or CSS variables of the page around it."""

    paper: str
    ink: str
    quiet: str
    rule: str


PRINT_COLOURS = ChartColours(markup.PAPER, markup.INK, markup.QUIET, markup.RULE)
PAGE_COLOURS = ChartColours("var(--paper)", "var(--ink)", "var(--quiet)", "var(--rule)")


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

    def svg(self, colours: ChartColours = PRINT_COLOURS) -> str:
        """Standalone SVG, in the colours of print or of the page around it."""
        lines = [line for line in self.lines if line.points]
        heights = self.heights()
        scale = math.log10 if self.decades else float
        floor, top = scale(heights[0]), scale(heights[-1])
        positions = [x for x, _ in (*self.ticks, *(p for line in lines for p in line.points))]
        positions = positions or [0.0, 1.0]
        first, last = min(positions), max(positions)

        def at(x: float, y: float) -> tuple[float, float]:
            wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
            share = 0.5 if first == last else (x - first) / (last - first)
            return LEFT + share * wide, HEIGHT - BOTTOM - high * (scale(y) - floor) / (top - floor)

        heading = escape(escape_line(self.title))
        parts = [
            markup.svg_background(colours.paper),
            f'<text x="{MARGIN}" y="{MARGIN + TITLE}" font-size="{TITLE}">{heading}</text>',
            *_axes(self.across, self.up, self.ticks, heights, at, colours),
            *_lines(lines, at, colours),
        ]
        return markup.svg_element(self.title, WIDTH, HEIGHT, parts, colours.ink)

    @property
    def fields(self) -> dict[str, object]:
        """Fields of a record for views."""
        lines = [
            {"name": line.name, "points": line.points, "intervals": line.intervals}
            for line in self.lines
        ]
        axes = {"title": self.title, "across": self.across, "up": self.up, "ticks": self.ticks}
        scale = {"decades": self.decades, "fitted": self.fitted, "spanned": self.spanned}
        return {**axes, **scale, "lines": lines}

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
        charts = [chart.svg(PAGE_COLOURS) for chart in self.charts.values()]
        return markup.report_page(self.title, self.columns, self.rows, charts, self.notes)


def side_by_side(title: str, charts: Sequence[Chart]) -> str:
    """Charts in a row, as one standalone SVG."""
    moved = (
        f'<g transform="translate({WIDTH * number} 0)">\n{chart.svg()}</g>'
        for number, chart in enumerate(charts)
    )
    return markup.svg_element(title, WIDTH * len(charts), HEIGHT, moved)


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


def _axes(across, up, ticks, heights, at, colours: ChartColours) -> Iterator[str]:
    left, right = LEFT, WIDTH - RIGHT
    yield f'<g fill="{colours.quiet}">'
    yield f'<text x="{MARGIN}" y="{TOP - 18}">{escape(escape_line(up))}</text>'
    yield f'<text x="{left}" y="{HEIGHT - 20}">{escape(escape_line(across))}</text>'
    for y in heights:
        _, level = at(0, y)
        rule = f'stroke="{colours.rule}"'
        yield f'<line x1="{left}" x2="{right}" y1="{level:.1f}" y2="{level:.1f}" {rule}/>'
        yield f'<text x="{left - 8}" y="{level + 4:.1f}" text-anchor="end">{y:,g}</text>'
    for x, name in ticks:
        left, floor = at(x, heights[0])
        place = f'x="{left:.1f}" y="{floor + 20:.1f}" text-anchor="middle"'
        yield f"<text {place}>{escape(name)}</text>"
    yield "</g>"


def _lines(lines: Sequence[ChartLine], at, colours: ChartColours) -> Iterator[str]:
    ends = _spread([at(*line.points[-1])[1] for line in lines], HEIGHT - BOTTOM)
    for number, line in enumerate(lines):
        hue = HUES[number % len(HUES)]
        points = [at(*point) for point in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = "" if number < len(HUES) else ' stroke-dasharray="5 4"'
        yield f'<polyline points="{path}" fill="none" stroke="{hue}" stroke-width="2"{dashes}/>'
        for (x, _), (low, high) in zip(line.points, line.intervals, strict=False):
            (left, bottom), (_, top) = at(x, low), at(x, high)
            bounds = f'x1="{left:.1f}" x2="{left:.1f}" y1="{bottom:.1f}" y2="{top:.1f}"'
            yield f'<line {bounds} stroke="{hue}" stroke-width="1.2"/>'
        shown = zip(points, line.points, strict=True) if len(points) <= DOTS else ()
        for (x, y), (_, value) in shown:
            tooltip = f"<title>{escape(escape_line(line.name))}: {value:.3g}</title>"
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{hue}">{tooltip}</circle>'
    for number, (line, end) in enumerate(zip(lines, ends, strict=True)):
        x, name = at(*line.points[-1])[0] + 12, clip(line.name, LONGEST)
        size = f'width="{text_length(name):.1f}" height="{APART}" fill="{colours.paper}"'
        yield f'<rect x="{x:.1f}" y="{end - APART / 2:.1f}" {size}/>'  # over the lines of others
        place = f'x="{x:.1f}" y="{end + 4:.1f}"'
        yield f'<text {place} fill="{HUES[number % len(HUES)]}">{escape(name)}</text>'


def _spread(heights: Sequence[float], floor: float) -> list[float]:
    """Vertical positions of the line names, moved down where they would overlap."""
    moved, downwards = list(heights), sorted(range(len(heights)), key=heights.__getitem__)
    before, after = float("-inf"), floor + APART
    for number in downwards:
        moved[number] = before = max(moved[number], before + APART)
    for number in reversed(downwards):
        moved[number] = after = min(moved[number], after - APART)
    return moved
