"""Weights of attention pooling over the words of a text, as text, SVG and HTML."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
from rich.text import Text

from regard.inference.classifier import TextPrediction
from regard.inside.attention.attention_map import merge
from regard.inside.attention.attention_view import View
from regard.inside.record import Records
from regard.views.attention_text import LEVELS
from regard.views.markup import escape_line
from regard.views.matrix_svg import draw_attention
from regard.views.view_record import ViewRecord
from regard.views.word_marks import mark_word, shares, word_lines

CAPTION = "pooling weight of each word"


@dataclass(frozen=True, eq=False)
class WordWeights(View):
    """Pooling weight of each word of a text, and the prediction of a classifier."""

    _fixed: ClassVar[str] = (
        "attention pooling has one row of weights: do not choose a map, layer or head"
    )
    prediction: TextPrediction | None
    words: tuple[str, ...]
    weights: np.ndarray

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        records: Records,
        subwords: bool,
        prediction: TextPrediction | None,
    ) -> "WordWeights":
        """Make a view of the record of an attention pool, which is the first record.

        A pool of each text of a row has a head for each: heads are added.
        """
        keys, weights_LS = records[0].keys, records[0].layers[0].sum(0)
        if subwords:
            return cls(prediction, keys.subwords, weights_LS[0])
        return cls(prediction, keys.words, merge(weights_LS, [[0]], keys.groups)[0])

    @property
    def title(self) -> str:
        """Prediction in one line."""
        return CAPTION if self.prediction is None else self.prediction.summary

    def svg(self) -> str:
        return draw_attention(self.title, CAPTION, ("pool",), self.words, self.weights[None])

    def view_record(self) -> ViewRecord:
        scores = {} if self.prediction is None else self.prediction.scores
        classes = sorted(scores.items(), key=lambda pair: -pair[1])
        values_MW = self.weights[None]
        method = {"name": "pool", "title": CAPTION, "values": values_MW}
        return ViewRecord.of(
            "attribution",
            title=self.title,
            caption=CAPTION,
            signed=False,
            targets=["pool"],
            words=self.words,
            methods=[{**method, "shares": shares(values_MW)}],
            comparison={"columns": ["class", "score"], "rows": classes},
        )

    def to_json(self) -> dict[str, object]:
        prediction = {} if self.prediction is None else asdict(self.prediction)
        return {**prediction, "words": self.words, "weights": self.weights.round(6).tolist()}

    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        yield Text(escape_line(self.title))
        yield Text()
        yield from word_lines(self.words, self.weights, width, coloured=coloured)
        yield Text()
        peak = float(self.weights.max(initial=0.0))
        yield Text("  ").join(
            mark_word(f"{level**2 * peak:.2g}", level, coloured=coloured) for level in LEVELS
        )
