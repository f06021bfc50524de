"""Readouts of recurrent decoders: states combined with contexts, and maxout."""

import torch
from torch import Tensor, nn


class Attentional(nn.Module):
    """h̃ = tanh(W[c; h]) (Luong et al., 2015, eq. 5)."""

    def __init__(self, context: int, width: int):
        super().__init__()
        self.linear = nn.Linear(context + width, width, bias=False)

    def forward(self, state_TD: Tensor, context_TD: Tensor) -> Tensor:
        return torch.tanh(self.linear(torch.cat([context_TD, state_TD], dim=-1)))


class Maxout(nn.Module):
    """The maximum of each pair of Wx + b (Goodfellow et al., 2013), ``size`` outputs."""

    def __init__(self, inputs: int, size: int):
        super().__init__()
        self.linear = nn.Linear(inputs, 2 * size)

    def forward(self, x_TD: Tensor) -> Tensor:
        return self.linear(x_TD).unflatten(-1, (-1, 2)).amax(-1)
