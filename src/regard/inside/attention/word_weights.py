"""Weights of attention pooling over the words of a text, as text, SVG and HTML."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import ClassVar

import numpy as np
from rich.style import Style
from rich.text import Text

from regard.inference.classifier import TextPrediction
from regard.inside.attention.attention_map import merge
from regard.inside.attention.attention_view import View
from regard.inside.record import Records
from regard.inside.views.attention_text import LEVELS, SHADES, ramp_colour
from regard.inside.views.markup import escape_controls, escape_line, fill_template, score_rows
from regard.inside.views.matrix_svg import draw_attention

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
        """Make a view of the record of an attention pool, which is the first record."""
        keys, weights_LS = records[0].keys, records[0].layers[0][0]
        if subwords:
            return cls(prediction, keys.subwords, weights_LS[0])
        return cls(prediction, keys.words, merge(weights_LS, [[0]], keys.groups)[0])

    @property
    def title(self) -> str:
        """Prediction in one line."""
        return CAPTION if self.prediction is None else self.prediction.summary

    def svg(self) -> str:
        return draw_attention(self.title, CAPTION, ("pool",), self.words, self.weights[None])

    def html(self) -> str:
        columns = (map(escape_controls, self.words), self.weights, _darkness(self.weights))
        words = (
            f'<span style="--w:{darkness:.3f}" title="{weight:.4f}">{escape(word)}</span>'
            for word, weight, darkness in zip(*columns, strict=True)
        )
        scores = {} if self.prediction is None else self.prediction.scores
        parts = {"words": " ".join(words), "classes": score_rows(scores)}
        peak, styles = (
            f"{self.weights.max(initial=0.0):.3f}",
            ["page.css", "words.css", "classes.css"],
        )
        return fill_template("words.html", title=self.title, styles=styles, **parts, peak=peak)

    def to_json(self) -> dict[str, object]:
        prediction = {} if self.prediction is None else asdict(self.prediction)
        return {**prediction, "words": self.words, "weights": self.weights.round(6).tolist()}

    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        draw = _colour_word if coloured else _shade_word
        yield Text(escape_line(self.title))
        yield Text()
        line = Text()
        for word, darkness in zip(self.words, _darkness(self.weights), strict=True):
            drawn = draw(escape_controls(word), darkness)
            if line.cell_len and line.cell_len + 1 + drawn.cell_len > width:
                yield line
                line = Text()
            line = Text.assemble(line, " " if line.cell_len else "", drawn)
        yield line
        yield Text()
        peak = float(self.weights.max(initial=0.0))
        yield Text("  ").join(draw(f"{level**2 * peak:.2g}", level) for level in LEVELS)


def _darkness(weights: np.ndarray) -> np.ndarray:
    """Darkness from 0 to 1, by the square root, so that small weights are visible too."""
    return np.sqrt(weights / (float(weights.max(initial=0.0)) or 1.0))


def _shade_word(word: str, darkness: float) -> Text:
    """Render a word for output without colours."""
    return Text(word + SHADES[np.searchsorted(LEVELS, darkness, side="right") - 1])


def _colour_word(word: str, darkness: float) -> Text:
    """Render a word for a terminal with colours: dark letters on a bright background."""
    ink = "#1c1d22" if darkness > 0.6 else "#f4efe6"
    return Text(word, Style(color=ink, bgcolor=ramp_colour(darkness)))
