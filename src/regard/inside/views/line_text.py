"""Line charts as text: one mark per line and column, in the colours of the picture."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from rich.text import Text

from regard.inside.views.line_chart import HUES, Chart, ChartLine
from regard.inside.views.markup import clip

MARKS = "●○▲△■□◆◇"
LABEL = 9  # characters of a number beside the y-axis
WIDTH, HEIGHT = 72, 13


def chart_text(chart: Chart, width: int = WIDTH, height: int = HEIGHT) -> Iterator[Text]:
    """Lines of a chart as text: its title, the plot with its axes, and the legend."""
    lines = [line for line in chart.lines if line.points]
    positions = [x for line in lines for x, _ in line.points]
    first, last = min(positions, default=0.0), max(positions, default=1.0)
    heights = chart.heights()
    columns = max(10, width - LABEL - 3)
    cells: list[list[tuple[str, str]]] = [[(" ", "")] * columns for _ in range(height)]
    for number, line in enumerate(lines):
        style = MARKS[number % len(MARKS)], HUES[number % len(HUES)]
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
        yield _legend(lines, width)


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


def _legend(lines: Sequence[ChartLine], width: int) -> Text:
    """The mark and the name of each line."""
    legend = Text(" " * (LABEL + 2))
    for number, line in enumerate(lines):
        legend.append(MARKS[number % len(MARKS)], HUES[number % len(HUES)])
        legend.append(f" {clip(line.name, width // 2)}   ")
    legend.rstrip()
    return legend
