"""A ladder: models compared on the same data, as a table, a chart by length and a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.inside.views.line_chart import (
    PAGE_COLOURS,
    PRINT_COLOURS,
    ChartColours,
    ChartLine,
    draw_chart,
)
from regard.inside.views.markup import HTMLPage, report_page
from regard.metrics.translation import LengthBucket, MetricScore


@dataclass(frozen=True)
class LadderResult:
    """The results of one model; ``aer`` is None without gold links or cross-attention."""

    name: str
    score: MetricScore
    buckets: Sequence[LengthBucket]
    aer: float | None
    cost: dict[str, float]

    @property
    def figures(self) -> dict[str, Any]:
        """All results, for JSON."""
        return {
            "rung": self.name,
            self.score.name: self.score.value,
            "signature": self.score.signature,
            "by length": [
                {
                    "words": [one.shortest, one.longest],
                    "sentences": one.sentences,
                    self.score.name: one.score.value,
                }
                for one in self.buckets
            ],
            "aer": self.aer,
            "cost": self.cost,
            "tokens per second": self.speed,
        }

    @property
    def speed(self) -> float:
        """Source and target tokens per second of training, including evaluation."""
        return self.cost["tokens"] / max(self.cost["device_seconds"], 1e-9)

    def cells(self) -> list[str]:
        """A row of the table."""
        return [
            self.name,
            f"{self.score.value:.1f}",
            *(f"{one.score.value:.1f}" for one in self.buckets),
            "–" if self.aer is None else f"{self.aer:.3f}",
            f"{self.cost['parameters']:,.0f}",
            f"{self.cost['training_flops']:.2g}",
            f"{self.speed:,.0f}",
        ]


@dataclass(frozen=True)
class Ladder(HTMLPage):
    """The results of all models, and the search they were decoded with."""

    title: str
    results: Sequence[LadderResult]
    search: str

    @property
    def columns(self) -> list[str]:
        """The column names of the table."""
        first, *others = map(str, self.results[0].buckets)
        buckets = [f"{first} words", *others]
        return ["model", "BLEU", *buckets, "AER", "parameters", "FLOPs", "tokens/s"]

    @property
    def notes(self) -> list[str]:
        """Explanations of the columns."""
        sizes = ", ".join(str(one.sentences) for one in self.results[0].buckets)
        return [
            f"{self.results[0].score.name} {self.results[0].score.signature}, {self.search}; "
            f"by number of source words, {sizes} sentences",
            "AER: alignment error rate of the cross-attention, with the method chosen on the "
            "development set; FLOPs of training; tokens per second of training and evaluation",
        ]

    def svg(self) -> str:
        """BLEU by source length, as a standalone SVG."""
        return self._chart(self.title, PRINT_COLOURS)

    def _chart(self, title: str, colours: ChartColours) -> str:
        ticks = [(one.mean, str(one)) for one in self.results[0].buckets]
        lines = [
            ChartLine(result.name, [(one.mean, one.score.value) for one in result.buckets])
            for result in self.results
        ]
        return draw_chart(title, "source words", "BLEU", ticks, lines, colours)

    def html(self) -> str:
        """Table and chart as one offline page."""
        rows = [result.cells() for result in self.results]
        picture = self._chart("BLEU by source length", PAGE_COLOURS)
        return report_page(self.title, self.columns, rows, [picture], self.notes)
