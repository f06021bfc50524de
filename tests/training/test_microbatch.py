"""A captured step is the step, batch after batch, whatever an objective reads of their layouts."""

import gc
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from regard.core.batch import BatchLimits, TokenRow
from regard.core.layout import Layout
from regard.core.pytree import without_caches
from regard.data.data_tables import BatchConfig
from regard.models.facts import change
from regard.models.label_heads import LabelHead, SpanHead, TokenLabelHead
from regard.models.papers import bert
from regard.objectives.label_losses import Classification, SpanExtraction, TokenClassification
from regard.training.loop.microbatch import (
    EagerStep,
    GraphedStep,
    fixed_shape,
    gradients_added_at_once,
)

BUDGET = BatchLimits(64, 6, 20)
SIZES = {"vocab": 50, "depth": 2, "width": 32, "heads": 2, "inner": 48, "longest": 20}
SMALL = change(bert.PAPER.sizes["tiny"], **SIZES, dropout=0.0, attention_dropout=0.0)


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
    facts = change(SMALL, position=position, pool=pool)
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


def test_a_shape_whose_capture_failed_is_eager(monkeypatch):
    """It is tried once for each shape."""
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    tried = []
    monkeypatch.setattr(GraphedStep, "_capture", lambda step, batch, scale: tried.append(batch))
    facts = SMALL.with_heads(LabelHead(3))
    model, objective = facts.build().train(), Classification()
    eager = EagerStep(lambda batch: objective(model, batch), torch.enable_grad)
    step, draw = GraphedStep(eager, model), np.random.default_rng(1)
    for _ in range(3):
        batch = objective.collate(list(examples(LabelHead(3), draw)), BUDGET)
        assert torch.equal(step(batch, 0.5).loss, eager(batch, 0.5).loss)
    assert len(tried) == 1 and list(step.graphs.values()) == [None]


def refused_while_capturing(times):
    """Fail ``times`` captures by a call that is not permitted in one."""
    left = [times]

    def call():
        if torch.cuda.is_current_stream_capturing() and left[0]:
            left[0] -= 1
            torch.cuda.synchronize()

    return call


@pytest.mark.gpu
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own, as is:
@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_a_capture_that_fails_changes_no_step(times, compiled):
    """One failure is tried again, two leave eager steps; draws of dropout follow the seed."""
    facts = change(SMALL, dropout=0.0 if times == 1 else 0.2)
    model = facts.with_heads(LabelHead(3)).build().cuda().train()
    objective, refuse = Classification(), refused_while_capturing(times)

    def forward(batch):
        return objective(model, batch)

    forward = torch.compile(forward) if compiled else forward

    def failing(batch):
        result = forward(batch)
        refuse()
        return result

    plain = EagerStep(forward, torch.enable_grad)
    step = GraphedStep(EagerStep(failing, torch.enable_grad), model)
    results = {}
    for name, run in (("plain", plain), ("failing", step)):
        torch.cuda.manual_seed(7)
        draw, results[name] = np.random.default_rng(1), []
        for number in range(4):
            batch = objective.collate(list(examples(LabelHead(3), draw)), BUDGET).to("cuda")
            for one in model.parameters():
                one.grad = torch.zeros_like(one) if one.grad is None else one.grad.zero_()
            warns = name == "failing" and times == 2 and number == 0
            expected = pytest.warns(RuntimeWarning, match="a training step could not be captured")
            with expected if warns else nullcontext():
                loss = run(without_caches(batch), 1 / batch.weight).loss
            gradients = [one.grad.clone() for one in model.parameters()]
            results[name].append((loss.clone(), gradients))
    assert [one is None for one in step.graphs.values()] == [times == 2]
    torch.testing.assert_close(results["failing"], results["plain"], rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
def test_garbage_collected_while_a_step_is_captured():
    """The graphs of an earlier run are in a cycle that is dropped meanwhile."""
    model = SMALL.with_heads(LabelHead(3)).build().cuda().train()
    objective, draw, holder = Classification(), np.random.default_rng(1), []
    batch = objective.collate(list(examples(LabelHead(3), draw)), BUDGET).to("cuda")

    def forward(batch):
        result = objective(model, batch)
        if torch.cuda.is_current_stream_capturing():
            holder.clear()
            gc.collect()
        return result

    plain = EagerStep(lambda batch: objective(model, batch), torch.enable_grad)
    older = GraphedStep(plain, model)
    expected = older(without_caches(batch), 1.0).loss.clone()
    older.itself = older
    holder.append(older)
    del older
    step = GraphedStep(EagerStep(forward, torch.enable_grad), model)
    assert torch.allclose(step(without_caches(batch), 1.0).loss, expected)
    assert not holder and None not in step.graphs.values()
