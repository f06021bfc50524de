"""Labels of tokens as objectives: torch's cross-entropy, weights, numbers, fixed shapes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.core.batch import IGNORED, BatchLimits, TokenRow
from regard.models.trunk_with_heads import Outputs
from regard.objectives.label_losses import TokenClassification, TokenRegression

ROWS = [TokenRow([5, 6, 7], [0, 0, 0]), TokenRow([8], [0]), TokenRow([9, 9], [0, 1])]
LABELS = [np.array([0, IGNORED, 4]), np.array([1]), np.array([IGNORED, 1])]
NUMBERS = [np.array([0.5, np.nan, -1.0]), np.array([2.0]), np.array([np.nan, np.nan])]
LIMITS = pytest.mark.parametrize("limits", [None, BatchLimits(10, 4, 5)], ids=["free", "fixed"])


def outputs(logits_TV, limits):
    """Of a model; what fills a batch of fixed shape has any logits."""
    if limits is not None:
        logits_TV = torch.cat([logits_TV, torch.randn(limits.tokens - 6, logits_TV.shape[1])])
    return Outputs(torch.empty(0), None, {"token_label": logits_TV})


@LIMITS
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, (0.5, 2.0, 1.0, 1.0, 3.0)])
def test_loss_is_torchs_cross_entropy(smoothing, weights, limits):
    objective, logits_TV = TokenClassification(smoothing, weights), torch.randn(6, 5)
    examples = list(zip(ROWS, LABELS, strict=True))
    batch = objective.collate(examples, limits)
    loss, likelihood = objective.loss(outputs(logits_TV, limits), batch)
    targets = torch.tensor(np.concatenate(LABELS))
    given = None if weights is None else torch.tensor(weights)
    wanted = F.cross_entropy(logits_TV, targets, weight=given)
    torch.testing.assert_close(likelihood / batch.weight, wanted)
    if not smoothing:
        torch.testing.assert_close(loss / batch.weight, wanted)
    assert batch.weight == sum(map(objective.weight, examples))
    assert batch.weight == (4 if weights is None else 0.5 + 3.0 + 2.0 + 2.0)


@LIMITS
def test_numbers_are_learned_by_squared_error_where_there_are_some(limits):
    objective, logits_TV = TokenRegression(), torch.randn(6, 1)
    examples = list(zip(ROWS, NUMBERS, strict=True))
    batch = objective.collate(examples, limits)
    loss, same = objective.loss(outputs(logits_TV, limits), batch)
    there = np.isfinite(np.concatenate(NUMBERS))
    numbers = torch.tensor(np.concatenate(NUMBERS)[there], dtype=torch.float32)
    torch.testing.assert_close(loss / batch.weight, F.mse_loss(logits_TV[there, 0], numbers))
    assert same == loss and batch.weight == 3 == sum(map(objective.weight, examples))
