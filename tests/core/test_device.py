"""Seeds give the draws that torch has for them."""

import torch

from regard.core.device import seed_generators


def test_draws_are_those_of_manual_seed():
    seed_generators(7)
    ours = torch.rand(3)
    torch.manual_seed(7)
    assert torch.equal(ours, torch.rand(3)) and not torch.equal(ours, torch.rand(3))
