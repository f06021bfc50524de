"""A language model as in a tutorial: torch's embedding, three nn.LSTM, a tied linear layer."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from corpus import streams
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear
from worker import System

from peers.common import Step, Updates, device, half, rounds_over, send


class PlainLM(nn.Module):
    """LSTMs of these ``widths`` between a tied embedding and output; ``dtype`` is the LSTMs'."""

    def __init__(self, vocab: int, widths: list[int], dtype: torch.dtype):
        super().__init__()
        self.embed = nn.Embedding(vocab, widths[0])
        nn.init.normal_(self.embed.weight, std=0.05)
        self.lstms = nn.ModuleList(nn.LSTM(*pair) for pair in pairwise(widths)).to(dtype)
        self.dtype, self.bias = dtype, nn.Parameter(torch.zeros(vocab))

    def forward(self, words_LB: Tensor, states: list[Any]) -> tuple[Tensor, list[Any]]:
        """Logits, and the states after the last word."""
        x_LBD, after = self.embed(words_LB), []
        with torch.autocast(x_LBD.device.type, enabled=False):
            x_LBD = x_LBD.to(self.dtype)
            for lstm, state in zip(self.lstms, states, strict=True):
                x_LBD, state = lstm(x_LBD, state)
                after.append(tuple(part.detach() for part in state))
        return linear(x_LBD.float(), self.embed.weight, self.bias), after


def training_step(model: PlainLM, optimiser: dict[str, Any], place: torch.device) -> Step:
    """A step over streams, whose state is carried on."""
    model = model.to(place).train()
    updates = Updates(model, optimiser)
    states: list[Any] = [None] * len(model.lstms)

    def step(words_BL: np.ndarray) -> Tensor:
        nonlocal states
        words_LB = send(words_BL.T.copy(), place)
        with half(place):
            logits_LBV, states = model(words_LB[:-1], states)
        loss = cross_entropy(logits_LBV.flatten(0, 1).float(), words_LB[1:].flatten())
        loss.backward()
        updates.step()
        return loss.detach()

    return step


def training(
    widths: list[int], dtype: str, corpus: dict[str, Any], optimiser: dict[str, Any]
) -> System:
    """Training on random words."""
    model = PlainLM(corpus["vocab"], widths, getattr(torch, dtype))
    return rounds_over(training_step(model, optimiser, device()), list(streams(**corpus)))
