"""A captured step is the step, batch after batch, whatever an objective reads of their layouts."""

import numpy as np
import pytest
import torch
from regard.objectives.labelled import Labelled
from regard.objectives.tagged import Spans, Tagged

from regard.ground.batch import BatchLimits, TokenRow
from regard.ground.layout import Layout
from regard.ground.pytree import without_caches
from regard.models.facts import Head, change
from regard.models.papers import bert
from regard.training.loop.microbatch import EagerStep, GraphedStep, fixed_shape
from regard.training.recipe import BatchConfig

BUDGET = BatchLimits(64, 6, 20)
SIZES = {"vocab": 50, "depth": 2, "width": 32, "heads": 2, "inner": 48, "longest": 20}
SMALL = change(bert.PAPER.sizes["tiny"], **SIZES, dropout=0.0)


def test_nothing_is_remembered():
    batch = Labelled().collate([(TokenRow([1, 2, 3], [0, 0, 1]), [1])], BUDGET)
    slots_T = batch.target.layout.slots_T
    again = without_caches(batch)
    assert "slots_T" not in vars(again.target.layout)
    assert again.target.tokens_T is batch.target.tokens_T
    assert again.target.layout.offsets is batch.target.layout.offsets
    assert torch.equal(again.target.layout.slots_T, slots_T)
    assert isinstance(again.target.layout, Layout) and again.weight == batch.weight


@pytest.mark.parametrize(
    ("lengths", "tokens"),
    [([], 20), ([(3, 9), (4, 8)], 20), ([(20, 1), (1, 20)], 30), ([(19, 20)] * 3, 60)],
)
def test_shapes_go_up_in_rungs(lengths, tokens):
    """A rank that has no rows of a step takes the smallest."""
    limits = BatchConfig(tokens=60, rows=7, longest=20, rung=10)
    assert fixed_shape(limits, lengths, splits=2) == BatchLimits(tokens, 4, 20)
    whole = limits.model_copy(update={"rung": 0})
    assert fixed_shape(whole, lengths) == BatchLimits(60, 7, 20)


def examples(task, draw):
    for size in draw.integers(3, 11, draw.integers(2, 7)):
        row = TokenRow(draw.integers(0, 50, size), np.zeros(size, dtype=int))
        yield (
            row,
            {
                "classify": [draw.integers(3)],
                "tag": draw.integers(0, 3, size),
                "answer": tuple(sorted(draw.integers(0, size, 2))),
            }[task],
        )


@pytest.mark.gpu
@pytest.mark.parametrize("position", ["learned", "relative"])
@pytest.mark.parametrize(
    ("task", "objective"),
    [
        ("classify", Labelled()),
        ("classify", Labelled(weights=(0.5, 2.0, 1.0))),
        ("tag", Tagged()),
        ("tag", Tagged(0.1, (0.5, 2.0, 1.0))),
        ("answer", Spans()),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_captured_steps(task, objective, position, precision):
    outputs = 2 if task == "answer" else 3
    head = Head(task, outputs, 0.0)
    facts = change(SMALL, position=position, attention_dropout=0.0, head=head, pooled=head.of_rows)
    model = facts.build().cuda().train()
    half = torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16")
    plain = EagerStep(lambda batch: objective(model, batch), lambda: half)
    captured, draw = GraphedStep(plain, model), np.random.default_rng(1)
    for _ in range(6):
        batch = objective.collate(list(examples(task, draw)), BUDGET).to("cuda")
        found = []
        for micro in (captured, plain):
            for one in model.parameters():
                one.grad = torch.zeros_like(one) if one.grad is None else one.grad.zero_()
            loss, _ = micro(without_caches(batch), 1 / batch.weight)
            found.append((loss.clone(), [one.grad.clone() for one in model.parameters()]))
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)
    assert len(captured.graphs) == 1
