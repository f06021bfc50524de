"""A text whose words carry weight: in the terminal, and as one offline page."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import torch
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.text import Text

from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.inside.drawing import drawing
from regard.inside.labels import visible, visible_line
from regard.inside.maps import merge
from regard.inside.template import filled, text
from regard.inside.terminal import GLOW, LEVELS, SHADES
from regard.tasks.classify import Classifier, Prediction
from regard.tasks.rows import numbers
from regard.text.offsets import units

WEIGHTS = "pool.weights"
CAPTION = "what pooling takes from each word"


@dataclass(frozen=True, eq=False)
class Worded:
    """What a classifier said of a text, and how much its pooling takes from each word's state."""

    prediction: Prediction
    words: tuple[str, ...]
    weights: np.ndarray

    @property
    def title(self) -> str:
        """The label and its probability."""
        return self.prediction.line

    def terminal(self, width: int = 80) -> str:
        """The text with a shade after each word, no line wider than ``width`` if words allow."""
        lines = self._lines(max(width, 20), coloured=False)
        return "\n".join(line.plain.rstrip() for line in lines)

    def svg(self) -> str:
        """The words under the label, each with a cell as dark as its weight."""
        label = (self.prediction.label,)
        return drawing(self.title, CAPTION, label, self.words, self.weights[None])

    def html(self) -> str:
        """One page; it needs nothing but a browser."""
        darkness = _darkness(self.weights)
        words = (
            f'<span style="--w:{dark:.3f}" title="{weight:.4f}">{escape(visible(word))}</span>'
            for word, weight, dark in zip(self.words, self.weights, darkness, strict=True)
        )
        ranked = sorted(self.prediction.probabilities.items(), key=lambda one: -one[1])
        classes = (
            f"<tr><th>{escape(visible_line(name))}</th><td>{share:.3f}</td>"
            f'<td><i style="--w:{share:.3f}"></i></td></tr>'
            for name, share in ranked
        )
        return filled(
            "page.words.html",
            title=self.title,
            style=text("page.css"),
            words=" ".join(words),
            classes="\n".join(classes),
            peak=f"{self.weights.max(initial=0.0):.3f}",
        )

    def __str__(self) -> str:
        return self.terminal(shutil.get_terminal_size().columns)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        coloured = console.is_terminal and console.color_system is not None
        yield from self._lines(options.max_width, coloured)

    def _lines(self, width: int, coloured: bool) -> Iterator[Text]:
        yield Text(visible_line(self.title))
        yield Text()
        line = Text()
        for word, dark in zip(self.words, _darkness(self.weights), strict=True):
            shown = _glowing(visible(word), dark) if coloured else _shaded(visible(word), dark)
            if line.cell_len and line.cell_len + 1 + shown.cell_len > width:
                yield line
                line = Text()
            line = Text.assemble(line, " " if line.cell_len else "", shown)
        yield line
        yield Text()
        peak = float(self.weights.max(initial=0.0))
        draw = _glowing if coloured else _shaded
        marks = (draw(f"{level**2 * peak:.2g}", level) for level in LEVELS)
        yield Text("  ").join(marks)


def worded(classifier: Classifier, text: str, *, subwords: bool = False) -> Worded:
    """The words of ``text`` (or its pieces), and what the classifier's pooling gives to each."""
    cut = classifier.tokenizer.words.segment(text)
    read = classifier.objective.read([cut.ids]).to(classifier.device)
    tape = Tape(WEIGHTS)
    with torch.inference_mode():
        logits_BV = classifier.model(read, tape=tape).by_head["label"]
    if WEIGHTS not in tape.kept:
        raise BadInput("this model judges by its last state alone: no word of it has a weight")
    weights_LS = tape.kept[WEIGHTS][0, 0].float().cpu().numpy()
    words: Sequence[str] = classifier.tokenizer.words.pieces(cut.ids)
    if not subwords:
        words, groups = units(text, cut)
        weights_LS = merge(weights_LS, [[0]], groups)
    return Worded(_prediction(classifier, logits_BV), tuple(words), weights_LS[0])


def _prediction(classifier: Classifier, logits_BV: torch.Tensor) -> Prediction:
    """What is said of the only text."""
    probable = torch.softmax(numbers(logits_BV)[0], dim=-1).tolist()
    probabilities = dict(zip(classifier.labels.names, probable, strict=True))
    return Prediction(max(probabilities, key=probabilities.__getitem__), probabilities)


def _darkness(weights: np.ndarray) -> np.ndarray:
    """From 0 to 1, by the square root: else only the largest weights would show."""
    return np.sqrt(weights / (float(weights.max(initial=0.0)) or 1.0))


def _shaded(word: str, darkness: float) -> Text:
    """A word for paper, pipes and files."""
    return Text(word + SHADES[np.searchsorted(LEVELS, darkness, side="right") - 1])


def _glowing(word: str, darkness: float) -> Text:
    """A word for a terminal with colours: dark letters where the ground is bright."""
    red, green, blue = (np.interp(darkness, (0, 0.5, 1), each) for each in zip(*GLOW, strict=True))
    ink = "#1c1d22" if darkness > 0.6 else "#f4efe6"
    return Text(word, Style(color=ink, bgcolor=Color.from_rgb(red, green, blue)))
