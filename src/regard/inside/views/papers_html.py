"""The lineage of papers as one page: a tree over the years, and a section for each paper."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from regard.inside.views.markup import fill_template, html_table

YEAR, LINE, INDENT, LEFT, TOP = 130, 26, 18, 12, 50  # pixels


@dataclass(frozen=True)
class PaperSection:
    """A paper, the one it comes ``after``, and its tables by heading: rows of named values.

    ``reference`` says where it appeared, and ``link`` leads there.
    """

    name: str
    year: int
    title: str
    reference: str
    link: str | None
    after: str | None
    tables: Mapping[str, Sequence[Mapping[str, object]]]

    @property
    def anchor(self) -> str:
        """The place of a paper in the page."""
        return self.name.lower()


def papers_page(sections: Sequence[PaperSection]) -> str:
    """A page of all papers, which loads nothing."""
    return fill_template(
        "papers.html",
        title="Attention models, paper by paper",
        styles=["report.css", "papers.css"],
        lineage="\n".join(_lineage(sections)),
        sections="\n".join(map(_section, sections)),
    )


def show_value(value: object) -> str:
    """A value in a cell of a table."""
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return str(float(f"{value:.6g}"))
    return f"{value:,}" if isinstance(value, int) and value > 9_999 else str(value)


def _section(paper: PaperSection) -> str:
    where = escape(paper.reference)
    link = where if paper.link is None else f'<a href="{paper.link}">{where}</a>'
    tables = (
        f"<h3>{escape(heading)}</h3>\n"
        + html_table(list(rows[0]), [[*map(show_value, row.values())] for row in rows])
        for heading, rows in paper.tables.items()
        if rows
    )
    return "\n".join(
        [
            f'<section id="{paper.anchor}">',
            f"<h2>{escape(paper.name)} ({paper.year})</h2>",
            f"<p>{escape(paper.title)}, {link}</p>",
            *tables,
            "</section>",
        ]
    )


def _lineage(sections: Sequence[PaperSection]) -> Iterator[str]:
    """A tree: time runs to the right, and each paper hangs below the one it comes after."""
    order = [*_by_descent(sections, None)]
    first, last = min(one.year for one in order), max(one.year for one in order)
    height = TOP + LINE * len(order)
    yield f'<svg role="img" width="{LEFT + YEAR * (last - first + 1)}" height="{height}">'
    yield "<title>Which paper comes after which</title>"
    for year in range(first, last + 1):
        yield f'<text class="year" x="{LEFT + YEAR * (year - first)}" y="18">{year}</text>'
    at: dict[str, tuple[int, int]] = {}
    for row, one in enumerate(order):
        x, y = LEFT + YEAR * (one.year - first), TOP + LINE * row
        if one.after is not None:
            above, top = at[one.after]
            x = max(x, above + INDENT)
            yield f'<path d="M{above + 6} {top + 5}V{y - 5}H{x - 4}"/>'
        at[one.name] = x, y
        yield f'<a href="#{one.anchor}"><text x="{x}" y="{y}">{escape(one.name)}</text></a>'
    yield "</svg>"


def _by_descent(sections: Sequence[PaperSection], parent: str | None) -> Iterator[PaperSection]:
    """Each paper before those that come after it."""
    for one in sections:
        if one.after == parent:
            yield one
            yield from _by_descent(sections, one.name)
