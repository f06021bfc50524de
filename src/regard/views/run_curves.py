"""Curves of training runs: loss, learning rate and development metrics by step, run by run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from rich.text import Text

from regard.views.line_chart import Chart, ChartLine, chart_text, draw_charts, round_ticks
from regard.views.pages import RecordPage
from regard.views.view_record import ViewRecord

DEV = "dev"
PREFIXES = {"train": ""}  # before the figures of an event; others have its type
SHOWN = ("loss", "rate")  # figures of reports that are drawn unless others are named
NO_CURVES = ("event", "step", "seconds", "tokens", "flops")  # figures that only grow
Figures = Mapping[str, str | float]
Events = Sequence[Figures]
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Curves(RecordPage):
    """Curves of runs: the figures of all events by the name of the run.

    A figure of an evaluation has "dev" before its name: "dev loss". Training figures are smoothed
    by an exponential moving average of this decay, without bias (as TensorBoard does).
    """

    runs: Mapping[str, Events]
    smooth: float = 0.0
    by: str = "step"
    only: Sequence[str] = ()

    @property
    def title(self) -> str:
        """The names of the runs."""
        return ", ".join(self.runs)

    @property
    def known(self) -> list[str]:
        """Names of all figures of the runs, figures of reports first."""
        events = [event for events in self.runs.values() for event in events]
        names = [_name(event, key) for event in events for key in _keys(event)]
        return sorted(dict.fromkeys(names), key=lambda name: name.startswith(f"{DEV} "))

    @property
    def drawn(self) -> list[str]:
        """Names of the figures that are drawn: loss, figures of evaluations, and the rate."""
        if self.only:
            return list(self.only)
        names = [name for name in self.known if name.startswith(f"{DEV} ") or name in SHOWN]
        return sorted(names, key=lambda name: SHOWN[1:].count(name))

    @property
    def charts(self) -> dict[str, Chart]:
        """One chart for each figure, with a line for each run."""
        ticks = self._ticks
        return {name: self._chart(name, ticks) for name in self.drawn}

    @property
    def last_values(self) -> list[tuple[str, float, *tuple[float | None, ...]]]:
        """Run, last step and last value of each figure that is drawn, run by run."""
        rows = list[tuple[str, float, *tuple[float | None, ...]]]()
        for run, events in self.runs.items():
            points = [_points(events, name, "step") for name in self.drawn]
            last = max((float(event["step"]) for event in events), default=0)
            rows.append((run, last, *(line[-1][1] if line else None for line in points)))
        return rows

    def svg(self) -> str:
        """All charts below each other, as a standalone SVG."""
        return draw_charts(self.title, [*self.charts.values()])

    def view_record(self) -> ViewRecord:
        columns = ["run", "step", *self.drawn]
        rows = [[run, f"{step:,.0f}", *values] for run, step, *values in self.last_values]
        note = f"training figures are smoothed by {self.smooth:g}"
        return ViewRecord.of(
            "curves",
            title=self.title,
            charts=[chart.fields for chart in self.charts.values()],
            table={"title": "last values", "columns": columns, "rows": rows},
            notes=[note] if self.smooth else [],
        )

    def text(self, width: int) -> Iterator[Text]:
        """All charts as lines of text."""
        for chart in self.charts.values():
            yield from chart_text(chart, width)
            yield Text("")

    @property
    def _ticks(self) -> list[tuple[float, str]]:
        """Ticks of the x-axis of all charts, which ends at the last point of any run."""
        every = [(events, name) for events in self.runs.values() for name in self.drawn]
        ends = [x for events, name in every for x, _ in _points(events, name, self.by)]
        last = max(ends, default=1.0)
        ticks = [x for x in round_ticks(min(ends, default=0.0), last) if x <= last]
        if self.by == "step":
            ticks = [x for x in ticks if x.is_integer()]
        return [*((x, f"{x:,.6g}") for x in ticks), *([] if last in ticks else [(last, "")])]

    def _chart(self, name: str, ticks: Sequence[tuple[float, str]]) -> Chart:
        lines = []
        for run, events in self.runs.items():
            points = _points(events, name, self.by)
            if self.smooth and not name.startswith(f"{DEV} "):
                points = smoothed(points, self.smooth)
            lines.append(ChartLine(run, points))
        return Chart(name, self.by, "", ticks, lines, fitted=True)


def smoothed(points: Points, decay: float) -> Points:
    """Exponential moving average, divided by the sum of its weights: no bias to 0 at the start."""
    average, weight, result = 0.0, 0.0, []
    for x, y in points:
        average, weight = decay * average + (1 - decay) * y, decay * weight + 1 - decay
        result.append((x, average / weight))
    return result


def _name(event: Figures, key: str) -> str:
    prefix = str(event["event"])
    return PREFIXES.get(prefix, f"{prefix} ") + key


def _keys(event: Figures) -> list[str]:
    """Names of the numbers of an event that make a curve."""
    return [key for key, value in event.items() if key not in NO_CURVES and _is_number(value)]


def _points(events: Events, name: str, by: str) -> Points:
    """The points of a figure, without those that are not finite."""
    return [
        (float(event[by]), float(event[key]))
        for event in events
        for key in _keys(event)
        if _name(event, key) == name and by in event and isfinite(float(event[key]))
    ]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
