"""Labels of rows as objectives: one target a row, weights, fixed shapes."""

import pytest
import torch
import torch.nn.functional as F

from regard.core.batch import IGNORED, BatchLimits
from regard.models.facts import change
from regard.models.label_heads import LabelHead
from regard.models.papers.lin import LAPTOP
from regard.objectives.label_losses import Classification, MultiLabel, Regression

EXAMPLES = [([5, 6, 7], [1]), ([8], [0]), ([9, 9], [2])]
FACTS = change(LAPTOP, vocab=20, width=6, embedding=5, dropout=0.0).with_heads(LabelHead(3))


def test_a_row_has_one_target():
    objective = Classification()
    batch = objective.collate(EXAMPLES)
    assert batch.inputs.tokens_T.tolist() == [5, 6, 7, 8, 9, 9]
    assert batch.targets["label"].tolist() == [1, 0, 2]
    assert batch.weight == 3 and batch.tokens == 6
    assert objective.length(EXAMPLES[0]) == (3,)
    assert sum(map(objective.weight, EXAMPLES)) == 3


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, (0.5, 2.0, 1.0)])
def test_loss_is_torchs_cross_entropy(smoothing, weights):
    model, objective = FACTS.build(), Classification(smoothing, weights)
    batch = objective.collate(EXAMPLES)
    logits = model(batch.inputs).by_head["label"]
    loss, likelihood = objective(model, batch)
    given = None if weights is None else torch.tensor(weights)
    wanted = F.cross_entropy(logits, batch.targets["label"], weight=given)
    torch.testing.assert_close(likelihood / batch.weight, wanted.detach())
    if not smoothing:
        torch.testing.assert_close(loss / batch.weight, wanted)
    assert batch.weight == sum(weights or (1, 1, 1))


def test_fill_changes_nothing():
    model, objective = FACTS.build(), Classification()
    free, fixed = objective.collate(EXAMPLES), objective.collate(EXAMPLES, BatchLimits(16, 4, 5))
    assert len(fixed.inputs.tokens_T) == 16
    assert (fixed.targets["label"][3:] == IGNORED).all()
    assert fixed.weight == free.weight
    torch.testing.assert_close(objective(model, free), objective(model, fixed))


def test_each_label_is_judged_alone():
    """Binary cross-entropy of each label, the mean over labels and rows."""
    model, objective = FACTS.build(), MultiLabel(3)
    batch = objective.collate([([5, 6], [1, 0, 1]), ([7], [0, 0, 0])])
    logits = model(batch.inputs).by_head["label"]
    loss, _ = objective(model, batch)
    wanted = F.binary_cross_entropy_with_logits(logits, batch.targets["label"])
    torch.testing.assert_close(loss / batch.weight, wanted)


def test_numbers_are_learned_by_squared_error():
    model, objective = FACTS.build(), Regression(3)
    batch = objective.collate([([5, 6], [1.0, 0.5, -1.0]), ([7], [0.0, 2.0, 0.0])])
    loss, same = objective(model, batch)
    wanted = F.mse_loss(model(batch.inputs).by_head["label"], batch.targets["label"])
    torch.testing.assert_close(loss / batch.weight, wanted)
    assert same == loss and not same.requires_grad
