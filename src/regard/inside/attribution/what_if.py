"""What if: the prediction of a model without some of its heads, its layers or words of its input.

A head is switched off by zero weights, a layer by zeros in place of what it adds to the states, and
a word by the token, or vector, that attribution puts in its place.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.ground.checks import check_whole
from regard.ground.edits import without_head
from regard.ground.errors import BadInput, shown
from regard.ground.tape import Edit
from regard.inside.attribution.target_function import TargetFunction
from regard.inside.inspected_model import InspectedModel, title_of
from regard.inside.views.line_chart import Report
from regard.models.attention_site import AttentionSite
from regard.models.edits import LayerOff

PHRASES = '"head LAYER.HEAD", "layer NUMBER" or "word WORD", such as "head 3.5" or "word 2"'
WHOLE = re.compile(r"\d{1,6}", re.ASCII)
PHRASE = re.compile(
    r"(?:(\w+) )?head (\d{1,6})\.(\d{1,6})|(?:(\w+) )?layer (\d{1,6})|word (.+)", re.ASCII
)
Head = tuple[int, int] | tuple[str, int, int]
Layer = int | tuple[str, int]


@dataclass(frozen=True)
class WhatIf:
    """Scores of targets before and after parts of a model or of its input are switched off.

    ``before`` and ``after`` are probabilities, or predicted numbers.
    """

    title: str
    off: tuple[str, ...]
    targets: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def rows(self) -> list[list[str | float]]:
        """Rows of a table: target, before, after, change."""
        columns = zip(self.targets, self.before, self.after, strict=True)
        return [[name, here, there, there - here] for name, here, there in columns]

    @property
    def report(self) -> Report:
        """Page with the table."""
        rows = [[str(row[0]), *(f"{value:.4f}" for value in row[1:])] for row in self.rows]
        return Report(self.title, COLUMNS, rows, notes=[self.note])

    @property
    def note(self) -> str:
        """What is switched off, in one line."""
        return f"without {', '.join(self.off) or 'nothing'}"

    def to_json(self) -> dict[str, object]:
        """Record for JSON."""
        return {
            "without": self.off,
            "targets": self.targets,
            "before": self.before,
            "after": self.after,
        }


COLUMNS = ("target", "before", "after", "change")


def what_if(
    model: InspectedModel,
    text: object,
    target: str | None = None,
    token: int | None = None,
    *,
    heads: Iterable[Head] = (),
    layers: Iterable[Layer] = (),
    words: Iterable[int | str] = (),
) -> WhatIf:
    """Compare the prediction with that of a model without heads, layers or words.

    A head is (layer, head) or (attention, layer, head), with the name of an attention map
    ("encoder", "decoder", "cross"); a layer is a number or (side, number), such as ("target", 0);
    a word is its number, from 0, or the word itself. All labels of a classifier are compared.
    """
    function = TargetFunction.of(model, text, target, token=token)
    given = function.given
    sites = [_head(model, head) for head in heads]
    blocks = [_layer(model, layer) for layer in layers]
    numbers = given.numbers([*words])
    off = [f"{site.name} head {layer}.{head}" for site, layer, head in sites]
    off += [f"{side} layer {number}" for side, number in blocks]
    off += [f"word {number} ({given.words[number]})" for number in numbers]
    edits: dict[str, Edit] = {}
    for site, layer, head in sites:
        name = site.weights[layer]
        edits[name] = _both(edits.get(name), without_head(head))
    for side, number in blocks:
        edits |= dict.fromkeys(LayerOff(f"{side}.blocks.{number}").names, _zeros)
    replaced_2W = np.zeros((2, len(given.words)), bool)
    replaced_2W[1, numbers] = True
    points_2LD = function.points_without(replaced_2W)
    with torch.no_grad():
        outputs = [
            function.outputs(points_2LD[:1])[0],
            function.outputs(points_2LD[1:], edits=edits)[0],
        ]
    targets = function.targets.with_best(outputs)
    before, after = (
        targets.probabilities(targets.scores(each, 1)[1][0].double().cpu().numpy()).tolist()
        for each in outputs
    )
    return WhatIf(title_of(text), tuple(off), targets.names, tuple(before), tuple(after))


def _head(model: InspectedModel, head: object) -> tuple[AttentionSite, int, int]:
    """Attention site, layer and head of a head that is given by two or three values."""
    *name, layer, number = head if isinstance(head, tuple) and len(head) in (2, 3) else (None,) * 4
    own = [
        site for site in model.sites if site.within and site.key_side == model.facts.encoder_path
    ]
    named = {site.name: site for site in model.sites}
    site = named.get(str(name[0])) if name else (own or model.sites)[0]
    if site is None:
        names = ", ".join(named)
        raise BadInput(
            f"heads: {shown(head)} is not (layer, head) or (attention, layer, head) with {names}"
        )
    layer = check_whole("heads: the layer", layer, 0, site.layers - 1)
    return site, layer, check_whole("heads: the head", number, 0, site.heads[layer] - 1)


def _layer(model: InspectedModel, layer: object) -> tuple[str, int]:
    """Side and number of a layer."""
    side, number = layer if isinstance(layer, tuple) and len(layer) == 2 else (None, layer)
    side = model.facts.encoder_path if side is None else side
    if side not in model.facts.sides:
        raise BadInput(f"layers: {shown(side)} is not a side: {', '.join(model.facts.sides)}")
    depth = getattr(model.facts, side).stack.depth
    number = check_whole("layers: the layer", number, 0, depth - 1)
    if not any(name.startswith(f"{side}.blocks.{number}.mlp.") for name in model.tape_names()):
        raise BadInput("layers: only layers of Transformers can be switched off")
    return side, number


def _zeros(name: str, value: Tensor) -> Tensor:
    return torch.zeros_like(value)


def _both(first: Edit | None, second: Edit) -> Edit:
    """Edit that applies two edits."""
    if first is None:
        return second
    return lambda name, value: second(name, first(name, value))


class ParsedParts(NamedTuple):
    """Heads, layers and words to switch off, as arguments of ``what_if``."""

    heads: list[Head]
    layers: list[Layer]
    words: list[int | str]


def parse_parts(phrases: Sequence[str]) -> ParsedParts:
    """Parts that phrases such as "head 3.5", "cross head 0.1" and "word not" name."""
    parts = ParsedParts([], [], [])
    for phrase in phrases:
        match = PHRASE.fullmatch(phrase.strip())
        if match is None:
            raise BadInput(f"{shown(phrase)} is not {PHRASES}")
        of, layer, head, side, number, word = match.groups()
        if head is not None:
            place = int(layer), int(head)
            parts.heads.append((of, *place) if of else place)
        elif number is not None:
            parts.layers.append((side, int(number)) if side else int(number))
        else:
            parts.words.append(int(word) if WHOLE.fullmatch(word) else word)
    return parts
