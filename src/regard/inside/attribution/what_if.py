"""What if: the prediction of a model without some of its heads, its layers or words of its input.

Heads and layers are switched off by edits of the model, and a word by the token, or vector, that
attribution puts in its place.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from regard.core.checks import check_whole
from regard.core.errors import BadInput, shown
from regard.inference.inputs import title_of
from regard.inference.model_runner import ModelRunner
from regard.inside.ablation import head_edits, layer_edits
from regard.inside.attribution.target_function import TargetFunction
from regard.models.edits import EditList
from regard.views.line_chart import Report

PHRASES = '"head LAYER.HEAD", "layer NUMBER" or "word WORD", such as "head 3.5" or "word 2"'
WHOLE = re.compile(r"\d{1,6}", re.ASCII)
PHRASE = re.compile(
    r"(?:(\w+) )?head (\d{1,6})\.(\d{1,6})|(?:(\w+) )?layer (\d{1,6})|word (.+)", re.ASCII
)
Head = tuple[int, int] | tuple[str, int, int]
Layer = int | tuple[str, int]
Place = TypeVar("Place", tuple[str, int], tuple[str, int, int])


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
    model: ModelRunner,
    text: object,
    target: str | None = None,
    token: int | None = None,
    *,
    heads: Iterable[Head] = (),
    layers: Iterable[Layer] = (),
    words: Iterable[int | str] = (),
) -> WhatIf:
    """Compare the prediction with the one of a model without heads, layers or words.

    A head is (layer, head) or (attention, layer, head), with the name of an attention map
    ("encoder", "decoder", "cross"); a layer is a number or (side, number), such as ("target", 0);
    a word is its number, from 0, or the word itself. All labels of a classifier are compared.
    """
    function = TargetFunction.of(model, text, target, token=token)
    given = function.given
    head_places = [_head(model, head) for head in heads]
    layer_places = [_layer(model, layer) for layer in layers]
    numbers = given.numbers([*words])
    off = [f"{site} head {layer}.{head}" for site, layer, head in head_places]
    off += [f"{side} layer {number}" for side, number in layer_places]
    off += [f"word {number} ({given.words[number]})" for number in numbers]
    lists = [*_chosen(model, head_edits, head_places), *_chosen(model, layer_edits, layer_places)]
    edited = replace(function, model=model.edited([edit for each in lists for edit in each.edits]))
    replaced_2W = np.zeros((2, len(given.words)), bool)
    replaced_2W[1, numbers] = True
    points_2LD = function.points_without(replaced_2W)
    with torch.no_grad():
        outputs = [function.outputs(points_2LD[:1])[0], edited.outputs(points_2LD[1:])[0]]
    targets = function.targets.with_best(outputs)
    before, after = (
        targets.probabilities(targets.scores(each, 1)[1][0].double().cpu().numpy()).tolist()
        for each in outputs
    )
    return WhatIf(title_of(text), tuple(off), targets.names, tuple(before), tuple(after))


def _chosen(
    model: ModelRunner,
    edits_of: Callable[[ModelRunner], Mapping[Place, EditList]],
    places: Sequence[Place],
) -> list[EditList]:
    """Edits that turn off the parts at these places."""
    edits = edits_of(model) if places else {}
    for place in places:
        if place not in edits:
            raise BadInput(f"{place[0]} {place[1]}: only layers of Transformers can be turned off")
    return [edits[place] for place in places]


def _head(model: ModelRunner, head: object) -> tuple[str, int, int]:
    """Attention, layer and number of a head that is given by two or three values."""
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
    if not site.heads[layer]:
        raise BadInput(f"heads: layer {layer} of the {site.name} attention has no heads left")
    return site.name, layer, check_whole("heads: the head", number, 0, site.heads[layer] - 1)


def _layer(model: ModelRunner, layer: object) -> tuple[str, int]:
    """Side and number of a layer."""
    side, number = layer if isinstance(layer, tuple) and len(layer) == 2 else (None, layer)
    side = model.facts.encoder_path if side is None else side
    if side not in model.facts.sides:
        raise BadInput(f"layers: {shown(side)} is not a side: {', '.join(model.facts.sides)}")
    depth = getattr(model.facts, side).stack.depth
    number = check_whole("layers: the layer", number, 0, depth - 1)
    return side, number


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
