"""Agreement of language models beside that with the nearest noun: a table, charts and a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, ClassVar

from regard.ground.errors import BadInput
from regard.inside.studies.agreement import BASELINE, AgreementScores
from regard.inside.views.line_chart import (
    PAGE_COLOURS,
    PRINT_COLOURS,
    ChartColours,
    ChartLine,
    draw_chart,
)
from regard.inside.views.markup import HTMLPage, report_page
from regard.metrics.intervals import spread

TITLE = "Agreement of the verb with its subject"
UP = "how often the right form is more probable, in percent"
DISTANCE, ATTRACTORS = CHARTS = ("distance", "attractors")


@dataclass(frozen=True)
class AgreementTable(HTMLPage):
    """Scores by the name of the model, one for each seed, on the same sentences."""

    title: ClassVar[str] = TITLE
    models: Mapping[str, Sequence[AgreementScores]]

    @classmethod
    def of(cls, models: Mapping[str, Sequence[AgreementScores]]) -> "AgreementTable":
        """Models compared on the sentences of which all of them know the words."""
        scored = [
            {choice.sentence for choice in scores.choices}
            for seeds in models.values()
            for scores in seeds
        ]
        common = set.intersection(*scored)
        if not common:
            raise BadInput("there is no sentence of which all models know the words")
        return cls(
            {
                name: [scores.where(common.__contains__) for scores in seeds]
                for name, seeds in models.items()
            }
        )

    def at(self, distance: int, attractors: int | None = None) -> "AgreementTable":
        """The same of sentences with so many words, and attractors, between subject and verb."""
        return AgreementTable(
            {
                name: [scores.at(distance, attractors) for scores in seeds]
                for name, seeds in self.models.items()
            }
        )

    @property
    def columns(self) -> list[str]:
        """The column names of the table."""
        return ["words between", "attractors", "sentences", *self.models, BASELINE]

    @property
    def rows(self) -> list[list[str]]:
        """One for each distance and number of attractors, and two for all sentences."""
        kinds = [[str(n) for n in kind] + self.at(*kind)._cells for kind in self._first.kinds]
        whole = [
            spread([scores.whole_accuracy for scores in seeds]) for seeds in self.models.values()
        ]
        return [
            *kinds,
            ["all", "", *self._cells],
            ["whole sentences", "", *self._cells[:1], *whole, ""],
        ]

    @property
    def notes(self) -> list[str]:
        """What the figures are."""
        seeds = max(map(len, self.models.values()))
        figures = "" if seeds == 1 else f"; means of {seeds} seeds ± their standard deviation"
        return [
            "accuracy in percent: how often the verb that agrees with the subject is more probable "
            "than its other form, by the words between subject and verb and the nouns of the other "
            f"number among them; chance is 50{figures}"
        ]

    def records(self) -> Iterator[dict[str, Any]]:
        """For JSON: one for each model and seed."""
        for name, seeds in self.models.items():
            for seed, scores in enumerate(seeds, start=1):
                numbered = {"seed": seed} if len(seeds) > 1 else {}
                yield {"model": name, **numbered, **scores.to_json()}

    def svg(self, chart: str = DISTANCE, colours: ChartColours = PRINT_COLOURS) -> str:
        """Accuracy by "distance", or by "attractors" at the longest distance."""
        kinds = self._first.kinds
        longest, _ = kinds[-1]
        across, parts = {
            DISTANCE: (
                "words between subject and verb",
                {distance: self.at(distance) for distance, _ in kinds},
            ),
            ATTRACTORS: (
                f"attractors among {longest} words between subject and verb",
                {
                    number: self.at(*kind)
                    for kind in kinds
                    if kind[0] == longest
                    for number in kind[1:]
                },
            ),
        }[chart]
        ticks = [(float(x), str(x)) for x in parts]
        return draw_chart(TITLE, across, UP, ticks, self._lines(parts), colours)

    def html(self) -> str:
        """One offline page with the table and both charts."""
        charts = [self.svg(chart, PAGE_COLOURS) for chart in CHARTS]
        return report_page(TITLE, self.columns, self.rows, charts, self.notes)

    def _lines(self, parts: "Mapping[int, AgreementTable]") -> list[ChartLine]:
        lines = [
            ChartLine(
                name,
                [(x, mean(one.accuracy for one in part.models[name])) for x, part in parts.items()],
            )
            for name in self.models
        ]
        return [
            *lines,
            ChartLine(BASELINE, [(x, part._first.baseline) for x, part in parts.items()]),
        ]

    @property
    def _first(self) -> AgreementScores:
        """Those of any model: all have the same sentences."""
        return next(iter(self.models.values()))[0]

    @property
    def _cells(self) -> list[str]:
        accuracies = [
            spread([scores.accuracy for scores in seeds]) for seeds in self.models.values()
        ]
        first = self._first
        return [f"{len(first.choices):,}", *accuracies, f"{first.baseline:.1f}"]
