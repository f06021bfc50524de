"""Answers by task tokens: only they and their end are learned."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.core.batch import IGNORED, BatchLimits
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.papers import bert, gpt2
from regard.objectives.seq2seq import AnswerLM
from regard.text.task_prompt import TaskPrompt

PAIRS = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9]), ([4, 4, 4, 4, 4], [])]
TASK, EOS = 18, 19
ANSWERS = AnswerLM(TaskPrompt(TASK), EOS)
SHORT = AnswerLM(TaskPrompt(TASK, longest=2), EOS, smoothing=0.1)
SIZES = {"vocab": 20, "width": 16, "inner": 32, "heads": 2, "depth": 2, "longest": 12}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    facts = change(gpt2.SMALL, **SIZES, dropout=0.0, attention_dropout=0.0)
    return change(facts, output_heads=(NextTokenHead(),)).build()


def test_rows_and_targets():
    batch = ANSWERS.collate(PAIRS[:2])
    assert batch.inputs.tokens_T.tolist() == [5, 6, 7, TASK, 8, 9, 5, TASK, 6, 7, 8, 9]
    ignored = [IGNORED] * 3
    assert batch.targets["next_token"].tolist() == [
        *(*ignored, 8, 9, EOS),
        *(IGNORED, 6, 7, 8, 9, EOS),
    ]
    assert batch.weight == 8
    assert batch.tokens == 12


def test_of_a_long_text_the_beginning_is_read():
    batch = SHORT.collate(PAIRS[:1])
    assert batch.inputs.tokens_T.tolist() == [5, 6, TASK, 8, 9]
    assert batch.targets["next_token"].tolist() == [IGNORED, IGNORED, 8, 9, EOS]


@pytest.mark.parametrize("objective", [ANSWERS, SHORT], ids=["whole", "short"])
def test_sizes_are_known_without_reading(objective):
    sizes_NS = np.array([[len(text), len(answer)] for text, answer in PAIRS])
    assert [*map(tuple, objective.lengths(sizes_NS))] == [*map(objective.length, PAIRS)]
    assert [*objective.weights(sizes_NS)] == [*map(objective.weight, PAIRS)]
    for pair, length in zip(PAIRS, objective.lengths(sizes_NS), strict=True):
        assert objective.collate([pair]).tokens == length


def test_nothing_is_learned_of_texts(model):
    """The loss is that of answers and their ends; logits at other tokens have no gradient."""
    batch = ANSWERS.collate(PAIRS)
    outputs, targets_T = model(batch.inputs), batch.targets["next_token"]
    loss, nll = ANSWERS.loss(outputs, batch)
    logits_TV = outputs.by_head["next_token"]
    answers_N = [3, 4, 5, 7, 8, 9, 10, 11, 17]
    expected = F.cross_entropy(logits_TV[answers_N], targets_T[answers_N], reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, expected)
    (gradient_TV,) = torch.autograd.grad(loss, logits_TV)
    assert torch.where(gradient_TV.abs().sum(1) > 0)[0].tolist() == answers_N


def test_fill_changes_neither_loss_nor_gradient(model):
    gradients, losses = [], []
    for limits in (None, BatchLimits(tokens=40, rows=4, longest=9)):
        loss, _ = SHORT(model, SHORT.collate(PAIRS, limits))
        model.zero_grad()
        loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_model_that_sees_answers_is_refused():
    AnswerLM.check(gpt2.SMALL)
    with pytest.raises(BadInput, match="needs a causal model"):
        AnswerLM.check(bert.BASE)
