"""Attention maps and confusion matrices as standalone SVG, for papers, slides and web pages."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from itertools import count

import numpy as np

from regard.metrics.classification import Confusion, accuracy
from regard.views import markup
from regard.views.markup import FONT, GAP, INK, LINE, MARGIN, QUIET, TITLE, clip, escape_line
from regard.views.palette import scale_colour

CELL = 24  # pixels of a cell of an attention map
LONGEST = 22  # characters of a label
SLANT, UPRIGHT = 55, 90  # degrees: angle of column labels, and with small cells
NARROWEST = 420  # pixels: room for a title
SIDE, SMALLEST, LARGEST = 640, 9, 36  # pixels: side of a confusion matrix, and limits of its cells
COUNTED = 22  # pixels of a cell with room for its count
MISTAKES = 12  # named below a confusion matrix


def draw_attention(
    title: str,
    caption: str,
    queries: Sequence[str],
    keys: Sequence[str],
    weights_LS: np.ndarray,
    allowed_LS: np.ndarray | None = None,
) -> str:
    """Attention map as SVG: queries down the side, keys across the top.

    Darkness is the share of the largest weight. Cells are grey where ``allowed_LS`` is false.
    With negative numbers, those are blue and others red, and darkness is the share of the number
    farthest from 0. A page paints the same colours on a canvas, which holds long texts, too.
    """
    queries, keys = ([clip(label, LONGEST) for label in labels] for labels in (queries, keys))
    peak, angle = float(np.abs(weights_LS).max(initial=0.0)), math.radians(SLANT)
    least = -peak if (weights_LS < 0).any() else 0.0
    left = MARGIN + max(map(markup.text_length, queries), default=0) + GAP
    reach = (
        CELL * i + markup.text_length(key) * math.cos(angle) for i, key in enumerate(keys, start=1)
    )
    width = max(left + max(reach, default=0) + MARGIN, NARROWEST)
    heading = textwrap.wrap(escape_line(title), markup.title_columns(width))
    under = MARGIN + LINE * len(heading)
    top = under + LINE + max(map(markup.text_length, keys), default=0) * math.sin(angle) + 2 * GAP
    bottom = top + CELL * len(queries)
    height = bottom + GAP + CELL + MARGIN
    about = f"{caption}; rows are queries, columns are keys"
    parts = [
        *_map_labels(queries, keys, left, top),
        *_map_cells(weights_LS / (peak or 1.0), allowed_LS, left, top),
        *_legend(left, bottom + GAP + CELL / 2, least, peak),
    ]
    return markup.svg_sheet(title, caption, about, (width, height), parts, heading)


def _map_labels(
    queries: Sequence[str], keys: Sequence[str], left: float, top: float
) -> Iterator[str]:
    yield '<g text-anchor="end">'
    for row, query in enumerate(queries):
        y = top + CELL * (row + 0.5) + 0.32 * FONT  # centres lower-case letters
        yield f'<text x="{left - GAP:.1f}" y="{y:.1f}">{escape(query)}</text>'
    yield "</g>"
    for column, key in enumerate(keys):
        place = f"translate({left + CELL * (column + 0.6):.1f} {top - GAP:.1f})"
        yield f'<text transform="{place} rotate({-SLANT})">{escape(key)}</text>'


def _map_cells(
    shares_LS: np.ndarray, allowed_LS: np.ndarray | None, left: float, top: float
) -> Iterator[str]:
    """Squares for all weights that are large enough to be visible, and a frame."""
    yield f'<g transform="translate({left:.1f} {top:.1f})">'
    if allowed_LS is not None:
        square = f"h{CELL - 1}v{CELL - 1}h{1 - CELL}z"
        corners = (f"M{CELL * column} {CELL * row}" for row, column in np.argwhere(~allowed_LS))
        path = "".join(corner + square for corner in corners)
        yield f'<path d="{path}" fill="{markup.RULE}"><title>masked</title></path>'
    signed = bool((shares_LS < 0).any())
    for row, column in np.argwhere(np.abs(shares_LS) >= 0.005):
        place = f'x="{CELL * column}" y="{CELL * row}" width="{CELL - 1}" height="{CELL - 1}"'
        yield f'<rect {place} fill="{_colour(shares_LS[row, column], signed=signed)}"/>'
    rows, columns = shares_LS.shape
    yield markup.svg_frame(CELL * columns, CELL * rows)
    yield "</g>"


def _colour(share: float, *, signed: bool) -> str:
    """Colour of a share of the number farthest from 0."""
    return scale_colour("signed", (1 + share) / 2) if signed else scale_colour("cividis", share)


def _legend(left: float, middle: float, least: float, peak: float) -> Iterator[str]:
    side = CELL / 2
    baseline = f'y="{middle + 0.32 * FONT:.1f}" fill="{QUIET}"'
    lowest = f"{least:.2f}" if least else "0"
    yield f'<text x="{left - GAP:.1f}" {baseline} text-anchor="end">{lowest}</text>'
    shares = np.linspace(-1.0 if least else 0.0, 1.0, 11)
    for step, share in enumerate(shares):
        place = f'x="{left + side * step:.1f}" y="{middle - side / 2:.1f}"'
        size = f'width="{side - 1}" height="{side - 1}"'
        colour = _colour(share, signed=least < 0)
        yield f'<rect {place} {size} fill="{colour}" stroke="{markup.RULE}"/>'
    yield f'<text x="{left + side * 11 + GAP:.1f}" {baseline}>{peak:.2f}</text>'


def draw_confusion(title: str, confusion: Confusion) -> str:
    """Draw a confusion matrix as SVG, readable with a hundred classes: gold down, predicted across.

    The darkness of a cell is the square root of its share of the row, so that rare mistakes are
    visible. The share of correct predictions is shown beside each row. If cells are too small for
    counts, the most frequent mistakes are listed below.
    """
    classes, counts = [clip(name, LONGEST) for name in confusion.classes], confusion.counts
    cell = min(LARGEST, max(SMALLEST, SIDE // len(classes)))
    font = min(FONT, cell - 1)
    label = max(markup.text_length(name, font) for name in classes)
    left, side = MARGIN + label + GAP, cell * len(classes)
    angle = math.radians(SLANT if cell >= COUNTED else UPRIGHT)
    reach = max(label * math.cos(angle), markup.text_length("100%", font) + GAP)
    width = max(left + side + reach + MARGIN, NARROWEST)
    columns = int((width - 2 * MARGIN) / (FONT * markup.LETTER))
    heading = textwrap.wrap(escape_line(title), int(columns * FONT / TITLE))
    notes = textwrap.wrap(_caption(confusion, named=cell < COUNTED), columns)
    top = MARGIN + LINE * (len(heading) + 1) + label * math.sin(angle) + 2 * GAP
    bottom = top + side + GAP
    summary = f"{counts.sum():,.0f} examples, {100 * accuracy(counts):.2f}% right"
    places = (f'y="{bottom + LINE * number:.1f}" fill="{QUIET}"' for number in count(1))
    lines = [f"{place}>{escape(note)}" for note, place in zip(notes, places, strict=False)]
    about = "rows are gold classes, columns are predicted ones"
    parts = [
        f'<g font-size="{font}">',
        *_labels(classes, confusion.shares, left, top, cell),
        f'<g transform="translate({left:.1f} {top:.1f})">',
        *_cells(confusion, cell),
        "</g></g>",
        *(f'<text x="{MARGIN}" {line}</text>' for line in lines),
    ]
    height = bottom + LINE * len(notes) + MARGIN
    return markup.svg_sheet(title, summary, about, (width, height), parts, heading)


def _caption(confusion: Confusion, *, named: bool) -> str:
    """Explanation of rows and columns, with the most frequent mistakes if ``named``."""
    rows = "down: gold, across: predicted, at the right: share of the row that is right"
    if not named:
        return rows
    most = confusion.mistakes()[:MISTAKES]
    mistakes = [f"{each.gold} as {each.predicted} ({each.number:,})" for each in most]
    return escape_line(f"{rows}; most frequent mistakes: {', '.join(mistakes) or 'none'}")


def _labels(
    classes: Sequence[str], shares: np.ndarray, left: float, top: float, cell: int
) -> Iterator[str]:
    """Class names at the left and above, and the share of each row on the diagonal at the right."""
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
    """Squares with tooltips for all counts that are not 0, and a frame."""
    names, shares, size = confusion.classes, confusion.shares, len(confusion.classes)
    for row, column in np.argwhere(confusion.counts):
        count, share = confusion.counts[row, column], math.sqrt(shares[row, column])
        colour = _colour(-share if row == column else share, signed=True)
        place = f'x="{cell * column}" y="{cell * row}" width="{cell - 1}" height="{cell - 1}"'
        says = escape(escape_line(f"{names[row]} as {names[column]}: {count:,.0f}"))
        yield f'<rect {place} fill="{colour}"><title>{says}</title></rect>'
        if cell >= COUNTED:
            ink = markup.PAPER if share > 0.6 else INK
            x, y = cell * (column + 0.5), cell * (row + 0.5) + 0.32 * (FONT - 2)
            centre = f'x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="{FONT - 2}"'
            yield f'<text {centre} fill="{ink}">{count:.0f}</text>'
    yield markup.svg_frame(cell * size, cell * size)
