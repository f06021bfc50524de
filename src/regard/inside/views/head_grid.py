"""Grids of layers × heads, coloured by role, as standalone SVG."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from regard.inside.views.line_chart import HUES
from regard.inside.views.markup import (
    GAP,
    INK,
    LINE,
    MARGIN,
    QUIET,
    RULE,
    clip,
    escape_line,
    svg_background,
    svg_element,
    svg_heading,
    text_length,
)

WIDE, HIGH, LEFT = 72, 30, 80  # pixels of a cell, and of the names of layers
SMALL, LONGEST = 11, 11  # font size and characters of the text in a cell


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
    title: str, caption: str, sites: Sequence[GridSite], roles: Sequence[str]
) -> str:
    """Grids of all sites below each other, with a legend of the roles, as SVG."""
    heading = svg_heading([escape_line(title)], escape_line(caption))
    top = MARGIN + 2 * LINE + GAP
    return _svg(title, sites, roles, [svg_background(), *heading], top)


def _svg(
    title: str, sites: Sequence[GridSite], roles: Sequence[str], first: Sequence[str], top: float
) -> str:
    hues = dict(zip(roles, HUES, strict=False))
    used = [
        role for role in roles if any(c.role == role for s in sites for h in s.layers for c in h)
    ]
    parts, width = [*first], float(LEFT + 2 * MARGIN)
    for site in sites:
        parts += _grid(site, hues, top)
        width = max(width, LEFT + WIDE * site.widest + 2 * MARGIN)
        top += LINE + HIGH * len(site.layers) + LINE
    width = max(width, 420, 2 * MARGIN + sum(text_length(role) + 3 * GAP + 8 for role in used))
    x = float(MARGIN)
    for role in used:
        parts.append(
            f'<rect x="{x:.0f}" y="{top - 10:.0f}" width="12" height="12" fill="{hues[role]}"/>'
        )
        parts.append(f'<text x="{x + 18:.0f}" y="{top:.0f}" fill="{QUIET}">{role}</text>')
        x += text_length(role) + 3 * GAP + 12
    return svg_element(title, width, top + MARGIN, parts, INK)


def _grid(site: GridSite, hues: Mapping[str, str], top: float) -> Iterator[str]:
    """Cells of one site, with the numbers of heads above and of layers at the left."""
    yield f'<text x="{MARGIN}" y="{top + 14:.0f}">{escape(site.name)}</text>'
    for head in range(site.widest):
        place = f'x="{MARGIN + LEFT + WIDE * (head + 0.5):.0f}" y="{top + 14:.0f}"'
        yield f'<text {place} text-anchor="middle" fill="{QUIET}">{head}</text>'
    for layer, cells in enumerate(site.layers):
        y = top + LINE + HIGH * layer
        name = f'x="{MARGIN}" y="{y + HIGH / 2 + 4:.0f}" fill="{QUIET}"'
        yield f"<text {name}>layer {layer}</text>"
        for head, cell in enumerate(cells):
            yield _cell(cell, hues.get(cell.role), MARGIN + LEFT + WIDE * head, y)


def _cell(cell: GridCell, hue: str | None, x: float, y: float) -> str:
    """Rectangle with the short text, and the figures as a tooltip."""
    figures = ", ".join(f"{name} {value}" for name, value in cell.figures.items())
    tooltip = f"{cell.anchor.replace('-', ' ')}: {cell.summary or 'no role'}; {figures}"
    fill = hue or "none"
    size = f'x="{x:.0f}" y="{y:.0f}" width="{WIDE - 2}" height="{HIGH - 2}"'
    place = f'x="{x + WIDE / 2 - 1:.0f}" y="{y + HIGH / 2 + 3:.0f}" text-anchor="middle"'
    short = escape(clip(cell.short, LONGEST))
    text = f'<text {place} font-size="{SMALL}" fill="#ffffff">{short}</text>'
    return (
        f"<g><title>{escape(escape_line(tooltip))}</title>"
        f'<rect {size} fill="{fill}" stroke="{RULE}" pointer-events="all"/>'
        f"{text if cell.short else ''}</g>"
    )
