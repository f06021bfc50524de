"""Induction heads (Olsson et al., 2022, arXiv:2209.11895): after "A B … A" they attend to B."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from rich.text import Text

from regard.core.batch import Ids
from regard.core.errors import BadInput
from regard.inside.attention.attention_view import View
from regard.views.attention_text import colour_cell, heat_map, shade_cell
from regard.views.markup import clip, escape_line
from regard.views.matrix_svg import draw_attention
from regard.views.view_record import ViewRecord

NAMED = 5  # heads listed below the table


@dataclass(frozen=True, eq=False)
class InductionScores(View):
    """Induction scores from 0 to 1 of all heads, by layer.

    A score is the attention from a token to the tokens that followed its earlier occurrences, the
    mean over the ``tokens`` that have any. Equal attention to all allowed keys scores ``uniform``.
    """

    _fixed: ClassVar[str] = "induction scores cover all layers and heads: do not choose any"
    title: str
    layers: tuple[np.ndarray, ...]  # (heads,) each
    tokens: int
    uniform: float

    @classmethod
    def of(cls, title: str, ids: Ids, layers: Sequence[np.ndarray]) -> "InductionScores":
        """Scores from the token ids of a text and the weights of each layer, (heads, L, S)."""
        after_LS = follows_earlier(ids)
        repeated = after_LS.any(axis=1)
        if not repeated.any():
            raise BadInput("no token of this text occurs twice: repeat the text")

        def score(weights_LS: np.ndarray) -> np.ndarray:
            return (weights_LS * after_LS).sum(-1)[..., repeated].mean(-1)

        uniform_LS = np.tri(len(ids)) / np.arange(1, len(ids) + 1)[:, None]
        scores = tuple(score(weights_HLS) for weights_HLS in layers)
        return cls(title, scores, int(repeated.sum()), float(score(uniform_LS)))

    @property
    def caption(self) -> str:
        """Explanation of the scores."""
        counted = f"mean of {self.tokens} tokens"
        return f"induction score of each head, {counted}; uniform attention: {self.uniform:.3f}"

    def highest(self, count: int = NAMED) -> list[tuple[int, int, float]]:
        """Layer, head and score of the heads with the highest scores."""
        heads = [
            (layer, head, float(score))
            for layer, scores_H in enumerate(self.layers)
            for head, score in enumerate(scores_H)
        ]
        return sorted(heads, key=lambda head: -head[2])[:count]

    def svg(self) -> str:
        return draw_attention(self.title, self.caption, *self._table)

    def view_record(self) -> ViewRecord:
        names = "rows", "columns", "values", "exists"
        grid = {"name": "induction", **dict(zip(names, self._table, strict=True))}
        return ViewRecord.of("grids", title=self.title, caption=self.caption, grids=[grid])

    def to_json(self) -> dict[str, object]:
        scores = [scores_H.round(6).tolist() for scores_H in self.layers]
        return {"induction": scores, "tokens": self.tokens, "uniform": round(self.uniform, 6)}

    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        yield Text(clip(escape_line(self.title), width))
        yield Text(clip(self.caption, width))
        yield Text()
        layers, heads, scores_LH, exists_LH = self._table
        paint = colour_cell if coloured else shade_cell
        yield from heat_map(layers, heads, scores_LH, width, paint, exists_LH)
        yield Text()
        for layer, head, score in self.highest():
            yield Text(f"layer {layer}, head {head}: {score:.3f}")

    @property
    def _table(self) -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
        """Labels of rows and columns, scores_LH, and the mask of existing heads."""
        most = max(map(len, self.layers))
        scores_LH = np.zeros((len(self.layers), most), dtype=np.float32)
        for layer, scores_H in enumerate(self.layers):
            scores_LH[layer, : len(scores_H)] = scores_H
        exists_LH = np.arange(most) < np.array([*map(len, self.layers)])[:, None]
        layers = [f"layer {layer}" for layer in range(len(self.layers))]
        return layers, [f"head {head}" for head in range(most)], scores_LH, exists_LH


def follows_earlier(ids: Ids) -> np.ndarray:
    """Mask (queries, keys) of keys that follow an earlier occurrence of the query's token.

    A token does not follow itself: "A A" has no such key.
    """
    ids_L = np.asarray(ids)
    after_LS = np.zeros((len(ids_L), len(ids_L)), dtype=bool)
    after_LS[:, 1:] = ids_L[:, None] == ids_L[None, :-1]
    return np.tril(after_LS, -1)
