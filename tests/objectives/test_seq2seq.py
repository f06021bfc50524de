"""Translation as an objective: markers, loss, fixed shapes."""

import pytest
import torch
import torch.nn.functional as F

from closeness import SCALARS
from regard.core.batch import IGNORED, BatchLimits
from regard.layers.losses import smoothed_cross_entropy
from regard.models.facts import change
from regard.models.papers.transformer import LAPTOP
from regard.objectives.seq2seq import Seq2Seq

PAIRS = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9])]
FACTS = change(LAPTOP, vocab=20, width=16, inner=32, heads=2, depth=2, dropout=0.0)


def test_markers():
    batch = Seq2Seq(bos=1, eos=2).collate(PAIRS)
    assert batch.inputs.source.tokens_T.tolist() == [5, 6, 7, 2, 5, 2]
    assert batch.inputs.target.tokens_T.tolist() == [1, 8, 9, 1, 6, 7, 8, 9]
    assert batch.targets["next_token"].tolist() == [8, 9, 2, 6, 7, 8, 9, 2]
    assert batch.weight == 8
    assert batch.tokens == 14


def test_loss_is_torchs_cross_entropy():
    logits, goals = torch.randn(9, 7), torch.tensor([0, 1, 2, IGNORED, 4, 5, 6, IGNORED, 3])
    loss, nll = smoothed_cross_entropy(logits, goals, 0.1)
    expected = F.cross_entropy(
        logits, goals, ignore_index=IGNORED, label_smoothing=0.1, reduction="sum"
    )
    torch.testing.assert_close(loss, expected)
    plain = F.cross_entropy(logits, goals, ignore_index=IGNORED, reduction="sum")
    torch.testing.assert_close(nll, plain)
    torch.testing.assert_close(smoothed_cross_entropy(logits, goals)[0], plain)


def test_fill_changes_neither_loss_nor_gradient():
    """A batch of fixed shape, as on CUDA, means what the same rows mean alone."""
    objective = Seq2Seq(bos=1, eos=2)
    model = FACTS.build()
    gradients, losses = [], []
    for limits in (None, BatchLimits(tokens=40, rows=4, longest=9)):
        batch = objective.collate(PAIRS, limits)
        loss, _ = objective(model, batch)
        model.zero_grad()
        loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_scores_are_the_log_probabilities_of_the_goals():
    objective = Seq2Seq(bos=1, eos=2, smoothing=0.0)
    model = FACTS.build().eval()
    batch = objective.collate(PAIRS)
    with torch.no_grad():
        rows = objective.score(model, batch)
        loss, _ = objective(model, batch)
    assert [len(row) for row in rows] == [3, 5]
    assert -sum(row.sum().item() for row in rows) == pytest.approx(loss.item(), **SCALARS)
