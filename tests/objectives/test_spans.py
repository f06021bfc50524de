"""Spans as an objective: two softmaxes over the tokens of each row, and over no others."""

import pytest
import torch
import torch.nn.functional as F

from regard.core.batch import BatchLimits, TokenRow
from regard.models.trunk_with_heads import Outputs
from regard.objectives.label_losses import SpanExtraction

LENGTHS, ENDS = [4, 1, 3], [(1, 2), (0, 0), (0, 2)]
EXAMPLES = [
    (TokenRow([5] * length, [0] * length), ends) for length, ends in zip(LENGTHS, ENDS, strict=True)
]


@pytest.mark.parametrize("limits", [None, BatchLimits(12, 4, 6)], ids=["free", "fixed"])
def test_loss_is_the_mean_of_both_ends_over_the_tokens_of_a_row(limits):
    objective, logits_TV = SpanExtraction(), torch.randn(12, 2)
    if limits is None:
        logits_TV = logits_TV[: sum(LENGTHS)]
    batch = objective.collate(EXAMPLES, limits)
    loss, likelihood = objective.loss(Outputs(torch.empty(0), None, {"span": logits_TV}), batch)
    wanted, start = [], 0
    for length, (first, last) in zip(LENGTHS, ENDS, strict=True):
        of_row = logits_TV[start : start + length].T  # first and last token
        wanted.append(F.cross_entropy(of_row, torch.tensor([first, last])))
        start += length
    assert batch.weight == 3
    torch.testing.assert_close(loss / batch.weight, torch.stack(wanted).mean())
    torch.testing.assert_close(likelihood, loss)
