"""Attention maps as one offline page: page.html filled with page.css, page.js and the numbers."""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

import numpy as np

from regard.inside.labels import one_line, visible
from regard.inside.maps import Map

UNIT = 10_000  # weights travel as whole ten-thousandths: four decimals, at half the size


def page(title: str, summary: str, maps: Sequence[Map]) -> str:
    """A self-contained page: no file, font or script from elsewhere."""
    return Template(_file("page.html")).substitute(
        title=escape(one_line(title)),
        summary=escape(one_line(summary)),
        style=_file("page.css"),
        script=_file("page.js"),
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


def _file(name: str) -> str:
    return (files("regard.inside") / name).read_text(encoding="utf-8")
