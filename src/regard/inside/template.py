"""Pages that need nothing but a browser: a file of this folder, filled."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from regard.inside.labels import visible_line


def text(name: str) -> str:
    """What a file beside this one says."""
    return (files("regard.inside") / name).read_text(encoding="utf-8")


def filled(name: str, *, title: str, **parts: str) -> str:
    """The page of that name; its title is plain text, its other parts are HTML."""
    return Template(text(name)).substitute(title=escape(visible_line(title)), **parts)


def figures(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    charts: Iterable[str],
    notes: Iterable[str],
) -> str:
    """A page with one table, its charts, and what must be said of them."""
    return filled(
        "page.figures.html",
        title=title,
        table="\n".join([_row("th", columns), *(_row("td", cells) for cells in rows)]),
        chart="\n".join(charts),
        notes="\n".join(f"<p>{escape(visible_line(note))}</p>" for note in notes),
    )


def _row(tag: str, cells: Sequence[str]) -> str:
    return (
        "<tr>" + "".join(f"<{tag}>{escape(visible_line(cell))}</{tag}>" for cell in cells) + "</tr>"
    )
