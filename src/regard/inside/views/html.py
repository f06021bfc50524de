"""Self-contained HTML pages: templates of ``assets``, filled."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from regard.inside.views.escape import escape_line

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def read_asset(name: str) -> str:
    """The text of a file in ``assets``."""
    return (files("regard.inside.views") / "assets" / name).read_text(encoding="utf-8")


def fill_template(
    name: str, *, title: str, styles: Sequence[str], script: str | None = None, **parts: str
) -> str:
    """A page from the template of that name, which loads no file, font or script.

    The title is plain text, styles and script are names of assets, and other parts are HTML.
    """
    title = escape(escape_line(title))
    head = Template(read_asset("head.html")).substitute(
        title=title,
        policy=POLICY if script is None else f"{POLICY}; script-src 'unsafe-inline'",
        style="".join(map(read_asset, styles)),
    )
    code = "" if script is None else read_asset(script)
    return Template(read_asset(name)).substitute(title=title, head=head, script=code, **parts)


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


def _table_row(tag: str, cells: Sequence[str]) -> str:
    texts = (escape(escape_line(cell)) for cell in cells)
    return "<tr>" + "".join(f"<{tag}>{text}</{tag}>" for text in texts) + "</tr>"
