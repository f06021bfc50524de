"""Multiple choice as an objective: a softmax over the rows of a question."""

import pytest
import torch
import torch.nn.functional as F

from regard.core.batch import BatchLimits, TokenRow
from regard.models.trunk_with_heads import Outputs
from regard.objectives.label_losses import MultipleChoice

CHOICES = 3
EXAMPLES = [
    ([TokenRow([5] * (1 + number), [0] * (1 + number)) for number in range(CHOICES)], label)
    for label in (2, 0)
]


@pytest.mark.parametrize("limits", [None, BatchLimits(8, 4, 4)], ids=["free", "fixed"])
def test_loss_is_torchs_cross_entropy_over_choices(limits):
    objective = MultipleChoice(CHOICES)
    batch = objective.collate(EXAMPLES, limits)
    assert objective.length(EXAMPLES[0]) == (1, 2, 3) and batch.weight == 2
    rows = batch.inputs.layout.rows
    assert batch.inputs.layout.lengths_B[:6].tolist() == [1, 2, 3, 1, 2, 3]
    scores_B = torch.randn(rows, 1)
    loss, _ = objective.loss(Outputs(torch.empty(0), None, {"choice": scores_B}), batch)
    wanted = F.cross_entropy(scores_B[: 2 * CHOICES].view(2, CHOICES), torch.tensor([2, 0]))
    torch.testing.assert_close(loss / batch.weight, wanted)
