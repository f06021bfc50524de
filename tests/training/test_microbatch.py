"""A captured step is the step, batch after batch, whatever an objective reads of their layouts."""

import numpy as np
import pytest
import torch

from regard.data.config import BatchConfig
from regard.ground.batch import BatchLimits, TokenRow
from regard.ground.layout import Layout
from regard.ground.pytree import without_caches
from regard.models.facts import LabelHead, SpanHead, TokenLabelHead, change
from regard.models.papers import bert
from regard.objectives.labels import Classification, TokenClassification
from regard.objectives.spans import SpanExtraction
from regard.training.loop.microbatch import (
    EagerStep,
    GraphedStep,
    fixed_shape,
    gradients_added_at_once,
)

BUDGET = BatchLimits(64, 6, 20)
SIZES = {"vocab": 50, "depth": 2, "width": 32, "heads": 2, "inner": 48, "longest": 20}
SMALL = change(bert.PAPER.sizes["tiny"], **SIZES, dropout=0.0)


def test_nothing_is_remembered():
    batch = Classification().collate([(TokenRow([1, 2, 3], [0, 0, 1]), [1])], BUDGET)
    slots_T = batch.inputs.layout.slots_T
    again = without_caches(batch)
    assert "slots_T" not in vars(again.inputs.layout)
    assert again.inputs.tokens_T is batch.inputs.tokens_T
    assert again.inputs.layout.offsets is batch.inputs.layout.offsets
    assert torch.equal(again.inputs.layout.slots_T, slots_T)
    assert isinstance(again.inputs.layout, Layout) and again.weight == batch.weight


def test_a_result_keeps_no_gradient_of_its_step():
    weight = torch.nn.Parameter(torch.ones(2))
    loss = lambda batch: ((3 * weight).sum(), weight.sum(), {"h": 2 * weight})  # noqa: E731
    result = EagerStep(loss, torch.enable_grad)(None, 0.5)
    assert weight.grad.tolist() == [1.5, 1.5]
    assert result.loss == 6 and result.state["h"].tolist() == [2, 2]
    assert not any(one.requires_grad for one in (result.loss, result.nll, result.state["h"]))


def test_gradients_are_added_to_the_tensors_that_hold_earlier_ones():
    used, unused = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(3))
    used.grad, unused.grad = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 6.0, 7.0])
    kept = used.grad, unused.grad
    with gradients_added_at_once([used, unused]):
        (3 * used).sum().backward()
        (4 * used).sum().backward()
    assert used.grad is kept[0] and unused.grad is kept[1]
    assert used.grad.tolist() == [8.0, 9.0] and unused.grad.tolist() == [5.0, 6.0, 7.0]


@pytest.mark.parametrize(
    ("lengths", "tokens"),
    [([], 20), ([(3, 9), (4, 8)], 20), ([(20, 1), (1, 20)], 30), ([(19, 20)] * 3, 60)],
)
def test_shapes_are_multiples(lengths, tokens):
    """A rank that has no rows of a step takes the smallest."""
    limits = BatchConfig(tokens=60, rows=7, longest=20, pad_to_multiple=10)
    assert fixed_shape(limits, lengths, splits=2) == BatchLimits(tokens, 4, 20)
    whole = limits.model_copy(update={"pad_to_multiple": 0})
    assert fixed_shape(whole, lengths) == BatchLimits(60, 7, 20)


def examples(head, draw):
    for size in draw.integers(3, 11, draw.integers(2, 7)):
        row = TokenRow(draw.integers(0, 50, size), np.zeros(size, dtype=int))
        yield (
            row,
            {
                "label": [draw.integers(3)],
                "token_label": draw.integers(0, 3, size),
                "span": tuple(sorted(draw.integers(0, size, 2))),
            }[head.name],
        )


@pytest.mark.gpu
@pytest.mark.parametrize("position", ["learned", "relative"])
@pytest.mark.parametrize(
    ("head", "objective"),
    [
        (LabelHead(3), Classification()),
        (LabelHead(3), Classification(weights=(0.5, 2.0, 1.0))),
        (TokenLabelHead(3), TokenClassification()),
        (TokenLabelHead(3), TokenClassification(0.1, (0.5, 2.0, 1.0))),
        (SpanHead(), SpanExtraction()),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_captured_steps(head, objective, position, precision):
    pool = SMALL.pool if head.per_row else None
    facts = change(SMALL, position=position, attention_dropout=0.0, pool=pool)
    model = facts.with_heads(head).build().cuda().train()
    half = torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16")
    plain = EagerStep(lambda batch: objective(model, batch), lambda: half)
    captured, draw = GraphedStep(plain, model), np.random.default_rng(1)
    for _ in range(6):
        batch = objective.collate(list(examples(head, draw)), BUDGET).to("cuda")
        found = []
        for micro in (captured, plain):
            for one in model.parameters():
                one.grad = torch.zeros_like(one) if one.grad is None else one.grad.zero_()
            loss = micro(without_caches(batch), 1 / batch.weight).loss
            found.append((loss.clone(), [one.grad.clone() for one in model.parameters()]))
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)
    assert len(captured.graphs) == 1
