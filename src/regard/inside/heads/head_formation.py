"""Heads while they form: the reports of ``regard train --watch heads``, by step."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.core.errors import BadInput, did_you_mean
from regard.inside.heads.head_report import CAUSAL, COLUMNS, HeadFigures, heads_by_site
from regard.views.head_grid import GridCell, GridSite, draw_head_grids
from regard.views.line_chart import Chart, ChartLine, round_ticks
from regard.views.pages import RecordPage, page
from regard.views.palette import PAGE
from regard.views.view_record import ViewRecord

DRAWN = 5  # heads with a curve
CAUSAL_SCORES = ("previous", "duplicate", "induction")


@dataclass(frozen=True)
class FormationStep:
    """Report on all heads after a number of steps, and the loss of the development set."""

    step: int
    loss: float
    seconds: float
    heads: tuple[HeadFigures, ...]


@dataclass(frozen=True)
class Appearance:
    """The step at which a score of a head first is half of its last value, and stays there."""

    figure: str
    head: HeadFigures
    step: int

    @property
    def value(self) -> float:
        """Last value of the score."""
        return self.head.figures[self.figure] or 0.0


@dataclass(frozen=True)
class Formation(RecordPage):
    """Reports on the heads of one run by step; the page has a slider over them."""

    title: str
    steps: tuple[FormationStep, ...]

    @classmethod
    def of_records(
        cls, title: str, records: Sequence[Mapping[str, Any]], where: str
    ) -> "Formation":
        """Formation from the lines of watch/heads.jsonl; ``where`` is the file, for messages."""
        steps = list[FormationStep]()
        for number, record in enumerate(records, start=1):
            try:
                heads = tuple(map(_head_of, record["heads"]))
                step, loss, seconds = (float(record[key]) for key in ("step", "loss", "seconds"))
            except (KeyError, TypeError, ValueError):
                raise BadInput(f"{where}:{number}: not a report on heads") from None
            if steps and [h.place for h in heads] != [h.place for h in steps[0].heads]:
                raise BadInput(f"{where}:{number}: has other heads than the line before it")
            steps.append(FormationStep(int(step), loss, seconds, heads))
        if not steps or not steps[0].heads:
            raise BadInput(f"{where}: has no report yet")
        formed = cls(title, tuple(steps))
        if not formed.figure_names:
            raise BadInput(f"{where}: heads have no figures that are known here")
        return formed

    @cached_property
    def figure_names(self) -> list[str]:
        """Figures that some head has at some step."""
        return [
            name
            for name in COLUMNS
            if any(head.figures.get(name) is not None for at in self.steps for head in at.heads)
        ]

    @property
    def first_figure(self) -> str:
        """Figure that is shown first: induction of causal models, else the entropy."""
        known = self.figure_names
        return next((name for name in ("induction", "entropy") if name in known), known[0])

    def check_figure(self, name: str) -> str:
        """The name of a figure of these reports."""
        if name not in self.figure_names:
            raise BadInput(f"no figure is called {name!r}{did_you_mean(name, self.figure_names)}")
        return name

    def highest(self, name: str) -> list[HeadFigures | None]:
        """Head with the highest value of a figure at each step; None: no head has it."""
        return [
            max(
                (head for head in at.heads if head.figures.get(name) is not None),
                key=lambda head: head.figures[name] or 0.0,
                default=None,
            )
            for at in self.steps
        ]

    def appearances(self, name: str, least: float = CAUSAL) -> list[Appearance]:
        """Heads whose last value of a score is at least ``least``, and when they appeared.

        A head appears at the first step from which on its score is half of its last value.
        """
        appeared = []
        for number, head in enumerate(self.steps[-1].heads):
            if (value := head.figures.get(name)) is None or value < least:
                continue
            scores = [at.heads[number].figures.get(name) or 0.0 for at in self.steps]
            below = [at for at, score in enumerate(scores) if score < value / 2]
            first = below[-1] + 1 if below else 0
            appeared.append(Appearance(name, head, self.steps[first].step))
        return sorted(appeared, key=lambda each: -each.value)

    @property
    def losses(self) -> list[float | None]:
        """Loss of the development set at each step; None: it is not finite."""
        return [at.loss if math.isfinite(at.loss) else None for at in self.steps]

    @property
    def caption(self) -> str:
        """Numbers of steps and heads, and the cost of the reports."""
        seconds = sum(at.seconds for at in self.steps)
        heads = f"{len(self.steps[0].heads)} heads, {len(self.steps)} reports"
        return f"{heads} up to step {self.steps[-1].step:,}, which took {seconds:.1f} seconds"

    def to_json(self) -> dict[str, object]:
        """Record for JSON: steps, losses, and when heads with causal scores appeared."""
        appeared = [each for name in CAUSAL_SCORES for each in self.appearances(name)]
        return {
            "steps": [at.step for at in self.steps],
            "losses": self.losses,
            "highest": {
                name: [None if head is None else head.figures[name] for head in self.highest(name)]
                for name in self.figure_names
            },
            "appeared": [
                {
                    "figure": each.figure,
                    "site": each.head.site,
                    "layer": each.head.layer,
                    "head": each.head.head,
                    "step": each.step,
                    "value": each.value,
                }
                for each in appeared
            ],
        }

    def chart(self, name: str) -> Chart:
        """Curves of a figure: of the heads with the highest values at the last step."""
        last = {
            number: value
            for number, head in enumerate(self.steps[-1].heads)
            if (value := head.figures.get(name)) is not None
        }
        order = sorted(last, key=last.__getitem__, reverse=True)[:DRAWN]
        lines = []
        for number in order:
            points = [
                (float(at.step), value)
                for at in self.steps
                if (value := at.heads[number].figures.get(name)) is not None
            ]
            site, layer, head = self.steps[0].heads[number].place
            lines.append(ChartLine(f"{site} {layer}.{head}", points))
        return Chart(f"{name}, highest heads", "step", "", self._ticks, lines, fitted=True)

    @property
    def loss_chart(self) -> Chart:
        """Curve of the loss of the development set."""
        points = [(float(at.step), at.loss) for at in self.steps if math.isfinite(at.loss)]
        line = ChartLine("dev loss", points)
        return Chart("loss of the development set", "step", "", self._ticks, [line], fitted=True)

    @property
    def _ticks(self) -> list[tuple[float, str]]:
        first, last = (float(self.steps[end].step) for end in (0, -1))
        inner = [x for x in round_ticks(first, last) if first <= x <= last and x.is_integer()]
        return [(x, f"{x:,.0f}") for x in inner]

    def view_record(self, name: str | None = None) -> ViewRecord:
        """Record with all figures of all steps; the figure ``name`` is shown first."""
        return ViewRecord.of(
            "formation",
            title=self.title,
            caption=self.caption,
            steps=[at.step for at in self.steps],
            losses=self.losses,
            places=[head.place for head in self.steps[0].heads],
            drawing=draw_head_grids(self.title, None, self._sites, (), PAGE).encode(),
            figures={each: self._frames_of(each) for each in self.figure_names},
            loss=self.loss_chart.fields,
            first=name or self.first_figure,
        )

    @property
    def _sites(self) -> list[GridSite]:
        """Empty cells of all heads; the page writes the figures of a step into them."""
        sites = heads_by_site(self.steps[0].heads)
        return [
            GridSite(
                name, [[GridCell(head.anchor, "", "", "", {}) for head in row] for row in rows]
            )
            for name, rows in sites.items()
        ]

    def _frames_of(self, name: str) -> dict[str, object]:
        """One figure by step and head; a cell is darkest at ``most``."""
        values = [[head.figures.get(name) for head in at.heads] for at in self.steps]
        known = [abs(value) for row in values for value in row if value is not None]
        column = COLUMNS[name]
        return {
            "about": column.about,
            "values": np.array([[value or 0.0 for value in row] for row in values]),
            "exists": np.array([[value is not None for value in row] for row in values]),
            "most": max(known, default=0.0) if column.most is None else column.most,
            "digits": column.digits,
            "chart": self.chart(name).fields,
        }

    def svg(self, name: str | None = None) -> str:
        """Chart of a figure as SVG."""
        return self.chart(name or self.first_figure).svg()

    def html(self, name: str | None = None) -> str:
        return page(self.view_record(name))


def _head_of(record: Mapping[str, Any]) -> HeadFigures:
    """Figures of a head from a record of a report."""
    figures = {
        name: None if record[name] is None else record[name] + 0  # not a text
        for name in COLUMNS
        if name in record
    }
    return HeadFigures(record["site"], record["layer"], record["head"], figures)
