"""Page of attributions: words, a matrix or images by method, their comparison and its chart."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from regard.inside.views.line_chart import PAGE_COLOURS, Chart
from regard.inside.views.markup import escape_controls, escape_line, fill_template, html_table
from regard.inside.views.panels import data_uri, overlay, three_channels
from regard.inside.views.word_marks import shares, word_spans
from regard.text.segmentation import LabelledImage

Values = tuple[Sequence[str], Sequence[str], Mapping[str, np.ndarray]]
"""Targets, words, and values (targets, words) by method."""


def attribution_page(
    title: str,
    summary: str,
    values: Values,
    image: LabelledImage | None,
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
    chart: Chart,
    notes: Sequence[str],
) -> str:
    """HTML page of attributions, with a table that compares methods and a chart."""
    targets, words, by_method = values
    sections = []
    for name, values_MW in by_method.items():
        if image is not None:
            body = _picture(image, values_MW[0])
        elif len(targets) > 1:
            body = _matrix(targets, words, values_MW)
        else:
            body = f'<p class="words" dir="auto">{word_spans(words, values_MW[0])}</p>'
        sections.append(f"<section>\n<h2>{escape(name)}</h2>\n{body}\n</section>")
    return fill_template(
        "attribution.html",
        title=title,
        styles=["report.css", "words.css", "attribution.css"],
        summary=escape(escape_line(summary)),
        sections="\n".join(sections),
        table=html_table(*table),
        chart=chart.svg(PAGE_COLOURS),
        notes="\n".join(f"<p>{escape(escape_line(note))}</p>" for note in notes),
    )


def _picture(image: LabelledImage, values_W: np.ndarray) -> str:
    drawn = overlay(three_channels(image.pixels_HWC), values_W.reshape(image.grid))
    return f'<img src="{data_uri(drawn)}" alt="attribution of each patch, brighter is larger">'


def _matrix(targets: Sequence[str], words: Sequence[str], values_MW: np.ndarray) -> str:
    """Table with a coloured cell for each target, down, and each word, across."""
    heads = "".join(f"<th>{escape(escape_controls(word))}</th>" for word in words)
    rows = []
    for target, values_W, shares_W in zip(targets, values_MW, shares(values_MW), strict=True):
        cells = (
            f'<td{" class=below" if share < 0 else ""} style="--w:{abs(share):.3f}" '
            f'title="{value:.4f}"></td>'
            for value, share in zip(values_W, shares_W, strict=True)
        )
        rows.append(f"<tr><th>{escape(escape_controls(target))}</th>{''.join(cells)}</tr>")
    lines = [f"<tr><th></th>{heads}</tr>", *rows]
    return "\n".join(['<div class="scrolls"><table class="matrix">', *lines, "</table></div>"])
