"""HTML pages of attention maps: attention.html with its style, script and data inline.

The pages of a text and of an image have their own sections, each with a script that draws them.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from string import Template

import numpy as np

from regard.ground.errors import BadInput
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.views import markup
from regard.inside.views.markup import escape_controls, escape_line, fill_template, read_asset
from regard.inside.views.packed_weights import PackedMap, compress, pack_maps
from regard.inside.views.panels import DARKEST, LIGHTEST, data_uri, ramp_rgba
from regard.text.segmentation import LabelledImage

LONG = 60  # keys from which on special tokens and sinks are hidden at first
CLASSES = 10  # listed classes of an image
STYLES = {"words": ["page.css"], "image": ["page.css", "classes.css", "image.css"]}
SCRIPTS = {
    "words": [
        "elements.js",
        "attention_weights.js",
        "attention.js",
        "address.js",
        "attention_hidden.js",
        "attention_lines.js",
        "attention_words.js",
    ],
    "image": [
        "elements.js",
        "attention_weights.js",
        "attention.js",
        "address.js",
        "attention_image.js",
    ],
}
MOST = 19_000_000  # characters of all weights of a page
AVERAGED = "heads are averaged here, for there are too many weights"

Chosen = Mapping[str, object]
"""Initial state of a page: indices of a map, layer and head (None: the mean); for an image also the
position that attention comes "from".
"""


def attention_page(title: str, summary: str, maps: Sequence[AttentionMap], chosen: Chosen) -> str:
    """HTML page of the attention on a text; a long one opens without special tokens and sinks.

    If there are too many weights, they are rounded; if there are more, heads are averaged.
    """
    long = max((len(each.keys) for each in maps), default=0) >= LONG
    chosen, data, note = _data(maps, {**chosen, "hide": ["special", "sinks"] if long else []})
    summary = " · ".join(filter(None, (escape_line(summary), note)))
    return _page(title, summary, chosen, "words", read_asset("attention_words.html"), data)


def image_page(
    title: str,
    summary: str,
    maps: Sequence[AttentionMap],
    chosen: Chosen,
    image: LabelledImage,
    scores: Mapping[str, float],
) -> str:
    """HTML page of the attention on an image, with the image and the scores of its classes.

    If there are too many weights, they are rounded; if there are more, heads are averaged.
    """
    (height, width), (rows, columns) = image.pixels_HWC.shape[:2], image.grid
    chosen, data, note = _data(maps, chosen)
    size = f"{height} × {width} pixels, {rows} × {columns} patches"
    picture = {
        "grid": image.grid,
        "tokens": image.tokens,
        "grey": (DARKEST, LIGHTEST),
        "ramp": ramp_rgba(np.linspace(0, 1, 256)).tolist(),
    }
    parts = {"image": data_uri(image.pixels_HWC), "ratio": f"{width}/{height}"}
    parts |= {"size": "; ".join(filter(None, (size, note))), "picture": _inline_json(picture)}
    parts |= {"classes": markup.score_rows(scores, CLASSES)}
    sections = Template(read_asset("attention_image.html")).substitute(parts)
    return _page(title, summary, chosen, "image", sections, data)


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


def _data(
    maps: Sequence[AttentionMap], chosen: Chosen
) -> tuple[Chosen, list[dict[str, object]], str]:
    """Initial state and maps of a page, and a note if heads had to be averaged."""
    packed, note = pack_maps(maps, MOST), ""
    if packed is None:
        maps, chosen = [each.mean_of_heads() for each in maps], {**chosen, "head": None}
        packed, note = pack_maps(maps, MOST), AVERAGED
    if packed is None:
        size = max(len(each.queries) * len(each.keys) for each in maps)
        raise BadInput(f"too many weights for a page (up to {size:,} in a head): shorten the input")
    return chosen, [_to_json(*each) for each in zip(maps, packed, strict=True)], note


def _to_json(shown: AttentionMap, packed: PackedMap) -> dict[str, object]:
    allowed = shown.allowed
    return {
        "name": escape_controls(shown.name),
        "queries": [escape_controls(query) for query in shown.queries],
        "keys": [escape_controls(key) for key in shown.keys],
        "allowed": None if allowed is None else compress(allowed.astype(np.uint8).tobytes()),
        "unchosen": shown.without_layer,
        "special": {"queries": shown.special_queries, "keys": shown.special_keys},
        **packed._asdict(),
    }


def _inline_json(data: object) -> str:
    """JSON for a <script> element; "<" is escaped, so that no text can end the element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
