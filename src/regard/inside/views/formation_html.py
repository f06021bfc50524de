"""HTML page of heads while they form: a grid of heads for each step, and the curve of the loss."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from regard.inside.views.line_chart import LEFT, PAGE_COLOURS, RIGHT, WIDTH, Chart
from regard.inside.views.markup import escape_line, fill_template


@dataclass(frozen=True)
class FigureFrames:
    """One figure of all heads: ``values`` by step and head, None where it does not apply.

    A cell is darkest at ``most``, and has ``digits`` after the point. ``chart`` has the curves of a
    few heads.
    """

    about: str
    values: Sequence[Sequence[float | None]]
    most: float
    digits: int
    chart: Chart


@dataclass(frozen=True)
class HeadFrames:
    """Heads by step: ``places`` are (site, layer, head), in the order of the values of a figure."""

    title: str
    caption: str
    steps: Sequence[int]
    losses: Sequence[float | None]
    places: Sequence[tuple[str, int, int]]
    figures: Mapping[str, FigureFrames]
    loss: Chart


def formation_page(frames: HeadFrames, figure: str) -> str:
    """Page with a slider over steps; it opens at the last step, with this figure."""
    charts = [f'<div class="scrolls" data-chart="">{frames.loss.svg(PAGE_COLOURS)}</div>']
    charts += [
        f'<div class="scrolls" data-chart="{escape(name)}" hidden>'
        f"{each.chart.svg(PAGE_COLOURS)}</div>"
        for name, each in frames.figures.items()
    ]
    data = {
        "steps": frames.steps,
        "losses": frames.losses,
        "places": frames.places,
        "sides": (LEFT, WIDTH - RIGHT),
        "figures": {
            name: {
                "about": each.about,
                "values": each.values,
                "most": each.most,
                "digits": each.digits,
            }
            for name, each in frames.figures.items()
        },
    }
    chosen = {"step": len(frames.steps) - 1, "figure": figure}
    return fill_template(
        "formation.html",
        title=frames.title,
        styles=["report.css", "formation.css"],
        scripts=["elements.js", "address.js", "formation.js"],
        caption=escape(escape_line(frames.caption)),
        last=str(len(frames.steps) - 1),
        chosen=escape(json.dumps(chosen)),
        charts="\n".join(charts),
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    )
