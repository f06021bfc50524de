"""The weight that attention pooling gives to each word of a text, as text, SVG and a page."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import torch
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.text import Text

from regard.ground.batch import pack_texts
from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.inside.attention_map import merge
from regard.inside.views.attention_svg import draw_attention
from regard.inside.views.attention_text import LEVELS, SHADES, ramp_colour
from regard.inside.views.escape import escape_controls, escape_line
from regard.inside.views.html import fill_template, read_asset
from regard.tasks.batch_runner import finite
from regard.tasks.classify import LabelPrediction
from regard.tasks.encoder_model import EncoderModel
from regard.text.offsets import units

WEIGHTS = "pool.weights"
CAPTION = "pooling weight of each word"


@dataclass(frozen=True, eq=False)
class WordWeights:
    """A classifier's prediction for a text, and the pooling weight of each word."""

    prediction: LabelPrediction
    words: tuple[str, ...]
    weights: np.ndarray

    @property
    def title(self) -> str:
        """The label and its probability."""
        return self.prediction.summary

    def text(self, width: int = 80) -> str:
        """The text with a shade character after each word, wrapped at ``width`` columns."""
        lines = self._lines(max(width, 20), coloured=False)
        return "\n".join(line.plain.rstrip() for line in lines)

    def svg(self) -> str:
        """A heat map with one row, the label, and a cell for each word."""
        label = (self.prediction.label,)
        return draw_attention(self.title, CAPTION, label, self.words, self.weights[None])

    def html(self) -> str:
        """One offline page."""
        columns = (map(escape_controls, self.words), self.weights, _darkness(self.weights))
        words = (
            f'<span style="--w:{darkness:.3f}" title="{weight:.4f}">{escape(word)}</span>'
            for word, weight, darkness in zip(*columns, strict=True)
        )
        probabilities = self.prediction.probabilities
        classes = (
            f"<tr><th>{escape(escape_line(name))}</th><td>{probabilities[name]:.3f}</td>"
            f'<td><i style="--w:{probabilities[name]:.3f}"></i></td></tr>'
            for name in sorted(probabilities, key=probabilities.__getitem__, reverse=True)
        )
        return fill_template(
            "words.html",
            title=self.title,
            style=read_asset("page.css"),
            words=" ".join(words),
            classes="\n".join(classes),
            peak=f"{self.weights.max(initial=0.0):.3f}",
        )

    def __str__(self) -> str:
        return self.text(shutil.get_terminal_size().columns)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        coloured = console.is_terminal and console.color_system is not None
        yield from self._lines(options.max_width, coloured)

    def _lines(self, width: int, coloured: bool) -> Iterator[Text]:
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


def record_word_weights(encoder: EncoderModel, text: str, *, subwords: bool = False) -> WordWeights:
    """Run a classifier on ``text`` and record the pooling weight of each word (or subword)."""
    cut = encoder.text.words.segment(text)
    batch, tape = pack_texts([cut.ids]).to(encoder.device), Tape(WEIGHTS)
    with torch.inference_mode():
        logits_BV = encoder.model(batch, tape=tape).by_head["label"]
    if WEIGHTS not in tape.kept:
        raise BadInput("this model classifies by its last state: it has no attention to show")
    weights_LS = tape.kept[WEIGHTS][0, 0].float().cpu().numpy()
    words: Sequence[str] = encoder.text.words.pieces(cut.ids)
    if not subwords:
        words, groups = units(text, cut)
        weights_LS = merge(weights_LS, [[0]], groups)
    return WordWeights(_predict(encoder, logits_BV), tuple(words), weights_LS[0])


def _predict(encoder: EncoderModel, logits_BV: torch.Tensor) -> LabelPrediction:
    """The prediction for a batch of one text."""
    if encoder.labels is None:
        raise BadInput("this folder has no labels: predictions have no names")
    return LabelPrediction.of(finite(logits_BV)[0], encoder.labels.names)


def _darkness(weights: np.ndarray) -> np.ndarray:
    """From 0 to 1, by the square root, so that small weights are visible too."""
    return np.sqrt(weights / (float(weights.max(initial=0.0)) or 1.0))


def _shade_word(word: str, darkness: float) -> Text:
    """A word for output without colours."""
    return Text(word + SHADES[np.searchsorted(LEVELS, darkness, side="right") - 1])


def _colour_word(word: str, darkness: float) -> Text:
    """A word for a terminal with colours: dark letters on a bright background."""
    ink = "#1c1d22" if darkness > 0.6 else "#f4efe6"
    return Text(word, Style(color=ink, bgcolor=ramp_colour(darkness)))
