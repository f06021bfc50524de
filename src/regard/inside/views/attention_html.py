"""HTML pages of attention maps: attention.html with its style, script and data inline.

The pages of a text and of an image have their own sections, each with a script that draws them.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from html import escape
from string import Template

import numpy as np

from regard.inside.attention.attention_map import AttentionMap
from regard.inside.views import markup
from regard.inside.views.markup import escape_controls, escape_line, fill_template, read_asset
from regard.inside.views.panels import DARKEST, LIGHTEST, data_uri, ramp_rgba
from regard.text.segmentation import LabelledImage

UNIT = 10_000  # weights of texts are written as whole ten-thousandths
LONG = 60  # keys from which on special tokens and sinks are hidden at first
CLASSES = 10  # listed classes of an image
STYLES = {"words": ["page.css"], "image": ["page.css", "classes.css", "image.css"]}
SCRIPTS = {
    "words": [
        "elements.js",
        "attention.js",
        "address.js",
        "attention_hidden.js",
        "attention_lines.js",
        "attention_words.js",
    ],
    "image": ["elements.js", "attention.js", "address.js", "attention_image.js"],
}
MOST = 60_000_000  # weights of a page: a browser cannot show more

Chosen = Mapping[str, object]
"""Initial state of a page: indices of a map, layer and head (None: the mean); for an image also the
position that attention comes "from".
"""


def attention_page(title: str, summary: str, maps: Sequence[AttentionMap], chosen: Chosen) -> str:
    """HTML page of the attention on a text; a long one opens without special tokens and sinks."""
    sections, data = read_asset("attention_words.html"), [_to_json(x, _in_units) for x in maps]
    long = max((len(each.keys) for each in maps), default=0) >= LONG
    chosen = {**chosen, "hide": ["special", "sinks"] if long else []}
    return _page(title, summary, chosen, "words", sections, data)


def image_page(
    title: str,
    summary: str,
    maps: Sequence[AttentionMap],
    chosen: Chosen,
    image: LabelledImage,
    scores: Mapping[str, float],
) -> str:
    """HTML page of the attention on an image, with the image and the scores of its classes.

    If there are too many weights, each layer has the mean of its heads.
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
    parts = {"image": data_uri(image.pixels_HWC), "ratio": f"{width}/{height}", "size": size}
    parts |= {"classes": markup.score_rows(scores, CLASSES), "picture": _inline_json(picture)}
    sections = Template(read_asset("attention_image.html")).substitute(parts)
    return _page(title, summary, chosen, "image", sections, [_to_json(x, _in_bytes) for x in maps])


def _page(
    title: str, summary: str, chosen: Chosen, kind: str, sections: str, data: Sequence[object]
) -> str:
    return fill_template(
        "attention.html",
        title=title,
        summary=escape(escape_line(summary)),
        styles=STYLES[kind],
        scripts=SCRIPTS[kind],
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
        "special": {"queries": shown.special_queries, "keys": shown.special_keys},
        "layers": [[of_head(weights_LS) for weights_LS in layer] for layer in shown.layers],
    }


def _in_units(weights_LS: np.ndarray) -> str:
    """Weights, row by row, as whole ten-thousandths: one byte below 128, else two, high bits first.

    Most weights of a long text are small. The first of two bytes is 128 plus the high seven bits.
    """
    units = np.rint(weights_LS * UNIT).astype(np.int64).ravel()
    large = units >= 128
    starts = np.arange(units.size) + large.cumsum() - large
    written = np.empty(units.size + large.sum(), np.uint8)
    written[starts] = np.where(large, 128 | units >> 7, units)
    written[starts[large] + 1] = units[large] & 127
    return b64encode(written.tobytes()).decode()


def _in_bytes(weights_LS: np.ndarray) -> dict[str, object]:
    """Largest weight of each query, and each weight as a byte: the square root of its share.

    An image has hundreds of patches with small weights: bytes are shorter and more precise.
    """
    peaks_L = weights_LS.max(axis=-1, initial=0.0)
    shares_LS = weights_LS / np.where(peaks_L > 0, peaks_L, 1)[:, None]
    roots = np.rint(255 * np.sqrt(shares_LS)).astype(np.uint8).tobytes()
    peaks = [float(f"{peak:.4g}") for peak in peaks_L]
    return {"peaks": peaks, "roots": b64encode(roots).decode()}


def _inline_json(data: object) -> str:
    """JSON for a <script> element; "<" is escaped, so that no text can end the element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
