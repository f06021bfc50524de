"""The kernel of top-k on CUDA, against the definition."""

import pytest
import torch

from regard.generation.candidates import topk, topk_of_logits
from triton_device import DEVICE, INTERPRETED, on_device

pytestmark = on_device


@pytest.mark.parametrize("vocab", [3, 64, 100, 1_000] + [50_257] * (not INTERPRETED))
@pytest.mark.parametrize("count", [1, 5])
def test_tokens_and_values(vocab, count):
    logits_RV = torch.randn(3, vocab, device=DEVICE).mul(4).round().div(4)  # with ties
    bias_V = torch.zeros(vocab, device=DEVICE)
    bias_V[1::5] = -torch.inf
    values, tokens = topk_of_logits(logits_RV, bias_V, count)
    logprobs_RV = logits_RV.log_softmax(-1) + bias_V
    expected, of_definition = topk(logprobs_RV, min(count, vocab))
    allowed = expected.isfinite()
    assert torch.equal(tokens[allowed], of_definition[allowed])
    assert torch.equal(values.isfinite(), allowed)
    torch.testing.assert_close(values[allowed], expected[allowed], rtol=1e-5, atol=1e-5)
