"""A process without rows of a step has gradients of the parameters of which others have them.

The processes of a step sum gradients together: all must have the same ones.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.core.batch import TokenRow
from regard.images.augment import Augmentation
from regard.images.processor import ImageProcessor
from regard.models.facts import change, paths
from regard.models.label_heads import LabelHead, TokenLabelHead
from regard.models.paper import Paper
from regard.models.papers import LINEAGE
from regard.objectives.images import ImageLabels
from regard.objectives.label_losses import Classification, TokenClassification
from regard.objectives.objective import Objective
from regard.objectives.seq2seq import Seq2Seq

WORDS, ROWS, LABELS = 300, 3, 3
SIZES = {"vocab": WORDS, "width": 16, "depth": 2, "heads": 2, "inner": 12, "embedding": 16}
SIZES |= {"maxout": 8, "kv_heads": 2, "key": 8, "hidden": (6,), "indicator": 4, "last_width": 8}
SIZES |= {"image_size": 8, "patch_size": 4, "longest": 24, "filters": ((2, 4),), "cells": 6}
SIZES |= {"dropout": 0.0}


def small(paper: Paper) -> Any:
    """A model of a paper with sizes that take no time."""
    facts = min(paper.sizes.values(), key=paper.parameters)
    known = {path.split(".")[-1] for path, value in paths(facts) if value is not None}
    return change(facts, **{name: size for name, size in SIZES.items() if name in known})


def row(facts: Any, draw: np.random.Generator) -> TokenRow:
    """Six tokens, spelled if the model reads characters; the second half is a second text."""
    texts = 1 if dict(paths(facts)).get("trunk.embed.segments") == 1 else 2
    tokens = draw.integers(3, 50, (6, *facts.trunk.ids_per_token))
    return TokenRow(tokens, np.arange(6) * texts // 6)


def task(facts: Any, draw: np.random.Generator) -> tuple[Any, Objective, list[Any]]:
    """A model with a head, an objective of it, and examples."""
    if facts.sides != ("trunk",):
        pairs = [(draw.integers(3, 50, 5).tolist(), [3, 4, 5]) for _ in range(ROWS)]
        return facts, Seq2Seq(1, 2), pairs
    if facts.trunk.embed.reads_images:
        pixels = draw.integers(0, 256, (ROWS, 8, 8, 3), dtype=np.uint8)
        rows = ImageProcessor(size=(8, 8)).training_rows(pixels)
        objective = ImageLabels(Classification(), ImageProcessor(size=(8, 8)), Augmentation())
        examples = [*zip(rows, [[1]] * ROWS, strict=True)]
        return facts.with_heads(LabelHead(LABELS)), objective, objective.gather(examples)
    rows = [row(facts, draw) for _ in range(ROWS)]
    if facts.pool is None:
        labels = [draw.integers(0, LABELS, 6) for _ in range(ROWS)]
        head, objective = TokenLabelHead(LABELS), TokenClassification()
        return facts.with_heads(head), objective, [*zip(rows, labels, strict=True)]
    head, objective = LabelHead(LABELS), Classification()
    return facts.with_heads(head), objective, [(one, [1]) for one in rows]


def reached(model: nn.Module, objective: Objective, examples: list[Any]) -> set[str]:
    """Parameters that have a gradient after a backward pass."""
    model.zero_grad()
    objective(model, objective.collate(examples))[0].sum().backward()
    return {name for name, parameter in model.named_parameters() if parameter.grad is not None}


@pytest.mark.thinned
@pytest.mark.parametrize("paper", LINEAGE, ids=lambda paper: paper.key)
def test_every_paper(paper):
    torch.manual_seed(0)
    facts, objective, examples = task(small(paper), np.random.default_rng(1))
    model = facts.build()
    some, none = (reached(model, objective, rows) for rows in (examples, []))
    assert some and some <= none
