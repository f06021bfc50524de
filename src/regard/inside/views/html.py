"""Self-contained HTML pages: templates of ``assets``, filled."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Protocol

from regard.inside.views.escape import escape_line

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def read_asset(name: str) -> str:
    """The text of a file in ``assets``."""
    return (files("regard.inside.views") / "assets" / name).read_text(encoding="utf-8")


def fill_template(
    name: str, *, title: str, styles: Sequence[str], scripts: Sequence[str] = (), **parts: str
) -> str:
    """A page from the template of that name, which loads no file, font or script.

    The title is plain text, styles and scripts are names of assets, and other parts are HTML.
    """
    title = escape(escape_line(title))
    head = Template(read_asset("head.html")).substitute(
        title=title,
        policy=f"{POLICY}; script-src 'unsafe-inline'" if scripts else POLICY,
        style="".join(map(read_asset, styles)),
    )
    script = "\n".join(map(read_asset, scripts))
    return Template(read_asset(name)).substitute(title=title, head=head, script=script, **parts)


class Titled(Protocol):
    """A page with a title."""

    @property
    def title(self) -> str:
        """In plain text."""

    def html(self) -> str:
        """One offline page."""


class HTMLPage(ABC):
    """A result with a title that renders itself as one offline page, and so in notebooks."""

    @abstractmethod
    def html(self) -> str:
        """One offline page."""

    def _repr_html_(self: Titled) -> str:
        """For notebooks: in an iframe, so that the styles of page and notebook stay apart."""
        return (
            f'<iframe srcdoc="{escape(self.html())}" title="{escape(escape_line(self.title))}" '
            'sandbox="allow-scripts" style="width:100%;height:760px;border:0"></iframe>'
        )


def report_page(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    charts: Iterable[str],
    notes: Iterable[str],
) -> str:
    """A page with a table, charts (SVG) and notes."""
    return fill_template(
        "report.html",
        title=title,
        styles=["report.css"],
        table=html_table(columns, rows),
        chart="\n".join(charts),
        notes="\n".join(f"<p>{escape(escape_line(note))}</p>" for note in notes),
    )


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain texts that scrolls if it is too wide."""
    lines = [_table_row("th", columns), *(_table_row("td", row) for row in rows)]
    return "\n".join(['<div class="scrolls">', "<table>", *lines, "</table>", "</div>"])


def score_rows(scores: Mapping[str, float], most: int | None = None) -> str:
    """Rows of a table: the names with the highest scores, each with its score and a bar."""
    names = sorted(scores, key=scores.__getitem__, reverse=True)[:most]
    return "\n".join(
        f"<tr><th>{escape(escape_line(name))}</th><td>{scores[name]:.3f}</td>"
        f'<td><i style="--w:{min(max(scores[name], 0), 1):.3f}"></i></td></tr>'
        for name in names
    )


def _table_row(tag: str, cells: Sequence[str]) -> str:
    texts = (escape(escape_line(cell)) for cell in cells)
    return "<tr>" + "".join(f"<{tag}>{text}</{tag}>" for text in texts) + "</tr>"
