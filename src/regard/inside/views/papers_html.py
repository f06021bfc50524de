"""HTML page of all papers: a tree over the years, and a section for each paper."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from regard.inside.views.markup import fill_template, html_table, text_length

YEAR, LINE, INDENT, LEFT, TOP = 88, 26, 18, 12, 50  # pixels
LETTERS = 16  # font size of the page


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

    @property
    def anchor(self) -> str:
        """Anchor of the section in the page."""
        return self.name.lower()


def papers_page(sections: Sequence[PaperSection]) -> str:
    """HTML page of all papers, without external resources."""
    return fill_template(
        "papers.html",
        title="Attention models, paper by paper",
        styles=["report.css", "papers.css"],
        lineage="\n".join(_lineage(sections)),
        tree="\n".join(_nested(sections, None)),
        sections="\n".join(map(_section, sections)),
    )


def show_value(value: object) -> str:
    """Text of a value in a table cell."""
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return str(float(f"{value:.6g}"))
    return f"{value:,}" if isinstance(value, int) and value > 9_999 else str(value)


def _section(paper: PaperSection) -> str:
    where = escape(paper.reference)
    link = where if paper.link is None else f'<a href="{paper.link}">{where}</a>'
    tables = (
        f'<div class="{escape(heading.split()[0].lower())}">\n<h3>{escape(heading)}</h3>\n'
        + html_table(list(rows[0]), [[*map(show_value, row.values())] for row in rows])
        + "\n</div>"
        for heading, rows in paper.tables.items()
        if rows
    )
    heading = f"<h2>{escape(paper.name)} ({paper.year})</h2>"
    title = f"<p>{escape(paper.title)}, {link}</p>"
    return "\n".join([f'<section id="{paper.anchor}">', heading, title, *tables, "</section>"])


def _lineage(sections: Sequence[PaperSection]) -> Iterator[str]:
    """Draw the tree as SVG: time runs to the right, each paper is below the one it builds on."""
    order = [*_by_descent(sections, None)]
    years = [paper.year for paper in order]
    first, last = min(years), max(years)
    parts = [
        f'<text class="year" x="{LEFT + YEAR * (year - first)}" y="18">{year}</text>'
        for year in range(first, last + 1)
    ]
    at: dict[str, tuple[int, int]] = {}
    right = LEFT + YEAR * (last - first + 1)
    for row, paper in enumerate(order):
        x, y = LEFT + YEAR * (paper.year - first), TOP + LINE * row
        if paper.after is not None:
            above, top = at[paper.after]
            x = max(x, above + INDENT)
            parts.append(f'<path d="M{above + 6} {top + 5}V{y - 5}H{x - 4}"/>')
        at[paper.name] = x, y
        right = max(right, x + round(text_length(paper.name, LETTERS)) + LEFT)
        name = f'<text x="{x}" y="{y}">{escape(paper.name)}</text>'
        parts.append(f'<a href="#{paper.anchor}">{name}</a>')
    yield f'<svg role="img" width="{right}" height="{TOP + LINE * len(order)}">'
    yield "<title>Which paper comes after which</title>"
    yield from parts
    yield "</svg>"


def _nested(sections: Sequence[PaperSection], parent: str | None) -> Iterator[str]:
    """Draw the tree as nested lists, which fit into a narrow window."""
    papers = [paper for paper in sections if paper.after == parent]
    if papers:
        yield "<ul>"
    for paper in papers:
        link = f'<a class="paper" href="#{paper.anchor}">{escape(paper.name)}</a>'
        yield f'<li>{link} <span class="year">{paper.year}</span>'
        yield from _nested(sections, paper.name)
        yield "</li>"
    if papers:
        yield "</ul>"


def _by_descent(sections: Sequence[PaperSection], parent: str | None) -> Iterator[PaperSection]:
    """Papers in depth-first order: each before the papers that build on it."""
    for paper in sections:
        if paper.after == parent:
            yield paper
            yield from _by_descent(sections, paper.name)
