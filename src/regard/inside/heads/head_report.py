"""Report on heads: figures, role and importance of each, and the best head of each relation.

A report is text, a drawing and a page with a grid of layers × heads, coloured by role, and tables.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar, NamedTuple

from rich.text import Text

from regard.inside.attention.attention_view import View
from regard.inside.heads.relations import RelationScore
from regard.views.head_grid import GridCell, GridSite, draw_head_grids
from regard.views.markup import clip, escape_line
from regard.views.palette import PAGE
from regard.views.view_record import ViewRecord

POSITIONAL = 0.9  # share of words at one offset (Voita et al., 2019, section 5.2)
SINK = 0.6  # weight on special tokens (Clark et al., 2019, section 6)
RARE, TIMES_CHANCE = 0.5, 2.0  # share of rare words, at least twice that of chance
CAUSAL = 0.5  # mean weight of previous-token, duplicate-token and induction heads
CELL = 7  # columns of a head in the text grid

ROLES = (
    "syntactic",
    "positional",
    "induction",
    "previous token",
    "duplicate token",
    "rare words",
    "sink",
)
"""Roles in order of precedence: a head is coloured by its first."""


class FigureColumn(NamedTuple):
    """Figure of a head: its number format, what it is, and its largest possible value, if any."""

    format: str
    about: str
    most: float | None = None

    @property
    def digits(self) -> int:
        """Digits after the point; of three significant digits, three."""
        return int(re.sub(r"\D", "", self.format) or 0)


def _share(about: str) -> FigureColumn:
    return FigureColumn(".2f", about, 1.0)


COLUMNS: Mapping[str, FigureColumn] = {
    "entropy": FigureColumn(".2f", "entropy of the weights of a word, in bits"),
    "of uniform": _share("entropy as a share of that of uniform attention"),
    "offset": FigureColumn(
        "+d", "relative position that most words attend to, special tokens left out"
    ),
    "at offset": _share("share of the words with the largest weight there"),
    "special": _share("weight on special tokens"),
    "first": _share("weight on the first token"),
    "rare": _share("share of words with the largest weight on a least frequent word of the text"),
    "rare chance": _share("share of these among the words"),
    "diagonal": _share("share of target words that attend within one word of the diagonal"),
    "distance": FigureColumn(".2f", "mean distance in patches, weighted by attention"),
    "previous": _share("weight on the token before, of texts read twice"),
    "duplicate": _share("weight on earlier occurrences of the token, of texts read twice"),
    "induction": _share("weight on tokens after earlier occurrences, of texts read twice"),
    "importance": FigureColumn(
        ".3g", "mean |gradient of the loss| with respect to a gate of the head"
    ),
}
"""Figures of a head, by name."""

FORMATS: Mapping[str, str] = {
    **{name: column.format for name, column in COLUMNS.items()},
    **dict.fromkeys(("layer", "head"), "d"),
    **dict.fromkeys(("accuracy", "low", "high", "offset accuracy"), ".1f"),
    **dict.fromkeys(("difference", "difference low", "difference high"), "+.1f"),
    "words": ",d",
}
"""Formats of the columns with numbers."""


@dataclass(frozen=True)
class HeadFigures:
    """Figures of one head, by the names of ``COLUMNS``; None where a figure does not apply.

    ``relations`` are the relations for which it is the best head and beats the best offset.
    """

    site: str
    layer: int
    head: int
    figures: Mapping[str, float | None]
    relations: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, int, int]:
        """Site, layer and head."""
        return self.site, self.layer, self.head

    @property
    def roles(self) -> dict[str, str]:
        """Roles of the head, each with a short description."""

        def figure(name: str) -> float:
            value = self.figures.get(name)
            return 0.0 if value is None else value

        offset, rare = int(figure("offset")), figure("rare")
        sink = max(figure("special"), figure("first"))
        named = {
            "syntactic": (bool(self.relations), ", ".join(self.relations)),
            "positional": (
                abs(offset) == 1 and figure("at offset") >= POSITIONAL,
                f"at {offset:+d}",
            ),
            "induction": (figure("induction") >= CAUSAL, "induction"),
            "previous token": (figure("previous") >= CAUSAL, "previous"),
            "duplicate token": (figure("duplicate") >= CAUSAL, "duplicate"),
            "rare words": (rare >= RARE and rare >= TIMES_CHANCE * figure("rare chance"), "rare"),
            "sink": (sink >= SINK, f"{sink:.2f}"),
        }
        return {role: named[role][1] for role in ROLES if named[role][0]}

    @property
    def role(self) -> str:
        """First role of the head; empty: none."""
        return next(iter(self.roles), "")

    @property
    def short(self) -> str:
        """Short description of the first role; empty: none."""
        return next(iter(self.roles.values()), "")

    @property
    def summary(self) -> str:
        """All roles in one line."""
        return "; ".join(
            role if text in role or role.startswith(text) else f"{role}: {text}"
            for role, text in self.roles.items()
        )

    @property
    def anchor(self) -> str:
        """Anchor of the head in a page."""
        return f"{self.site}-{self.layer}-{self.head}"


@dataclass(frozen=True, eq=False)
class HeadReport(View):
    """Figures of all heads of a model, and the best head of each relation of a treebank."""

    _fixed: ClassVar[str] = "a report covers all layers and heads: do not choose any"
    title: str
    heads: tuple[HeadFigures, ...] = field(repr=False)
    relations: tuple[RelationScore, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def by_role(self) -> list[HeadFigures]:
        """Heads with a role first, in the order of roles."""
        places = {role: place for place, role in enumerate((*ROLES, ""))}
        return sorted(self.heads, key=lambda head: places[head.role])

    @property
    def figure_names(self) -> list[str]:
        """Figures that some head has."""
        return [
            name
            for name in COLUMNS
            if any(head.figures.get(name) is not None for head in self.heads)
        ]

    def head_table(self) -> tuple[list[str], list[list[str | float | None]]]:
        """Names of the columns, and a row for each head."""
        names = self.figure_names
        rows: list[list[str | float | None]] = [
            [each.site, each.layer, each.head, each.summary, *map(each.figures.get, names)]
            for each in self.by_role
        ]
        return ["site", "layer", "head", "role", *names], rows

    def relation_table(self) -> tuple[list[str], list[list[str | float | None]]]:
        """Names of the columns, and a row for each relation; shares are in percent."""
        columns = ["relation", "words", "layer", "head", "reading", "accuracy", "low", "high"]
        columns += ["offset", "offset accuracy"]
        columns += ["difference", "difference low", "difference high"]
        rows: list[list[str | float | None]] = [
            [
                each.relation,
                each.count,
                each.layer,
                each.head,
                each.reading,
                *(100 * value for value in (each.accuracy, *each.interval)),
                each.offset,
                *(100 * value for value in (each.offset_accuracy, each.difference)),
                *(100 * value for value in each.difference_interval),
            ]
            for each in self.relations
        ]
        return columns, rows

    def svg(self) -> str:
        return draw_head_grids(self.title, self.caption, self._sites, ROLES)

    def view_record(self) -> ViewRecord:
        tables = {"Relations": self.relation_table()} if self.relations else {}
        tables["Heads"] = self.head_table()
        names = self.figure_names
        return ViewRecord.of(
            "heads",
            title=self.title,
            caption=self.caption,
            sites=[
                {"name": name, "layers": [[*map(_cell, layer)] for layer in layers]}
                for name, layers in heads_by_site(self.heads).items()
            ],
            drawing=draw_head_grids(self.title, None, self._sites, ROLES, PAGE).encode(),
            figures={n: {"about": COLUMNS[n].about, "most": COLUMNS[n].most} for n in names},
            tables=[
                {"title": title, "columns": table[0], "rows": self._texts(*table)[1]}
                for title, table in tables.items()
            ],
            notes=[*self.notes, *(f"{name}: {COLUMNS[name].about}" for name in names)],
        )

    def to_json(self) -> dict[str, object]:
        heads = [
            {
                "site": each.site,
                "layer": each.layer,
                "head": each.head,
                "roles": [*each.roles],
                "relations": [*each.relations],
                **{name: each.figures.get(name) for name in self.figure_names},
            }
            for each in self.heads
        ]
        relations = [asdict(each) for each in self.relations]
        return {"heads": heads, "relations": relations, "notes": [*self.notes]}

    @property
    def caption(self) -> str:
        """Number of heads with each role."""
        counts = {role: sum(head.role == role for head in self.heads) for role in ROLES}
        named = [f"{count} {role}" for role, count in counts.items() if count]
        return f"{len(self.heads)} heads: {', '.join(named) or 'none has a role'}"

    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        for line in (self.title, self.caption):
            yield Text(clip(escape_line(line), width))
        shown = max(1, (width - 10) // (CELL + 1))
        for site in self._sites:
            yield Text()
            names = "".join(f" {head:<{CELL}}" for head in range(min(shown, site.widest)))
            yield Text(f"{site.name:<9}{names}".rstrip()[:width])
            for layer, cells in enumerate(site.layers):
                row = "".join(f" {clip(cell.short or '·', CELL):<{CELL}}" for cell in cells[:shown])
                yield Text(f"layer {layer:<3}{row}".rstrip())
        yield Text()
        for each in self.relations:
            best = f"{each.relation}: layer {each.layer}, head {each.head}, {each.reading}"
            against = f"{100 * each.offset_accuracy:.1f}% at offset {each.offset:+d}"
            yield Text(clip(f"{best}: {100 * each.accuracy:.1f}%, {against}", width))
        for note in self.notes:
            yield Text(clip(escape_line(note), width))

    @property
    def _sites(self) -> list[GridSite]:
        """Cells of the grid, by site and layer."""
        return [
            GridSite(name, [[self._grid_cell(head) for head in layer] for layer in layers])
            for name, layers in heads_by_site(self.heads).items()
        ]

    def _grid_cell(self, head: HeadFigures) -> GridCell:
        shown = {
            name: format_figure(name, value)
            for name in self.figure_names
            if (value := head.figures.get(name)) is not None
        }
        return GridCell(head.anchor, head.role, head.short, head.summary, shown)

    def _texts(
        self, columns: Sequence[str], rows: Sequence[Sequence[str | float | None]]
    ) -> tuple[Sequence[str], list[list[str]]]:
        """Columns, and rows as texts."""
        return columns, [
            [format_figure(name, value) for name, value in zip(columns, row, strict=True)]
            for row in rows
        ]


def heads_by_site(heads: Sequence[HeadFigures]) -> dict[str, list[list[HeadFigures]]]:
    """Heads by site and layer."""
    sites: dict[str, list[list[HeadFigures]]] = {}
    for head in heads:
        layers = sites.setdefault(head.site, [])
        layers += [[] for _ in range(head.layer + 1 - len(layers))]
        layers[head.layer].append(head)
    return sites


def _cell(head: HeadFigures) -> dict[str, object]:
    """Fields of a head in a record for views."""
    return {"role": head.role, "summary": head.summary, "figures": head.figures}


def format_figure(name: str, value: str | float | None) -> str:
    """Text of a value in the column of that name."""
    return "" if value is None else format(value, FORMATS.get(name, ""))
