"""Attention of a model on one image: weights of patches, drawn over the image."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace

import numpy as np
from rich.text import Text

from regard.core.errors import BadInput, shown
from regard.inference.classifier import TextPrediction
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_record import attention_record
from regard.inside.attention.attention_view import AttentionView
from regard.inside.record import Record
from regard.text.segmentation import LabelledImage
from regard.views.attention_text import Paint, heat_map
from regard.views.markup import clip
from regard.views.panels import Panel, Sheet, lay_out, png_bytes
from regard.views.view_record import ViewRecord

CLASS, MEAN = "class", "mean"
CLASSES = 10  # listed classes of an image

Query = str | tuple[int, int]
"""A token before the patches ("class", "distillation"), row and column of a patch, or "mean"."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageAttention(AttentionView):
    """Attention maps of one image: the weights of all layers and heads, and their rollout.

    ``query`` is the token or patch whose attention is shown; by default the tokens before the
    patches, or the mean of all patches if there are no such tokens.
    """

    image: LabelledImage = field(repr=False)
    query: Query | None = None

    @classmethod
    def of_image(
        cls, title: str, record: Record, prediction: TextPrediction | None
    ) -> "ImageAttention":
        """Make a view of the self-attention maps of an image."""
        (own,) = (each for each in record.by_site if each.site.within)
        maps = tuple(each.map(subwords=True) for each in (own, own._replace(rollout=True)))
        assert record.image is not None
        return cls(title, maps, prediction=prediction, image=record.image)

    def class_token(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Attention of the class token to each patch, (rows, columns); default: mean of heads."""
        return self.grid(CLASS, layer=layer, head=head)

    def patch(
        self, row: int, column: int, layer: int | None = None, head: int | None = None
    ) -> np.ndarray:
        """Attention of a patch to each patch, (rows, columns); default: mean of heads."""
        return self.grid((row, column), layer=layer, head=head)

    def rollout(self, query: Query | None = None, layer: int | None = None) -> np.ndarray:
        """Rollout through a layer, (rows, columns); default: through all layers."""
        return self.grid(query, name=self.maps[-1].name, layer=layer)

    def grid(
        self,
        query: Query | None = None,
        *,
        name: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> np.ndarray:
        """Weight of each patch in a map, layer and head, (rows, columns).

        The default query is the first of ``queries``. Weights of patches sum to less than one: the
        rest is on the tokens before the patches.
        """
        return self._grid(self.map(name).select(layer, head), query or self.queries[0])

    @property
    def queries(self) -> tuple[Query, ...]:
        """Tokens or patches whose attention is shown."""
        return (self.query,) if self.query is not None else self.image.tokens or (MEAN,)

    def from_query(self, query: Query | None) -> "ImageAttention":
        """View of the attention of one token or patch, which must exist."""
        if query is not None:
            self._positions(query)
        return replace(self, query=query)

    def svg(self) -> str:
        return self._sheet.svg()

    def png(self) -> bytes:
        return self._sheet.png()

    def view_record(self, *, lazy: bool = False) -> ViewRecord:
        scores = {} if self.prediction is None else self.prediction.scores
        classes = sorted(scores.items(), key=lambda pair: -pair[1])[:CLASSES]
        return attention_record(
            "image_patches",
            self.maps,
            lazy=lazy,
            title=self.title,
            caption=self.predicted,
            chosen=self._chosen,
            image=png_bytes(self.image.pixels_HWC),
            grid=self.image.grid,
            tokens=self.image.tokens,
            classes=classes,
        )

    @property
    def _chosen(self) -> dict[str, int | None]:
        query = self.queries[0]
        position = None if query == MEAN else self._positions(query)[0]
        return {**super()._chosen, "from": position}

    def to_json(self) -> dict[str, object]:
        shown, weights_LS = self._shown
        weights_S = self._row(weights_LS, self.queries[0])
        before = zip(self.image.tokens, weights_S.round(6).tolist(), strict=False)
        return {
            **({} if self.prediction is None else asdict(self.prediction)),
            "map": shown.name,
            "query": describe(self.queries[0]),
            "tokens": dict(before),
            "weights": self._grid(weights_LS, self.queries[0]).round(6).tolist(),
        }

    def _heat(self, width: int, paint: Paint) -> Iterator[Text]:
        """Heat map of the patches, for each query."""
        _, weights_LS = self._shown
        rows, columns = ([str(at) for at in range(size)] for size in self.image.grid)
        for query in self.queries:
            yield Text(clip(describe(query), width))
            yield from heat_map(rows, columns, self._grid(weights_LS, query), width, paint)

    @property
    def _sheet(self) -> Sheet:
        pixels, frame = self.image.pixels_HWC, self._frame
        panels = [Panel("image", pixels, frame=frame)]
        for each, head in self._drawn:
            weights_LS = each.select(self.layer, head)
            more = "" if head == self.head else f", head {head}"
            more += ", rollout" if each is self.maps[-1] else ""
            panels += (
                Panel(describe(query) + more, pixels, self._grid(weights_LS, query), frame)
                for query in self.queries
            )
        return lay_out(self.title, self._caption, panels)

    @property
    def _drawn(self) -> list[tuple[AttentionMap, int | None]]:
        """Maps and heads to draw: all maps, or the mean and every head of the chosen layer."""
        if self.name is None and self.layer is None and self.head is None:
            return [(each, None) for each in self.maps]
        shown, _ = self._shown
        heads = len(shown.layers[self.layer]) if self.layer is not None else 1
        every = range(heads) if self.head is None and heads > 1 else ()
        return [(shown, head) for head in (self.head, *every)]

    @property
    def _frame(self) -> tuple[float, ...] | None:
        """Top, left, bottom and right of the patch that is the query, as shares of the image."""
        if self.query is None or isinstance(self.query, str):
            return None
        return tuple(
            (at + end) / size
            for end in (0, 1)
            for at, size in zip(self.query, self.image.grid, strict=True)
        )

    def _grid(self, weights_LS: np.ndarray, query: Query) -> np.ndarray:
        return self._row(weights_LS, query)[len(self.image.tokens) :].reshape(self.image.grid)

    def _row(self, weights_LS: np.ndarray, query: Query) -> np.ndarray:
        return weights_LS[self._positions(query)].mean(axis=0)

    def _positions(self, query: Query) -> list[int]:
        """Positions of a query among the tokens: one, or the positions of all patches."""
        tokens, labels = self.image.tokens, self.maps[0].queries
        if query == MEAN:
            return list(range(len(tokens), len(labels)))
        if isinstance(query, str):
            if query not in tokens:
                known = ", ".join((*tokens, MEAN))
                raise BadInput(f"this model has no {describe(query)}: choose {known} or a patch")
            return [tokens.index(query)]
        label = ",".join(map(str, query)) if isinstance(query, tuple | list) else shown(query)
        if label not in labels[len(tokens) :]:
            rows, columns = (f"0 to {size - 1}" for size in self.image.grid)
            raise BadInput(f"no patch {label}; there are rows {rows} and columns {columns}")
        return [labels.index(label)]


def describe(query: Query) -> str:
    """Describe a query in words."""
    if isinstance(query, str):
        return {MEAN: "mean of all patches"}.get(query, f"{query} token")
    return "patch " + ",".join(map(str, query))
