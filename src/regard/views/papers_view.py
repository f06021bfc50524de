"""Record of the view of papers: which builds on which, and the tables of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.views.view_record import ViewRecord


@dataclass(frozen=True)
class PaperSection:
    """Section of a paper: the paper that it builds on (``after``), and its tables by heading.

    A table is a list of rows with named values. ``reference`` is the publication, ``link`` its URL.
    """

    name: str
    year: int
    title: str
    reference: str
    link: str | None
    after: str | None
    tables: Mapping[str, Sequence[Mapping[str, object]]]


def papers_record(sections: Sequence[PaperSection]) -> ViewRecord:
    """Papers with what each builds on, and their tables."""
    papers = [{**vars(paper), "tables": _shown_tables(paper)} for paper in sections]
    return ViewRecord.of("papers", title="Attention models, paper by paper", papers=papers)


def show_value(value: object) -> str:
    """Text of a value in a table cell."""
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return str(float(f"{value:.6g}"))
    return f"{value:,}" if isinstance(value, int) and value > 9_999 else str(value)


def _shown_tables(paper: PaperSection) -> dict[str, list[dict[str, str]]]:
    return {
        heading: [{name: show_value(value) for name, value in row.items()} for row in rows]
        for heading, rows in paper.tables.items()
    }
