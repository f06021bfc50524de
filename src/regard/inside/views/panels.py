"""Pictures of one image side by side, each with its name and scale, as PNG and as SVG."""

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from regard.inside.views.escape import clip, escape_line
from regard.inside.views.heat_overlay import (
    data_uri,
    enlarge,
    overlay,
    png_bytes,
    three_channels,
)
from regard.inside.views.svg import (
    FONT,
    INK,
    LETTER,
    MARGIN,
    PAPER,
    QUIET,
    TITLE,
    svg_background,
    svg_element,
    text_length,
)

SIDE, GAP, LINE = 240, 20, 20  # pixels: of the longer side of a picture, between them, of a line
BAR = (64, 8)  # width and height of a scale
COLUMNS = 5  # at most so many pictures side by side
THICK = 3  # of a frame
DENSITY = 2  # pixels of a PNG file for each pixel here


class Panel(NamedTuple):
    """An image (H, W, C), perhaps under the weights of its patches (rows, columns).

    ``frame`` is a rectangle on it: top, left, bottom and right, as shares of its sides.
    """

    name: str
    pixels_HWC: np.ndarray
    weights_RC: np.ndarray | None = None
    frame: tuple[float, ...] | None = None


class TextItem(NamedTuple):
    """A line of text, and where its baseline begins."""

    x: float
    y: float
    text: str
    size: int = FONT
    colour: str = INK


class PictureItem(NamedTuple):
    """Pixels (H, W, 3) in a rectangle."""

    x: float
    y: float
    width: int
    height: int
    pixels: np.ndarray


class Sheet(NamedTuple):
    """What is drawn, on a paper of that size."""

    title: str
    width: int
    height: int
    texts: list[TextItem]
    pictures: list[PictureItem]

    def svg(self) -> str:
        """A standalone SVG file, which contains the pictures."""
        parts = [svg_background()]
        for x, y, width, height, pixels in self.pictures:
            place = f'x="{x:.0f}" y="{y:.0f}" width="{width}" height="{height}"'
            parts.append(f'<image {place} href="{data_uri(pixels)}" preserveAspectRatio="none"/>')
        for x, y, text, size, colour in self.texts:
            style = f'font-size="{size}" fill="{colour}"'
            parts.append(f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(text)}</text>')
        return svg_element(self.title, self.width, self.height, parts)

    def png(self) -> bytes:
        """A PNG file of twice as many pixels."""
        from PIL import Image, ImageDraw, ImageFont

        paper = Image.new("RGB", (DENSITY * self.width, DENSITY * self.height), PAPER)
        for x, y, width, height, pixels in self.pictures:
            picture = Image.fromarray(pixels).resize((DENSITY * width, DENSITY * height))
            paper.paste(picture, (round(DENSITY * x), round(DENSITY * y)))
        draw = ImageDraw.Draw(paper)
        for x, y, text, size, colour in self.texts:
            font: Any = ImageFont.load_default(DENSITY * size)
            place = (round(DENSITY * x), round(DENSITY * y))
            draw.text(place, text, fill=colour, font=font, anchor="ls")
        return png_bytes(np.asarray(paper))


def lay_out(title: str, caption: str, panels: Sequence[Panel]) -> Sheet:
    """The panels in rows, under a title and a caption."""
    rows = -(-len(panels) // COLUMNS)
    columns = -(-len(panels) // rows)
    height, width = _fit(panels[0].pixels_HWC.shape, SIDE)
    step = height + 2 * LINE + GAP
    top = MARGIN + 2 * LINE + GAP
    paper = 2 * MARGIN + columns * width + (columns - 1) * GAP, top + rows * step - GAP + MARGIN
    letters = int((paper[0] - 2 * MARGIN) / LETTER)
    title = escape_line(title)
    texts = [
        TextItem(MARGIN, MARGIN + TITLE, clip(title, letters // TITLE), TITLE),
        TextItem(MARGIN, MARGIN + 2 * LINE, clip(caption, letters // FONT), colour=QUIET),
    ]
    pictures = []
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        x, y = MARGIN + column * (width + GAP), top + row * step
        drawn = _draw(panel, DENSITY * height, DENSITY * width)
        pictures.append(PictureItem(x, y, width, height, drawn))
        name = clip(escape_line(panel.name), int(width / LETTER / FONT))
        texts.append(TextItem(x, y + height + LINE - 2, name))
        if panel.weights_RC is not None:
            baseline = y + height + 2 * LINE - 4
            least, most = (f"{end(panel.weights_RC):.3f}" for end in (np.min, np.max))
            bar = x + text_length(least) + 6
            pictures.append(PictureItem(bar, baseline - BAR[1], *BAR, _scale()))
            texts.append(TextItem(x, baseline, least, colour=QUIET))
            texts.append(TextItem(bar + BAR[0] + 6, baseline, most, colour=QUIET))
    return Sheet(title, *paper, texts, pictures)


def _fit(shape: tuple[int, ...], side: int) -> tuple[int, int]:
    """Height and width of an image whose longer side has that many pixels."""
    longer = max(shape[:2])
    return max(1, round(side * shape[0] / longer)), max(1, round(side * shape[1] / longer))


def _draw(panel: Panel, height: int, width: int) -> np.ndarray:
    pixels = enlarge(three_channels(panel.pixels_HWC), height, width)
    drawn = pixels.copy() if panel.weights_RC is None else overlay(pixels, panel.weights_RC)
    if panel.frame is not None:
        places = zip(panel.frame, (height, width) * 2, strict=True)
        top, left, bottom, right = (round(share * size) for share, size in places)
        for rows in (slice(top, top + THICK), slice(bottom - THICK, bottom)):
            drawn[rows, left:right] = 255
        for columns in (slice(left, left + THICK), slice(right - THICK, right)):
            drawn[top:bottom, columns] = 255
    return drawn


def _scale() -> np.ndarray:
    """The colours of weights over black, from left to right."""
    shares = np.linspace(0, 1, DENSITY * BAR[0])
    return overlay(np.zeros((1, len(shares), 3), np.uint8), shares[None])
