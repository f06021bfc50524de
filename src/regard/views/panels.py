"""Panels: pictures of one image side by side, each with its name and scale, as PNG and SVG.

Weights of patches are drawn over an image: brighter patches have larger weights.
"""

import io
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from regard.images.decode import GREY, pillow
from regard.views import markup
from regard.views.markup import FONT, INK, LETTER, MARGIN, QUIET, TITLE, clip, escape_line
from regard.views.palette import scale_stops

RAMP = scale_stops("viridis", "dark")  # from the smallest weight to the largest
OPACITY = 0.8  # at the largest weight; at the least one nothing is drawn
DARKEST, LIGHTEST = 20, 170  # of the grey image under the weights
BICUBIC = 3  # the filter, as Pillow numbers them
SIDE, GAP, LINE = 240, 20, 20  # pixels: of the longer side of a picture, between them, of a line
BAR = (64, 8)  # width and height of a scale
COLUMNS = 5  # at most so many pictures side by side
THICK = 3  # of a frame
DENSITY = 2  # pixels of a PNG file for each pixel here


def ramp_rgba(shares: np.ndarray) -> np.ndarray:
    """Colour and opacity in bytes, (…, 4), of shares from 0 to 1."""
    places = np.linspace(0, 1, len(RAMP))
    channels = [np.interp(shares, places, levels) for levels in zip(*RAMP, strict=True)]
    return np.rint(np.stack([*channels, 255 * OPACITY * shares], axis=-1)).astype(np.uint8)


def shares_of(weights: np.ndarray) -> np.ndarray:
    """Rescale weights to 0 for the smallest and 1 for the largest."""
    least, most = weights.min(), weights.max()
    return (weights - least) / (most - least) if most > least else np.zeros_like(weights)


def enlarge(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize bytes (H, W, C), or floats (H, W), to more pixels."""
    picture = pillow().fromarray(values)
    return np.asarray(picture.resize((width, height), BICUBIC))


def three_channels(pixels_HWC: np.ndarray) -> np.ndarray:
    """Convert an image in bytes to three channels."""
    return np.broadcast_to(pixels_HWC, (*pixels_HWC.shape[:2], 3))


def overlay(pixels_HWC: np.ndarray, weights_RC: np.ndarray) -> np.ndarray:
    """Draw the weights of patches (rows, columns) over a dimmed grey image, (H, W, 3)."""
    grey_HW = DARKEST + pixels_HWC @ GREY * (LIGHTEST - DARKEST) / 255
    shares_RC = shares_of(weights_RC).astype(np.float32)
    shares_HW = np.clip(enlarge(shares_RC, *pixels_HWC.shape[:2]), 0, 1)
    heat_HWC = ramp_rgba(shares_HW).astype(np.float64)
    opacity_HW1 = heat_HWC[..., 3:] / 255
    mixed = grey_HW[..., None] * (1 - opacity_HW1) + heat_HWC[..., :3] * opacity_HW1
    return np.rint(mixed).astype(np.uint8)


def png_bytes(pixels_HWC: np.ndarray) -> bytes:
    """Encode an image as a PNG file; one channel is grey."""
    buffer = io.BytesIO()
    pixels = pixels_HWC[..., 0] if pixels_HWC.shape[2] == 1 else pixels_HWC
    pillow().fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def data_uri(pixels_HWC: np.ndarray) -> str:
    """Encode an image as a data URI of a PNG file."""
    return "data:image/png;base64," + b64encode(png_bytes(pixels_HWC)).decode()


class Panel(NamedTuple):
    """Image (H, W, C), optionally under the weights of its patches (rows, columns).

    ``frame`` is a rectangle: top, left, bottom and right, as shares of height and width.
    """

    name: str
    pixels_HWC: np.ndarray
    weights_RC: np.ndarray | None = None
    frame: tuple[float, ...] | None = None


class TextItem(NamedTuple):
    """Line of text, and the start of its baseline."""

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
    """Drawing of texts and pictures, with its size."""

    title: str
    width: int
    height: int
    texts: list[TextItem]
    pictures: list[PictureItem]

    def svg(self) -> str:
        """Standalone SVG file, which contains the pictures."""
        parts = [markup.svg_background()]
        for x, y, width, height, pixels in self.pictures:
            place = f'x="{x:.0f}" y="{y:.0f}" width="{width}" height="{height}"'
            parts.append(f'<image {place} href="{data_uri(pixels)}" preserveAspectRatio="none"/>')
        for x, y, text, size, colour in self.texts:
            style = f'font-size="{size}" fill="{colour}"'
            parts.append(f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(text)}</text>')
        return markup.svg_element(self.title, self.width, self.height, parts)

    def png(self) -> bytes:
        """PNG file with twice as many pixels in each direction."""
        from PIL import Image, ImageDraw, ImageFont

        paper = Image.new("RGB", (DENSITY * self.width, DENSITY * self.height), markup.PAPER)
        for x, y, width, height, pixels in self.pictures:
            picture = Image.fromarray(pixels).resize((DENSITY * width, DENSITY * height))
            paper.paste(picture, (round(DENSITY * x), round(DENSITY * y)))
        draw = ImageDraw.Draw(paper)
        for x, y, text, size, colour in self.texts:
            font = ImageFont.load_default(DENSITY * size)
            place = (round(DENSITY * x), round(DENSITY * y))
            draw.text(place, text, fill=colour, font=font, anchor="ls")
        return png_bytes(np.asarray(paper))


def lay_out(title: str, caption: str, panels: Sequence[Panel]) -> Sheet:
    """Sheet of the panels in rows, under a title and a caption."""
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
            bar = x + markup.text_length(least) + 6
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
    """Colour scale of weights over black, from left to right."""
    shares = np.linspace(0, 1, DENSITY * BAR[0])
    return overlay(np.zeros((1, len(shares), 3), np.uint8), shares[None])
