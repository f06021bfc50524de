"""ULMFiT (Howard & Ruder, 2018, arXiv:1801.06146): a language model becomes a classifier.

AWD-LSTM with other dropout is trained on general text, then on the texts of the task, then on their
labels, by two layers with batch norm over the last state, the maximum and the mean of all states.
Three settings of the optimiser prevent forgetting: ``layer_decay``, ``unfreeze_every`` and the
schedule "slanted".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.models.facts import at_least, change, share
from regard.models.heads import AnyHead, Inputs, PaperHead
from regard.models.label_heads import LabelHead
from regard.models.paper import Paper
from regard.models.papers import awd_lstm
from regard.models.pools import ConcatPool
from regard.models.trunk import Trunk
from regard.parts.attention import EncoderOutput
from regard.parts.dropout import Dropout


def read_rows_and_layout(
    encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None
) -> Inputs:
    """The pooled state of each row, and the layout of the rows."""
    return (pooled_BD, encoded.layout)


@dataclass(frozen=True)
class NormedLabelHead(AnyHead):
    """Label head of two linear layers with ReLU between them, for labels or numbers of rows.

    Batch norm and dropout, with ``rates``, are applied to the input of each (Howard & Ruder, 2018,
    section 3.3); ``hidden`` is the size between the layers.
    """

    name: ClassVar[str] = LabelHead.name
    per_row: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_rows_and_layout)
    eager: ClassVar[bool] = True
    outputs: int
    hidden: int = 50
    rates: tuple[float, float] = (0.4, 0.1)

    def __post_init__(self) -> None:
        at_least(1, self, "outputs", "hidden")
        if len(self.rates) != 2:
            raise BadInput(f"rates must be two numbers, one per layer, not {self.rates}")
        share(self, "rates")

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "NormedLabelModule":
        return NormedLabelModule(self, width)

    def macs(self, trunk: Trunk, width: int) -> int:
        return self.hidden * (width + self.outputs)


class NormedLabelModule(nn.Module):
    """Module of the normed label head: two linear layers, each after batch norm and dropout."""

    def __init__(self, head: NormedLabelHead, width: int):
        super().__init__()
        self.norms = nn.ModuleList([RowBatchNorm(width), RowBatchNorm(head.hidden)])
        self.dense_dropout, self.dropout = map(Dropout, head.rates)
        self.dense = nn.Linear(width, head.hidden)
        self.out = nn.Linear(head.hidden, head.outputs)

    def forward(self, pooled_BD: Tensor, layout: Layout) -> Tensor:
        dense_norm, out_norm = self.norms
        hidden_BD = F.relu(self.dense(self.dense_dropout(dense_norm(pooled_BD, layout))))
        return self.out(self.dropout(out_norm(hidden_BD, layout)))


class RowBatchNorm(nn.Module):
    """Batch norm over the rows of a batch that have tokens.

    Outside training, and if its weights are frozen, it uses running means, which are saved with the
    weights.
    """

    def __init__(self, width: int, *, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x_BD: Tensor, layout: Layout) -> Tensor:
        own = self.training and self.weight.requires_grad
        mean_D, variance_D = self._measure(x_BD, layout) if own else self._running
        scale_D = self.weight.float() * (variance_D + self.eps).rsqrt()
        return ((x_BD.float() - mean_D) * scale_D + self.bias.float()).to(x_BD.dtype)

    @property
    def _running(self) -> tuple[Tensor, Tensor]:
        return self.running_mean.float(), self.running_var.float()

    def _measure(self, x_BD: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Mean and variance of this batch; updates the running means."""
        x_BD, real_B1 = x_BD.float(), ~layout.empty_B[:, None]
        count = real_B1.sum().clamp(min=1)
        mean_D = (x_BD * real_B1).sum(0) / count
        variance_D = ((x_BD - mean_D).square() * real_B1).sum(0) / count
        with torch.no_grad():
            unbiased_D = variance_D * count / (count - 1).clamp(min=1)
            self.running_mean.lerp_(mean_D, self.momentum)
            self.running_var.lerp_(unbiased_D, self.momentum)
        return mean_D, variance_D


BASE = change(
    awd_lstm.WIKITEXT_2, vocab=30_000, word_dropout=0.05, input_dropout=0.4, hidden_dropout=0.3
)

PAPER = Paper(
    name="ULMFiT",
    year=2018,
    title="Universal Language Model Fine-tuning for Text Classification",
    authors="Jeremy Howard, Sebastian Ruder",
    arxiv="1801.06146",
    after=awd_lstm.PAPER.name,
    tokenizer=awd_lstm.PAPER.tokenizer,
    pretraining={"causal-lm": {"rows": "streams", "ar": 2.0, "tar": 1.0}},
    sizes={"base": BASE},
    heads=(*awd_lstm.PAPER.heads, PaperHead(NormedLabelHead(2), pool=ConcatPool())),
    kinds=(NormedLabelHead,),
)
