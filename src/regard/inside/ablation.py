"""Ablation: the score of a model with each head, each layer or each list of edits applied.

A head that a model needs costs much when it is turned off (Michel et al., 2019, arXiv:1905.10650,
section 3; Voita et al., 2019, arXiv:1905.09418).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.core.errors import BadInput
from regard.inference.model_runner import ModelRunner
from regard.models.edits import EditList, HeadOff, LayerOff
from regard.views.markup import HTMLPage, report_page
from regard.views.matrix_svg import draw_attention

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class AblationScore:
    """Score of a model with edits, which are named by their ``place`` and identified by a hash."""

    place: Place
    hash: str
    value: float


@dataclass(frozen=True)
class Ablation(HTMLPage):
    """Scores of a model with edits, beside the score of the whole model.

    ``places`` are the names of the parts of a place: attention, layer, head. The loss of an edit is
    what the metric loses by it; of some metrics, ``lower`` values are better.
    """

    title: str
    metric: str
    signature: str
    whole: float
    places: tuple[str, ...]
    scores: tuple[AblationScore, ...]
    lower: bool = False

    def loss(self, score: AblationScore) -> float:
        """What the metric loses by an edit; negative: the edit improves it."""
        difference = self.whole - score.value
        return -difference if self.lower else difference

    @property
    def ranked(self) -> list[AblationScore]:
        """All scores, the highest loss first."""
        return sorted(self.scores, key=self.loss, reverse=True)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a table."""
        return *self.places, self.metric, "loss", "hash"

    @property
    def rows(self) -> list[tuple[str | int | float | None, ...]]:
        """Rows of a table: the whole model, then all edits, the highest loss first."""
        missing = [None] * (len(self.places) - 1)
        whole = ("none", *missing, self.whole, 0.0, None)
        return [whole, *((*it.place, it.value, self.loss(it), it.hash) for it in self.ranked)]

    @property
    def records(self) -> list[dict[str, object]]:
        """The rows as JSON objects, with the signature of the metric."""
        named = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return [{**record, "signature": self.signature} for record in named]

    @property
    def caption(self) -> str:
        """Explanation of the losses."""
        return f"loss of {self.metric} without it, from {self.whole:.2f} ({self.signature})"

    def drawings(self) -> dict[str, str]:
        """Heat maps (SVG) of layers and heads by attention; of layers alone, one by side.

        The darkness of a cell is its loss; an edit that improves the score is white.
        """
        sites: dict[str, dict[tuple[int, int], float]] = {}
        for score in self.scores:
            site, *numbers = score.place
            if numbers:
                layer, head = (int(number) for number in (*numbers, 0)[:2])
                sites.setdefault(str(site), {})[layer, head] = self.loss(score)
        return {site: self._draw(site, losses) for site, losses in sites.items()}

    def _draw(self, site: str, losses: Mapping[tuple[int, int], float]) -> str:
        depth, width = (1 + max(place[axis] for place in losses) for axis in (0, 1))
        losses_LH, exists_LH = np.zeros((depth, width)), np.zeros((depth, width), bool)
        for place, loss in losses.items():
            losses_LH[place], exists_LH[place] = max(0.0, loss), True
        heads = [f"head {number}" for number in range(width)]
        names = heads if self.places[-1] == "head" else ["layer"]
        layers = [f"layer {number}" for number in range(depth)]
        return draw_attention(
            f"{self.title}: {site}", self.caption, layers, names, losses_LH, exists_LH
        )

    def html(self) -> str:
        rows = [["" if cell is None else show_cell(cell) for cell in row] for row in self.rows]
        drawings = [*self.drawings().values()]
        return report_page(self.title, self.columns, rows, drawings, [self.caption])


def show_cell(cell: str | int | float) -> str:
    """A cell of a table as text."""
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)


def best_metric(names: Sequence[str], preferred: Sequence[str | None]) -> str:
    """The first of the ``preferred`` metrics that was measured, else the first one measured."""
    matches = (name for want in preferred if want for name in names if name.startswith(want))
    return next(matches, names[0])


def head_edits(model: ModelRunner) -> dict[tuple[str, int, int], EditList]:
    """The edit that turns off each head, by the name of its attention, layer and number."""
    names = model.tape_names()
    edits = {}
    for site in model.facts.attention_sites:
        for layer, heads in enumerate(site.heads):
            path = site.tape_path.format(layer=layer)
            at = path if f"{path}.head_outputs" in names else site.weights[layer]
            for head in range(heads):
                place = site.name, layer, head
                edits[place] = EditList("{} {}.{}".format(*place), (HeadOff(at, head),))
    if not edits:
        raise BadInput("this model has no attention heads that can be turned off")
    return edits


def layer_edits(model: ModelRunner) -> dict[tuple[str, int], EditList]:
    """The edit that turns off each layer, by the side and number of the layer."""
    names = {*model.tape_names()}
    edits = {}
    for side in model.facts.sides:
        for layer in range(getattr(model.facts, side).stack.depth):
            edit = LayerOff(f"{side}.blocks.{layer}")
            if {*edit.names} & names:
                edits[side, layer] = EditList(f"{side} {layer}", (edit,))
    if not edits:
        raise BadInput("this model has no Transformer layers that can be turned off")
    return edits
