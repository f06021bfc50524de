"""Words with values: shades or colours behind words as text, spans of a page, bars as SVG.

Darkness grows with the square root of the size of a value. Values below zero are blue; without
colours, a minus sign follows their shade.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np
from rich.style import Style
from rich.text import Text

from regard.views import markup
from regard.views.attention_text import LEVELS, SHADES, ramp_colour
from regard.views.markup import ACCENT, FONT, GAP, LINE, MARGIN, QUIET, RULE, clip, escape_controls
from regard.views.palette import DARK, LIGHT

BAR, ROW, LONGEST = 130, 20, 22  # pixels of the longest bar and of a row; characters of a label


def word_lines(
    words: Sequence[str], values: np.ndarray, width: int, *, coloured: bool
) -> Iterator[Text]:
    """Lines of words on their colours, or each with a shade, at most ``width`` columns wide."""
    line = Text()
    for word, share in zip(words, shares(values), strict=True):
        drawn = mark_word(escape_controls(word), float(share), coloured=coloured)
        if line.cell_len and line.cell_len + 1 + drawn.cell_len > width:
            yield line
            line = Text()
        line = Text.assemble(line, " " if line.cell_len else "", drawn)
    yield line


def shares(values: np.ndarray) -> np.ndarray:
    """Square roots of values as shares of the largest, from -1 to 1, with their signs.

    They are the tints of words in terminals, in pages and in the studio.
    """
    peak = float(np.abs(values).max(initial=0.0)) or 1.0
    return np.sign(values) * np.sqrt(np.abs(values) / peak)


def mark_word(word: str, share: float, *, coloured: bool) -> Text:
    """A word on the colour of its share, from -1 to 1, or followed by its shade and sign."""
    darkness = abs(share)
    if coloured:  # dark letters on a bright background
        ink = DARK.paper if darkness > 0.6 else DARK.ink
        return Text(word, Style(color=ink, bgcolor=ramp_colour(share)))
    level = np.searchsorted(LEVELS, darkness, side="right") - 1
    return Text(word + SHADES[level] + ("-" if share < 0 and level else ""))


def draw_bars(
    title: str, caption: str, words: Sequence[str], columns: Mapping[str, np.ndarray]
) -> str:
    """Words down the side and a bar for each value, to the right or left of its zero, as SVG.

    Bars of a column are relative to its largest value.
    """
    labels = [clip(word, LONGEST) for word in words]
    left = MARGIN + max(map(markup.text_length, labels), default=0) + GAP
    top = MARGIN + 2 * LINE + ROW + GAP
    step = BAR + 3 * GAP
    width = max(left + step * len(columns) + MARGIN, 420)
    height = top + ROW * len(labels) + MARGIN
    parts = [*_bar_labels(labels, left, top)]
    for number, (name, values) in enumerate(columns.items()):
        parts += _bars(name, values, left + step * number + GAP, top)
    return markup.svg_sheet(title, caption, caption, (width, height), parts)


def _bar_labels(labels: Sequence[str], left: float, top: float) -> Iterator[str]:
    yield '<g text-anchor="end">'
    for row, label in enumerate(labels):
        y = top + ROW * (row + 0.5) + 0.32 * FONT  # centres lower-case letters
        yield f'<text x="{left - GAP:.1f}" y="{y:.1f}">{escape(label)}</text>'
    yield "</g>"


def _bars(name: str, values: np.ndarray, left: float, top: float) -> Iterator[str]:
    """Heading, zero line and bars of one column."""
    highest, lowest = float(values.max(initial=0.0)), float(values.min(initial=0.0))
    scale = BAR / ((highest - lowest) or 1.0)
    zero = left - lowest * scale
    yield f'<text x="{left:.1f}" y="{top - GAP:.1f}" fill="{QUIET}">{escape(name)}</text>'
    for row, value in enumerate(values):
        x, y = zero + min(float(value), 0.0) * scale, top + ROW * row + 3
        size = f'width="{abs(float(value)) * scale:.1f}" height="{ROW - 6}"'
        tooltip = f"<title>{value:.4f}</title>"
        colour = LIGHT.below if value < 0 else ACCENT
        yield f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}">{tooltip}</rect>'
    end = top + ROW * len(values)
    yield f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="{top}" y2="{end}" stroke="{RULE}"/>'
