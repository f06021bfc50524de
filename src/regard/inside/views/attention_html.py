"""Attention maps as one offline page: attention.html with its style, script and data inline.

The pages of a text and of an image have sections of their own, with a script that draws them.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from html import escape
from string import Template

import numpy as np

from regard.inside.attention.attention_map import AttentionMap
from regard.inside.views.markup import (
    escape_controls,
    escape_line,
    fill_template,
    read_asset,
    score_rows,
)
from regard.inside.views.panels import DARKEST, LIGHTEST, data_uri, ramp_rgba
from regard.text.token_labels import LabelledImage

UNIT = 10_000  # weights of texts are written as whole ten-thousandths: four decimals, half the size
CLASSES = 10  # the classes of an image that are listed
MOST = 60_000_000  # weights of a page: more would be too much for a browser

Chosen = Mapping[str, int | None]
"""What a page shows when it is opened: the numbers of a map, and of a layer and head or None for
the mean; of an image also the position that attention comes "from".
"""


def attention_page(title: str, summary: str, maps: Sequence[AttentionMap], chosen: Chosen) -> str:
    """A self-contained page: it loads no file, font or script."""
    sections = read_asset("attention_words.html")
    data = [_to_json(each, _in_units) for each in maps]
    return _page(title, summary, sections, data, chosen, "attention_words.js")


def image_page(
    title: str,
    summary: str,
    maps: Sequence[AttentionMap],
    chosen: Chosen,
    image: LabelledImage,
    scores: Mapping[str, float],
) -> str:
    """A page of an image, which it contains, with the scores of its classes.

    Where there are too many weights, each layer has the mean of its heads.
    """
    (height, width), (rows, columns) = image.pixels_HWC.shape[:2], image.grid
    size = f"{height} × {width} pixels, {rows} × {columns} patches"
    if sum(layer.size for each in maps for layer in each.layers) > MOST:
        maps, chosen = [each.mean_of_heads() for each in maps], {**chosen, "head": None}
        size += "; heads are averaged here, for there are too many weights"
    picture = {
        "grid": image.grid,
        "tokens": image.tokens,
        "grey": (DARKEST, LIGHTEST),
        "ramp": ramp_rgba(np.linspace(0, 1, 256)).tolist(),
    }
    sections = Template(read_asset("attention_image.html")).substitute(
        image=data_uri(image.pixels_HWC),
        ratio=f"{width}/{height}",
        size=size,
        classes=score_rows(scores, CLASSES),
        picture=_inline_json(picture),
    )
    data = [_to_json(each, _in_bytes) for each in maps]
    styles = ("classes.css", "image.css")
    return _page(title, summary, sections, data, chosen, "attention_image.js", styles)


def _page(
    title: str,
    summary: str,
    sections: str,
    data: list[dict[str, object]],
    chosen: Chosen,
    script: str,
    styles: Sequence[str] = (),
) -> str:
    return fill_template(
        "attention.html",
        title=title,
        summary=escape(escape_line(summary)),
        styles=["page.css", *styles],
        scripts=["attention.js", script],
        sections=sections,
        chosen=escape(json.dumps(chosen)),
        data=_inline_json(data),
    )


def _to_json(shown: AttentionMap, of_head: Callable[[np.ndarray], object]) -> dict[str, object]:
    return {
        "name": escape_controls(shown.name),
        "queries": [escape_controls(query) for query in shown.queries],
        "keys": [escape_controls(key) for key in shown.keys],
        "allowed": None if shown.allowed is None else shown.allowed.astype(int).tolist(),
        "unchosen": shown.without_layer,
        "layers": [[of_head(weights_LS) for weights_LS in layer] for layer in shown.layers],
    }


def _in_units(weights_LS: np.ndarray) -> list[list[int]]:
    return np.rint(weights_LS * UNIT).astype(int).tolist()


def _in_bytes(weights_LS: np.ndarray) -> dict[str, object]:
    """The largest weight of each query, and a byte for each weight: the root of its share.

    An image has hundreds of patches, whose weights are small: bytes are shorter and finer.
    """
    peaks_L = weights_LS.max(axis=-1, initial=0.0)
    shares_LS = weights_LS / np.where(peaks_L > 0, peaks_L, 1)[:, None]
    roots = np.rint(255 * np.sqrt(shares_LS)).astype(np.uint8).tobytes()
    peaks = [float(f"{peak:.4g}") for peak in peaks_L]
    return {"peaks": peaks, "roots": b64encode(roots).decode()}


def _inline_json(data: object) -> str:
    """JSON for a <script> element: with "<" escaped, no text in it can end the element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
