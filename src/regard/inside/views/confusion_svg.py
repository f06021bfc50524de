"""A confusion matrix as a standalone SVG, which stays readable with a hundred classes."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from regard.inside.views.markup import (
    ACCENT,
    FONT,
    GAP,
    INK,
    LETTER,
    LINE,
    MARGIN,
    PAPER,
    QUIET,
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
from regard.metrics.classification import Confusion, accuracy

SIDE, SMALLEST, LARGEST = 640, 9, 36  # pixels: of the matrix if they can be, and of its cells
COUNTED = 22  # pixels of a cell that has room for its count
LONGEST = 22  # characters of a label
SLANT, UPRIGHT = 55, 90  # degrees: the angle of column labels, and where cells are small
NARROWEST = 420  # pixels: room for the text
RIGHT = "#3a80c0"  # the colour of the diagonal
MISTAKES = 12  # named below the matrix


def draw_confusion(title: str, confusion: Confusion) -> str:
    """Gold classes down the side, predicted ones across the top; the diagonal is right.

    The darkness of a cell is the root of its share of the row, so that rare mistakes are seen. The
    share of each row that is right stands beside it. Where cells are too small for counts, the most
    frequent mistakes are listed below.
    """
    classes, counts = [clip(one, LONGEST) for one in confusion.classes], confusion.counts
    cell = min(LARGEST, max(SMALLEST, SIDE // len(classes)))
    font = min(FONT, cell - 1)
    label = max(text_length(one, font) for one in classes)
    left, side = MARGIN + label + GAP, cell * len(classes)
    angle = math.radians(SLANT if cell >= COUNTED else UPRIGHT)
    reach = max(label * math.cos(angle), text_length("100%", font) + GAP)
    width = max(left + side + reach + MARGIN, NARROWEST)
    lines = int((width - 2 * MARGIN) / (FONT * LETTER))
    heading = textwrap.wrap(escape_line(title), int(lines * FONT / TITLE))
    notes = textwrap.wrap(_caption(confusion, named=cell < COUNTED), lines)
    top = MARGIN + LINE * (len(heading) + 1) + label * math.sin(angle) + 2 * GAP
    bottom = top + side + GAP
    parts = [
        "<desc>rows are gold classes, columns are predicted ones</desc>",
        svg_background(),
        *svg_heading(heading, f"{counts.sum():,.0f} examples, {100 * accuracy(counts):.2f}% right"),
        f'<g font-size="{font}">',
        *_labels(classes, confusion.shares, left, top, cell),
        f'<g transform="translate({left:.1f} {top:.1f})">',
        *_cells(confusion, cell),
        "</g></g>",
        *(
            f'<text x="{MARGIN}" y="{bottom + LINE * number:.1f}" fill="{QUIET}">{escape(line)}'
            "</text>"
            for number, line in enumerate(notes, start=1)
        ),
    ]
    return svg_element(title, width, bottom + LINE * len(notes) + MARGIN, parts, INK)


def _caption(confusion: Confusion, *, named: bool) -> str:
    """What stands where, and the most frequent mistakes if they are to be ``named``."""
    rows = "down: gold, across: predicted, at the right: share of the row that is right"
    if not named:
        return rows
    most = confusion.mistakes()[:MISTAKES]
    mistakes = [f"{one.gold} as {one.predicted} ({one.number:,})" for one in most]
    return escape_line(f"{rows}; most frequent mistakes: {', '.join(mistakes) or 'none'}")


def _labels(
    classes: Sequence[str], shares: np.ndarray, left: float, top: float, cell: int
) -> Iterator[str]:
    """Names at the left and above, and at the right the share of each row on the diagonal."""
    angle, font = SLANT if cell >= COUNTED else UPRIGHT, min(FONT, cell - 1)
    right = left + cell * len(classes) + GAP / 2
    for number, (name, share) in enumerate(zip(classes, np.diag(shares), strict=True)):
        middle = cell * (number + 0.5)
        y = f"{top + middle + 0.32 * font:.1f}"  # centres lower-case letters
        yield f'<text x="{left - GAP / 2:.1f}" y="{y}" text-anchor="end">{escape(name)}</text>'
        yield f'<text x="{right:.1f}" y="{y}" fill="{QUIET}">{100 * share:.0f}%</text>'
        place = f"translate({left + middle + 0.3 * font:.1f} {top - GAP / 2:.1f})"
        yield f'<text transform="{place} rotate({-angle})">{escape(name)}</text>'


def _cells(confusion: Confusion, cell: int) -> Iterator[str]:
    """A square with a tooltip for every count that is not 0, and a frame around all."""
    names, shares, size = confusion.classes, confusion.shares, len(confusion.classes)
    for row, column in np.argwhere(confusion.counts):
        count, share = confusion.counts[row, column], math.sqrt(shares[row, column])
        colour = tint(share, RIGHT if row == column else ACCENT)
        place = f'x="{cell * column}" y="{cell * row}" width="{cell - 1}" height="{cell - 1}"'
        says = escape(escape_line(f"{names[row]} as {names[column]}: {count:,.0f}"))
        yield f'<rect {place} fill="{colour}"><title>{says}</title></rect>'
        if cell >= COUNTED:
            ink = PAPER if share > 0.6 else INK
            x, y = cell * (column + 0.5), cell * (row + 0.5) + 0.32 * (FONT - 2)
            centre = f'x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="{FONT - 2}"'
            yield f'<text {centre} fill="{ink}">{count:.0f}</text>'
    yield svg_frame(cell * size, cell * size)
