"""An attention map in characters: queries down the side, keys across the top, letters stacked."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.text import Text

from regard.inside.labels import clip

SHADES = "·░▒▓█"
LEVELS = np.arange(len(SHADES)) / len(SHADES)  # of darkness
GLOW = ((28, 29, 34), (190, 68, 36), (255, 234, 200))  # from nothing through the accent to most
CELL = 2  # columns: about as wide as a line is high
TALLEST = 12  # lines of a label across the top
WIDEST = 18  # columns of a label down the side

Paint = Callable[[float], Text]
"""Draws one cell of a darkness from 0 to 1."""


def shade(darkness: float) -> Text:
    """A cell for paper, pipes and files."""
    return Text(SHADES[np.searchsorted(LEVELS, darkness, side="right") - 1] * CELL)


def glow(darkness: float) -> Text:
    """A cell for a terminal with colours."""
    red, green, blue = (np.interp(darkness, (0, 0.5, 1), each) for each in zip(*GLOW, strict=True))
    return Text(" " * CELL, Style(bgcolor=Color.from_rgb(red, green, blue)))


def heat(
    queries: Sequence[str], keys: Sequence[str], weights_LS: np.ndarray, width: int, paint: Paint
) -> Iterator[Text]:
    """The lines of a heat map, none wider than ``width``; many keys are split into panels.

    Darkness grows with the square root of the weight: five shades would show little else than
    the few largest weights, such as the first token of a causal map, which must look at itself.
    """
    peak = float(weights_LS.max(initial=0.0)) or 1.0
    darkness_LS = np.sqrt(weights_LS / peak)
    side = min(max(map(cell_len, queries), default=0), WIDEST, max(width // 3, 1))
    at_once = max(1, (width - side - 1) // CELL)
    for start in range(0, len(keys), at_once):
        panel = slice(start, start + at_once)
        yield from _top(keys[panel], side)
        for query, darkness_S in zip(queries, darkness_LS, strict=True):
            cells = (paint(darkness) for darkness in darkness_S[panel])
            yield Text.assemble(_right(clip(query, side), side), " ", *cells)
        yield Text()
    yield from _legend(peak, width, paint)


def _legend(peak: float, width: int, paint: Paint) -> Iterator[Text]:
    """The least weight of every level, on one line or, where that is too wide, on several."""
    entries = [Text.assemble(paint(level), f" {level**2 * peak:.2g}   ") for level in LEVELS]
    at_once = max(1, width // max(entry.cell_len for entry in entries))
    for start in range(0, len(entries), at_once):
        yield Text.assemble(*entries[start : start + at_once])


def _top(keys: Sequence[str], side: int) -> Iterator[Text]:
    """The labels over the columns, one letter below the other, standing on the cells."""
    stacks = [_letters(clip(key, TALLEST)) for key in keys]
    height = max(map(len, stacks), default=0)
    stacks = [[""] * (height - len(stack)) + stack for stack in stacks]
    for line in zip(*stacks, strict=True):
        letters = "".join(letter + " " * (CELL - cell_len(letter)) for letter in line)
        yield Text(" " * (side + 1) + letters)


def _letters(label: str) -> list[str]:
    """Characters, with their accents and joiners."""
    letters: list[str] = []
    for character in label:
        if letters and cell_len(character) == 0:
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def _right(label: str, width: int) -> str:
    return " " * (width - cell_len(label)) + label
