"""An attention map as a standalone SVG, for papers, slides and web pages."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from regard.inside.views.markup import (
    FONT,
    GAP,
    INK,
    LETTER,
    LINE,
    MARGIN,
    QUIET,
    RULE,
    TITLE,
    clip,
    escape_line,
    svg_background,
    svg_element,
    svg_frame,
    svg_heading,
    text_length,
    tint,
)

CELL = 24  # pixels
LONGEST = 22  # characters of a label
SLANT = math.radians(55)  # angle of the column labels
NARROWEST = 420  # pixels: room for the title of a short text


def draw_attention(
    title: str,
    caption: str,
    queries: Sequence[str],
    keys: Sequence[str],
    weights_LS: np.ndarray,
    allowed_LS: np.ndarray | None = None,
) -> str:
    """Queries down the side, keys across the top; darkness is the share of the largest weight.

    Cells are grey where ``allowed_LS`` is false.
    """
    title, caption = escape_line(title), escape_line(caption)
    queries = [clip(query, LONGEST) for query in queries]
    keys = [clip(key, LONGEST) for key in keys]
    peak = float(weights_LS.max(initial=0.0))

    left = MARGIN + max(map(text_length, queries), default=0) + GAP
    reach = (CELL * i + text_length(key) * math.cos(SLANT) for i, key in enumerate(keys, start=1))
    width = max(left + max(reach, default=0) + MARGIN, NARROWEST)
    heading = textwrap.wrap(title, int((width - 2 * MARGIN) / (TITLE * LETTER)))
    under = MARGIN + LINE * len(heading)
    top = under + LINE + max(map(text_length, keys), default=0) * math.sin(SLANT) + 2 * GAP
    bottom = top + CELL * len(queries)
    height = bottom + GAP + CELL + MARGIN

    parts = [
        f"<desc>{escape(caption)}; rows are queries, columns are keys</desc>",
        svg_background(),
        *svg_heading(heading, caption),
        *_labels(queries, keys, left, top),
        *_cells(weights_LS / (peak or 1.0), allowed_LS, left, top),
        *_legend(left, bottom + GAP + CELL / 2, peak),
    ]
    return svg_element(title, width, height, parts, INK)


def _labels(queries: Sequence[str], keys: Sequence[str], left: float, top: float) -> Iterator[str]:
    yield '<g text-anchor="end">'
    for row, query in enumerate(queries):
        y = top + CELL * (row + 0.5) + 0.32 * FONT  # centres lower-case letters
        yield f'<text x="{left - GAP:.1f}" y="{y:.1f}">{escape(query)}</text>'
    yield "</g>"
    for column, key in enumerate(keys):
        place = f"translate({left + CELL * (column + 0.6):.1f} {top - GAP:.1f})"
        turn = f"rotate({-math.degrees(SLANT):.0f})"
        yield f'<text transform="{place} {turn}">{escape(key)}</text>'


def _cells(
    shares_LS: np.ndarray, allowed_LS: np.ndarray | None, left: float, top: float
) -> Iterator[str]:
    """A square for every weight large enough to be visible, and a frame around all."""
    yield f'<g transform="translate({left:.1f} {top:.1f})">'
    if allowed_LS is not None:
        square = f"h{CELL - 1}v{CELL - 1}h{1 - CELL}z"
        corners = (f"M{CELL * column} {CELL * row}" for row, column in np.argwhere(~allowed_LS))
        path = "".join(corner + square for corner in corners)
        yield f'<path d="{path}" fill="{RULE}"><title>masked</title></path>'
    for row, column in np.argwhere(shares_LS >= 0.005):
        place = f'x="{CELL * column}" y="{CELL * row}" width="{CELL - 1}" height="{CELL - 1}"'
        yield f'<rect {place} fill="{tint(shares_LS[row, column])}"/>'
    rows, columns = shares_LS.shape
    yield svg_frame(CELL * columns, CELL * rows)
    yield "</g>"


def _legend(left: float, middle: float, peak: float) -> Iterator[str]:
    side = CELL / 2
    baseline = f'y="{middle + 0.32 * FONT:.1f}" fill="{QUIET}"'
    yield f'<text x="{left - GAP:.1f}" {baseline} text-anchor="end">0</text>'
    for step in range(11):
        place = f'x="{left + side * step:.1f}" y="{middle - side / 2:.1f}"'
        size = f'width="{side - 1}" height="{side - 1}"'
        yield f'<rect {place} {size} fill="{tint(step / 10)}" stroke="{RULE}"/>'
    yield f'<text x="{left + side * 11 + GAP:.1f}" {baseline}>{peak:.2f}</text>'
