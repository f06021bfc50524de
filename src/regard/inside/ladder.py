"""Several models on the same data, side by side: a table, a chart against length, a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.inside.chart import OF_PAGE, PRINTED, Colours, Line, chart
from regard.inside.template import figures
from regard.metrics.by_length import LengthBucket
from regard.metrics.translation import MetricScore


@dataclass(frozen=True)
class Result:
    """What one rung of a ladder came to; ``aer`` where gold links and attention are there."""

    name: str
    score: MetricScore
    buckets: Sequence[LengthBucket]
    aer: float | None
    cost: dict[str, float]

    @property
    def figures(self) -> dict[str, Any]:
        """Everything in plain numbers."""
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
        """Tokens read and written in a second of training, judging counted in."""
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
class Ladder:
    """Rungs from the lowest up, and how they were judged."""

    title: str
    results: Sequence[Result]
    search: str

    @property
    def columns(self) -> list[str]:
        """The head of the table."""
        first, *others = map(str, self.results[0].buckets)
        buckets = [f"{first} words", *others]
        return ["model", "BLEU", *buckets, "AER", "parameters", "FLOPs", "tokens/s"]

    @property
    def notes(self) -> list[str]:
        """What the numbers are."""
        sizes = ", ".join(str(one.sentences) for one in self.results[0].buckets)
        return [
            f"{self.results[0].score.name} {self.results[0].score.signature}, {self.search}; "
            f"by words of the source, {sizes} sentences",
            "AER: alignment error rate of the cross-attention, read as chosen on the development "
            "set; FLOPs of training; tokens read and written a second, judging counted in",
        ]

    def svg(self) -> str:
        """BLEU against the length of the source, as a drawing that stands alone."""
        return self._chart(self.title, PRINTED)

    def _chart(self, title: str, colours: Colours) -> str:
        ticks = [(one.mean, str(one)) for one in self.results[0].buckets]
        lines = [
            Line(result.name, [(one.mean, one.score.value) for one in result.buckets])
            for result in self.results
        ]
        return chart(title, "words of the source", "BLEU", ticks, lines, colours)

    def html(self) -> str:
        """Table and chart as one page; it needs nothing but a browser."""
        rows = [result.cells() for result in self.results]
        picture = self._chart("BLEU by the length of the source", OF_PAGE)
        return figures(self.title, self.columns, rows, [picture], self.notes)
