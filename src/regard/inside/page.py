"""Attention maps as one offline page: page.html filled with page.css, page.js and the numbers."""

import json
from collections.abc import Sequence
from html import escape

import numpy as np

from regard.inside.labels import visible, visible_line
from regard.inside.maps import Map
from regard.inside.template import filled, text

UNIT = 10_000  # weights travel as whole ten-thousandths: four decimals, at half the size


def page(title: str, summary: str, maps: Sequence[Map]) -> str:
    """A self-contained page: no file, font or script from elsewhere."""
    return filled(
        "page.html",
        title=title,
        summary=escape(visible_line(summary)),
        style=text("page.css"),
        script=text("page.js"),
        data=_embedded([_plain(each) for each in maps]),
    )


def _plain(shown: Map) -> dict[str, object]:
    """A map as JSON knows it."""
    return {
        "name": visible(shown.name),
        "queries": [visible(query) for query in shown.queries],
        "keys": [visible(key) for key in shown.keys],
        "layers": [np.rint(weights * UNIT).astype(int).tolist() for weights in shown.layers],
    }


def _embedded(data: object) -> str:
    """JSON that no text in it can break out of: inside <script>, only "<" could end the element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
