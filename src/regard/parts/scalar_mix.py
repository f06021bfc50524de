"""Mixtures of layers by learned weights (Peters et al., 2018, equation 1)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """γ Σ_j softmax(w)_j h_j over so many layers; at first their mean."""

    def __init__(self, layers: int):
        super().__init__()
        self.layers = layers
        self.logits = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """The mixture of states of the same size."""
        shares = torch.softmax(self.logits.float(), dim=0)
        mixed = sum(
            (share * states for share, states in zip(shares, layers, strict=True)),
            start=layers[0].new_zeros(()),
        )
        return (self.scale * mixed).to(layers[0].dtype)
