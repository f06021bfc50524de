"""Record of the view of papers: a drawing of their lineage, and what each changed, with its tables.

The script of a page finds the name of a paper by ``data-paper``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from regard.views.markup import SANS, escape_line, svg_element, text_length
from regard.views.palette import PAGE, Palette
from regard.views.view_record import ViewRecord

YEAR, LINE, INDENT, LEFT, TOP = 88, 24, 18, 12, 46  # pixels: a year, a line, and margins
NAME, SMALL = 14, 12  # font sizes of names and years
BESIDE = 48  # pixels of the years at the left of a narrow page
WORDS = {"True": "yes", "False": "no", "()": "none"}  # values as a reader says them
NOTHING = ("–", "no", "none", "0", "0.0")  # values of settings that a model does not have
MOST = 8  # settings in a sentence
PREFIX = re.compile(r"^((source|target|trunk)\.)?((stack|embed)\.)?")  # of facts that most have


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
    def changes(self) -> str:
        """Sentence on what the paper changed, added and left out; empty: nothing is known."""
        changed = [rows for rows in self.tables.values() if rows and "fact" in rows[0]]
        if self.after is None or not changed:
            return ""
        told: dict[str, dict[str, None]] = {"changes": {}, "adds": {}, "drops": {}}
        for row in changed[0]:
            fact, before, now = map(_word, row.values())
            name = re.sub(r"[._]", " ", PREFIX.sub("", fact))
            if "–" not in (before, now):
                told["changes"][f"{name} ({before} → {now})"] = None
            elif now not in NOTHING:
                told["adds"][f"{name} ({now})"] = None
            elif before not in NOTHING:
                told["drops"][f"{name} ({before})"] = None
        parts = [f"{verb} {_listed([*settings])}" for verb, settings in told.items() if settings]
        differs = "; ".join(parts) or "differs in details only"
        return f"Compared with {self.after}, {self.name} {differs}."


def papers_record(sections: Sequence[PaperSection]) -> ViewRecord:
    """Papers in the order of their lineage, with what each changed, and their tables."""
    ordered = lineage_order(sections)
    papers = [
        {**vars(paper), "changes": paper.changes, "tables": _shown_tables(paper)}
        for paper in ordered
    ]
    drawings = {
        name: draw_lineage(ordered, narrow=name == "narrow").encode() for name in ("wide", "narrow")
    }
    title = "Attention models, paper by paper"
    return ViewRecord.of("papers", title=title, papers=papers, drawings=drawings)


def lineage_order(sections: Sequence[PaperSection]) -> list[PaperSection]:
    """Papers, each followed by those that build on it."""
    known = {paper.name for paper in sections}

    def follow(parent: str | None) -> Iterator[PaperSection]:
        for paper in sections:
            if (paper.after if paper.after in known else None) == parent:
                yield paper
                yield from follow(paper.name)

    return [*follow(None)]


def draw_lineage(
    ordered: Sequence[PaperSection], colours: Palette = PAGE, *, narrow: bool = False
) -> str:
    """Papers below those that they build on, by year from left to right, as SVG.

    A narrow drawing has no columns of years: the year of a paper stands at the left.
    """
    first, last = (end(paper.year for paper in ordered) for end in (min, max))
    left, top, step = (LEFT + BESIDE, NAME, 0) if narrow else (LEFT, TOP, YEAR)
    width, places = float(left + step * (last - first + 1)), dict[str, tuple[float, float]]()
    quiet = f'font-size="{SMALL}" fill="{colours.quiet}"'
    parts, names = list[str](), list[str]()
    if not narrow:
        years = range(first, last + 1)
        parts += [f'<text x="{LEFT + YEAR * (y - first)}" y="18" {quiet}>{y}</text>' for y in years]
    for row, paper in enumerate(ordered):
        x, y = float(left + step * (paper.year - first)), float(top + LINE * row)
        if paper.after in places:
            above, before = places[paper.after]
            x = max(x, above + INDENT)
            line = f"M{above + 6:g} {before + 5:g}V{y - 5:g}H{x - 4:g}"
            parts.append(f'<path d="{line}" fill="none" stroke="{colours.rule}"/>')
        places[paper.name] = x, y
        if narrow:
            parts.append(f'<text x="{LEFT}" y="{y:g}" {quiet}>{paper.year}</text>')
        shown = escape(escape_line(paper.name))
        place = f'x="{x:g}" y="{y:g}" font-size="{NAME}"'
        names.append(f'<text data-paper="{shown}" {place}>{shown}</text>')
        width = max(width, x + SANS * text_length(paper.name, NAME) + LEFT)
    height = top + LINE * len(ordered)
    return svg_element("Lineage of papers", width, height, [*parts, *names], colours.ink)


def show_value(value: object) -> str:
    """Text of a value in a table cell."""
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return str(float(f"{value:.6g}"))
    return f"{value:,}" if isinstance(value, int) and value > 9_999 else str(value)


def _word(value: object) -> str:
    shown = show_value(value)
    return WORDS.get(shown, shown)


def _listed(settings: Sequence[str]) -> str:
    more = f" and {len(settings) - MOST} more" if len(settings) > MOST else ""
    return ", ".join(settings[:MOST]) + more


def _shown_tables(paper: PaperSection) -> dict[str, list[dict[str, str]]]:
    return {
        heading: [{name: _word(value) for name, value in row.items()} for row in rows]
        for heading, rows in paper.tables.items()
    }
