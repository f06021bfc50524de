"""Attention maps as text: queries down the side, keys across the top, letters stacked."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.text import Text

from regard.views.markup import clip
from regard.views.palette import scale_colour

SHADES = "·░▒▓█"
LEVELS = np.arange(len(SHADES)) / len(SHADES)  # lowest darkness of each shade
CELL = 2  # columns of a cell: about as wide as a line is high
BLANK = Text(" " * CELL)  # cell of a masked weight
TALLEST = 12  # lines of a label across the top
WIDEST = 18  # columns of a label down the side

Paint = Callable[[float], Text]
"""Function that draws one cell of a darkness from 0 to 1, or down to -1 of negative numbers."""


def shade_cell(darkness: float) -> Text:
    """Render a cell for output without colours; visible negative numbers have a minus sign."""
    shade = SHADES[np.searchsorted(LEVELS, abs(darkness), side="right") - 1]
    return Text(f"-{shade * (CELL - 1)}" if darkness <= -LEVELS[1] else shade * CELL)


def colour_cell(darkness: float) -> Text:
    """Render a cell for a terminal with colours."""
    return Text(" " * CELL, Style(bgcolor=ramp_colour(darkness)))


def ramp_colour(darkness: float) -> Color:
    """Colour of a darkness from -1 to 1, as on a dark page."""
    return Color.parse(scale_colour("signed", (1 + darkness) / 2, "dark"))


def heat_map(
    queries: Sequence[str],
    keys: Sequence[str],
    weights_LS: np.ndarray,
    width: int,
    paint: Paint,
    allowed_LS: np.ndarray | None = None,
) -> Iterator[Text]:
    """Lines of a heat map, at most ``width`` columns wide; many keys are split into panels.

    Darkness grows with the square root of the weight: on a linear scale of five shades only the
    largest weights would be visible. Cells are blank where ``allowed_LS`` is false. Numbers may be
    negative, too: then darkness grows with the root of their distance from 0.
    """
    peak = float(np.abs(weights_LS).max(initial=0.0)) or 1.0
    darkness_LS = np.sign(weights_LS) * np.sqrt(np.abs(weights_LS) / peak)
    shown_LS = np.ones_like(weights_LS, dtype=bool) if allowed_LS is None else allowed_LS
    side = min(max(map(cell_len, queries), default=0), WIDEST, max(width // 3, 1))
    keys_per_panel = max(1, (width - side - 1) // CELL)
    for start in range(0, len(keys), keys_per_panel):
        panel = slice(start, start + keys_per_panel)
        yield from _column_labels(keys[panel], side)
        for query, darkness_S, shown_S in zip(queries, darkness_LS, shown_LS, strict=True):
            row = zip(darkness_S[panel], shown_S[panel], strict=True)
            cells = (paint(darkness) if shown else BLANK for darkness, shown in row)
            yield Text.assemble(_align_right(clip(query, side), side), " ", *cells)
        yield Text()
    signs = (1, -1) if (weights_LS < 0).any() else (1,)
    yield from _legend(peak, width, paint, signs, masked=not shown_LS.all())


def _legend(
    peak: float, width: int, paint: Paint, signs: Sequence[int], *, masked: bool
) -> Iterator[Text]:
    """Legend: the lowest weight of every shade, on as many lines as needed."""
    levels = [sign * level for sign in signs for level in LEVELS if sign > 0 or level]
    entries = [
        Text.assemble(paint(level), f" {level * abs(level) * peak:.2g}   ") for level in levels
    ]
    entries += [Text("blank: masked")] if masked else []
    entries_per_line = max(1, width // max(entry.cell_len for entry in entries))
    for start in range(0, len(entries), entries_per_line):
        yield Text.assemble(*entries[start : start + entries_per_line])


def _column_labels(keys: Sequence[str], side: int) -> Iterator[Text]:
    """Labels above the columns, one letter below the other, aligned at the bottom."""
    stacks = [_letters(clip(key, TALLEST)) for key in keys]
    height = max(map(len, stacks), default=0)
    stacks = [[""] * (height - len(stack)) + stack for stack in stacks]
    for line in zip(*stacks, strict=True):
        letters = "".join(letter + " " * (CELL - cell_len(letter)) for letter in line)
        yield Text(" " * (side + 1) + letters)


def _letters(label: str) -> list[str]:
    """Letters of a label, each with its accents and joiners."""
    letters: list[str] = []
    for character in label:
        if letters and cell_len(character) == 0:
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def _align_right(label: str, width: int) -> str:
    return " " * (width - cell_len(label)) + label
