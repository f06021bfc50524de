"""Small random models of all papers and kinds, and the computations of inputs that they read."""

from collections.abc import Iterator

import torch

from regard.api import Model
from regard.core.batch import ImageRow
from regard.core.errors import BadInput
from regard.inside.follow.computation import Computation
from regard.inside.follow.follow import follow
from regard.inside.follow.kinds import STEPS
from regard.inside.follow.plan import StepPlan
from regard.inside.forward_path import fit_heads
from regard.inside.parity import random_examples
from regard.models.encoder_decoder import EncoderDecoder, ModelFacts
from regard.models.facts import change, paths
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.paper import Paper
from regard.models.papers import LINEAGE, bahdanau, luong, zaremba
from regard.models.papers import paper as paper_named
from regard.text.segmentation import LabelledImage, LabelledRow, LabelledRows, TokenLabels
from small_families import FACTS, small_family, small_rows

SIZES = {
    "vocab": 29,
    "depth": 2,
    "heads": 2,
    "inner": 12,
    "cells": 6,
    "maxout": 5,
    "image_size": 12,
    "patch_size": 4,
    "words": 23,
    "hidden": 5,
    "indicator": 3,
    "last_width": 8,
    "task_types": 3,
}


def tiny_facts(paper: Paper) -> ModelFacts:
    """Facts of the first size of a paper, with small numbers and the heads of its objectives."""
    size, facts = next(iter(paper.sizes.items()))
    numbers = {path.split(".")[-1]: value for path, value in paths(facts) if isinstance(value, int)}
    changes = {name: value for name, value in SIZES.items() if name in numbers}
    if "heads" in numbers or "cells" in numbers:
        changes["width"] = 8
    elif "width" in numbers:
        changes |= {"width": 8, **({"embedding": 8} if "embedding" in numbers else {})}
    if "embedding_size" in numbers:
        changes["embedding_size"] = 6
    if "character_size" in {path.split(".")[-1] for path, _ in paths(facts)}:
        changes["filters"] = ((2, 3), (3, 2))
    if (
        isinstance(facts, EncoderDecoder)
        and facts.source.stack.bidirectional
        and facts.target.stack.bridge == "copy"
    ):
        changes["target.width"] = 16
    if "kv_heads" in numbers:
        changes |= {"heads": 4, "kv_heads": 2}
    return fit_heads(paper, size, change(facts, **changes))()


def randomised(paper: Paper, facts: ModelFacts, seed: int = 0) -> Model:
    """Model whose parameters are all random, gains and biases too."""
    torch.manual_seed(seed)
    model = Model(LoadedModel(paper, facts, facts.build().eval(), None))
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def rows_of(facts: ModelFacts) -> LabelledRows:
    """Rows of random tokens, or a random image, on each side."""
    torch.manual_seed(1)
    _, example, *_ = random_examples(facts)
    rows: dict[str, LabelledRow | LabelledImage] = {}
    for side in facts.sides:
        row = example[side]
        if isinstance(row, ImageRow):
            patches = getattr(facts, side).embed
            pixels = row.read().transpose(1, 2, 0)
            rows[side] = LabelledImage(row, pixels, patches.grid, patches.prefix_names)
            continue
        names = TokenLabels.join(*(TokenLabels.special(str(n)) for n in range(len(row.tokens))))
        rows[side] = LabelledRow(row, names, names)
    return rows


def computation_of(model: Model) -> Computation:
    """The computation of a model on random tokens."""
    return follow(model.inspected, rows_of(model.facts))


def followed(facts: ModelFacts) -> bool:
    """Whether there are steps of all that a model is made of."""
    try:
        StepPlan((), STEPS).follow(facts)
    except BadInput:
        return False
    return True


def papers() -> Iterator[Paper]:
    """Papers whose models can be followed."""
    yield from (paper for paper in LINEAGE if followed(tiny_facts(paper)))


FAMILIES = [name for name, (_, facts) in FACTS.items() if facts is None or followed(facts)]
RNN = {"vocab": 23, "width": 8, "embedding": 6}
LUONG = change(next(iter(luong.PAPER.sizes.values())), **RNN, positions=4)
BAHDANAU = change(bahdanau.BASE, **RNN, maxout=5)
LM = change(zaremba.SMALL, **RNN, output_heads=(NextTokenHead(tied=False, bias=True),))
RECURRENT = {
    "bahdanau": BAHDANAU,
    "bahdanau-residual": change(BAHDANAU, cell="lstm", depth=3, residual=True),
    "bahdanau-mean": change(BAHDANAU, cell="rnn", bridge="mean"),
    **{
        f"luong-{score}": change(LUONG, score=score)
        for score in ("dot", "general", "concat", "cosine", "location", "scaled-dot")
    },
    "luong-residual": change(LUONG, input_feeding=False, residual=True),
    "zaremba": LM,
    "zaremba-gru": change(LM, cell="gru", initial="learned"),
    "zaremba-rnn": change(LM, cell="rnn", residual=True, embedding=8),
}


def computation(name: str) -> Computation:
    """The computation of a small model of a family, of a recurrent model or of a paper."""
    if name in RECURRENT:
        model = randomised(zaremba.PAPER, RECURRENT[name])
        return follow(model.inspected, small_rows(model.inspected))
    if name in FACTS:
        model = small_family(name)
        return follow(model, small_rows(model))
    paper = paper_named(name)
    return computation_of(randomised(paper, tiny_facts(paper)))
