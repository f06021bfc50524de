"""Grids of layers × heads as SVG, coloured by role; pages colour their cells by figures, too."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from regard.views.markup import (
    GAP,
    LINE,
    MARGIN,
    SANS,
    clip,
    escape_line,
    svg_element,
    svg_sheet,
    text_length,
)
from regard.views.palette import LIGHT, Palette

WIDE, HIGH, LEFT = 72, 30, 80  # pixels of a cell, and of the names of layers
NARROWEST = 420  # pixels: room for a title
SMALL, LONGEST = 11, 11  # font size and characters of the text in a cell
NO_ROLE = "·"


@dataclass(frozen=True)
class GridCell:
    """One head: its role, which is the colour, a short text, a summary and its figures."""

    anchor: str
    role: str
    short: str
    summary: str
    figures: Mapping[str, str]


@dataclass(frozen=True)
class GridSite:
    """Heads of one attention site, by layer."""

    name: str
    layers: Sequence[Sequence[GridCell]]

    @property
    def widest(self) -> int:
        """Largest number of heads of a layer."""
        return max(map(len, self.layers), default=0)


def draw_head_grids(
    title: str,
    caption: str | None,
    sites: Sequence[GridSite],
    roles: Sequence[str],
    colours: Palette = LIGHT,
) -> str:
    """Grids of all sites below each other, with a legend of the roles, as SVG.

    Without a caption there is neither a heading nor a margin, as a page has its own.
    """
    parts = list[str]()
    top = 0.0 if caption is None else MARGIN + 2 * LINE + GAP
    margin = 0 if caption is None else MARGIN
    hues = dict(zip(roles, colours.hues, strict=False))
    used = [
        role for role in roles if any(c.role == role for s in sites for h in s.layers for c in h)
    ]
    width = float(LEFT + 2 * margin)
    for site in sites:
        parts += _grid(site, hues, top, margin, colours)
        width = max(width, LEFT + WIDE * site.widest + 2 * margin)
        top += LINE + HIGH * len(site.layers) + LINE
    letters = SANS if caption is None else 1.0
    legend = sum(text_length(role) + 3 * GAP + 8 for role in used)
    width = max(width, 2 * margin + letters * legend)
    x = float(margin)
    parts.append('<g data-legend="roles">')
    for role in used:
        place = f'x="{x:.0f}" y="{top - 10:.0f}" width="12" height="12"'
        parts.append(f'<rect {place} fill="{hues[role]}"/>')
        parts.append(f'<text x="{x + 18:.0f}" y="{top:.0f}" fill="{colours.quiet}">{role}</text>')
        x += text_length(role) + 3 * GAP + 12
    parts.append("</g>")
    if caption is None:
        bottom = top + MARGIN if used else top - LINE / 2
        return svg_element(title, width, bottom, parts, colours.ink)
    return svg_sheet(title, caption, caption, (max(width, NARROWEST), top + MARGIN), parts)


def _grid(
    site: GridSite, hues: Mapping[str, str], top: float, margin: float, colours: Palette
) -> Iterator[str]:
    """Cells of one site, with the numbers of heads above and of layers at the left."""
    quiet = f'fill="{colours.quiet}"'
    yield f'<text x="{margin}" y="{top + 14:.0f}">{escape(site.name)}</text>'
    for head in range(site.widest):
        place = f'x="{margin + LEFT + WIDE * (head + 0.5):.0f}" y="{top + 14:.0f}"'
        yield f'<text {place} text-anchor="middle" {quiet}>{head}</text>'
    for layer, cells in enumerate(site.layers):
        y = top + LINE + HIGH * layer
        yield f'<text x="{margin}" y="{y + HIGH / 2 + 4:.0f}" {quiet}>layer {layer}</text>'
        for head, cell in enumerate(cells):
            yield _cell(cell, hues.get(cell.role), margin + LEFT + WIDE * head, y, colours)


def _cell(cell: GridCell, hue: str | None, x: float, y: float, colours: Palette) -> str:
    """Rectangle with the short text, and the figures as a tooltip."""
    figures = ", ".join(f"{name} {value}" for name, value in cell.figures.items())
    tooltip = f"{cell.anchor.replace('-', ' ')}: {cell.summary or 'no role'}; {figures}"
    size = f'x="{x:.0f}" y="{y:.0f}" width="{WIDE - 2}" height="{HIGH - 2}"'
    place = f'x="{x + WIDE / 2 - 1:.0f}" y="{y + HIGH / 2 + 3:.0f}" text-anchor="middle"'
    ink = colours.paper if hue else colours.quiet
    short = escape(clip(cell.short, LONGEST)) or NO_ROLE
    return (
        f'<g data-cell="{escape(cell.anchor)}"><title>{escape(escape_line(tooltip))}</title>'
        f'<rect {size} fill="{hue or "none"}" stroke="{colours.rule}" pointer-events="all"/>'
        f'<text {place} font-size="{SMALL}" fill="{ink}">{short}</text></g>'
    )
