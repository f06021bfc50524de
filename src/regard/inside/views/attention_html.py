"""Attention maps as one offline page: attention.html with its style, script and data inline."""

import json
from collections.abc import Sequence
from html import escape

import numpy as np

from regard.inside.attention_map import AttentionMap
from regard.inside.views.escape import escape_controls, escape_line
from regard.inside.views.html import fill_template

UNIT = 10_000  # weights are written as whole ten-thousandths: four decimals at half the size


def attention_page(title: str, summary: str, maps: Sequence[AttentionMap]) -> str:
    """A self-contained page: it loads no file, font or script."""
    return fill_template(
        "attention.html",
        title=title,
        summary=escape(escape_line(summary)),
        styles=["page.css"],
        script="attention.js",
        data=_inline_json([_to_json(each) for each in maps]),
    )


def _to_json(shown: AttentionMap) -> dict[str, object]:
    return {
        "name": escape_controls(shown.name),
        "queries": [escape_controls(query) for query in shown.queries],
        "keys": [escape_controls(key) for key in shown.keys],
        "allowed": None if shown.allowed is None else shown.allowed.astype(int).tolist(),
        "layers": [np.rint(weights * UNIT).astype(int).tolist() for weights in shown.layers],
    }


def _inline_json(data: object) -> str:
    """JSON for a <script> element: with "<" escaped, no text in it can end the element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
