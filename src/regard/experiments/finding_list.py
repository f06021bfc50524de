"""Findings as they are listed, without torch, and the verdict on one as a result."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from rich.text import Text

from regard.experiments.result import (
    Cell,
    ExperimentResult,
    OutputTable,
    lines_of,
    plain_table,
    text_column,
)

if TYPE_CHECKING:
    from regard.experiments.findings.finding import Verdict


@dataclass(frozen=True)
class FindingList(ExperimentResult):
    """All findings, with what each needs."""

    rows: Sequence[Mapping[str, Cell]]

    @classmethod
    def read(cls) -> "FindingList":
        """The table that ``docs/reference.py`` writes: the findings themselves need torch."""
        table = files("regard") / "experiments" / "findings" / "table.json"
        return cls(json.loads(table.read_text(encoding="utf-8")))

    def tables(self) -> list[OutputTable]:
        columns = [*map(text_column, self.rows[0])]
        return [OutputTable(columns, [[*record.values()] for record in self.rows])]

    def text(self, width: int | None = None) -> Iterator[str]:
        for record in self.rows:
            for heading, text in record.items():
                yield str(text) if heading == "finding" else f"    {heading}: {text}"


@dataclass(frozen=True)
class VerdictResult(ExperimentResult):
    """A verdict, its parts and its figures."""

    verdict: "Verdict"

    @property
    def _figures(self) -> list[OutputTable]:
        evidence = self.verdict.evidence
        figures = plain_table(evidence.columns, evidence.rows, evidence.notes)
        return [figures] if evidence.rows else []

    def tables(self) -> list[OutputTable]:
        facts = OutputTable([text_column("part"), text_column("text")], self.verdict.facts())
        return [facts, *self._figures]

    def records(self) -> list[dict[str, object]]:
        return [self.verdict.to_json()]

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        for heading, text in self.verdict.facts():
            yield f"{heading + ':':<11}{text}"
        yield ""
        yield from lines_of(self._figures, "text", width)
