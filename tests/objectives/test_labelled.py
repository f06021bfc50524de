"""Classification as an objective: one goal a text, weights, fixed shapes."""

import pytest
import torch
import torch.nn.functional as F
from regard.objectives.labelled import Labelled

from regard.ground.batch import IGNORED, BatchLimits
from regard.models.facts import change
from regard.models.papers.lin import LAPTOP, Pooled

EXAMPLES = [([5, 6, 7], [1]), ([8], [0]), ([9, 9], [2])]
FACTS = change(LAPTOP, vocab=20, width=6, embedding=5, classes=3, dropout=0.0)


def test_a_text_has_one_goal():
    objective = Labelled()
    batch = objective.collate(EXAMPLES)
    assert batch.target.tokens_T.tolist() == [5, 6, 7, 8, 9, 9]
    assert batch.goals_T.tolist() == [1, 0, 2]
    assert batch.weight == 3 and batch.tokens == 6
    assert objective.length(EXAMPLES[0]) == (3,)
    assert sum(map(objective.weight, EXAMPLES)) == 3


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, (0.5, 2.0, 1.0)])
def test_loss_is_torchs_cross_entropy(smoothing, weights):
    model, objective = Pooled(FACTS), Labelled(smoothing, weights)
    batch = objective.collate(EXAMPLES)
    logits = model(batch.target.tokens_T, batch.target.layout)
    loss, likelihood = objective(model, batch)
    given = None if weights is None else torch.tensor(weights)
    wanted = F.cross_entropy(logits, batch.goals_T, weight=given)
    torch.testing.assert_close(likelihood / batch.weight, wanted.detach())
    if not smoothing:
        torch.testing.assert_close(loss / batch.weight, wanted)
    assert batch.weight == sum(weights or (1, 1, 1))


def test_fill_changes_nothing():
    model, objective = Pooled(FACTS), Labelled()
    free, fixed = objective.collate(EXAMPLES), objective.collate(EXAMPLES, BatchLimits(16, 4, 5))
    assert len(fixed.target.tokens_T) == 16
    assert (fixed.goals_T[3:] == IGNORED).all()
    assert fixed.weight == free.weight
    torch.testing.assert_close(objective(model, free), objective(model, fixed))
