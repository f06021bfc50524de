"""ULMFiT (Howard & Ruder, 2018, arXiv:1801.06146): a language model becomes a classifier.

AWD-LSTM with other dropout is trained on general text, then on the texts of the task, then on their
labels, by two layers with batch norm over the last state, the maximum and the mean of all states.
Three settings of the optimiser prevent forgetting: ``layer_decay``, ``unfreeze_every`` and the
schedule "slanted".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import BadFact
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.layers.batch_norm import RowBatchNorm
from regard.layers.dropout import Dropout
from regard.models.facts import at_least, change, share
from regard.models.heads import AnyHead, Inputs, PaperHead
from regard.models.label_heads import LabelHead
from regard.models.paper import Paper
from regard.models.papers import awd_lstm
from regard.models.pools import ConcatPool
from regard.models.trunk import Trunk


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
    records: ClassVar[bool] = True
    eager: ClassVar[bool] = True
    outputs: int
    hidden: int = 50
    rates: tuple[float, float] = (0.4, 0.1)

    def __post_init__(self) -> None:
        at_least(1, self, "outputs", "hidden")
        if len(self.rates) != 2:
            raise BadFact("rates", f"must be two numbers, one per layer, not {self.rates}")
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

    def forward(self, pooled_BD: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE) -> Tensor:
        dense_norm, out_norm = self.norms
        normed_BD = tape("dense_norm", dense_norm(pooled_BD, layout))
        hidden_BD = tape("dense", F.relu(self.dense(self.dense_dropout(normed_BD))))
        return self.out(self.dropout(tape("norm", out_norm(hidden_BD, layout))))


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
)
