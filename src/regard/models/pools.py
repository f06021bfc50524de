"""Pools: one vector for each row, from the states of its tokens."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.layers.recurrent.bridge import last_state, mean_state
from regard.layers.recurrent.rnn_attention import SCORES, RNNAttention
from regard.models.attention_site import AttentionSite
from regard.models.facts import at_least, one_of
from regard.models.macs import MACs, score_macs

QUERIES = ("learned", "zeros", "mean")


Summaries = tuple[str | None, ...]
"""The places where a tokenizer may put the summary token; None: no summary token."""
ANYWHERE: Summaries = ("first", "last", None)


class AnyPool:
    """Base class of pools, with defaults."""

    summaries: ClassVar[Summaries] = ANYWHERE

    @property
    def first_read(self) -> int | None:
        """The number n if the pool reads only the first n tokens of a row; else None."""
        return None

    def build(self, width: int) -> nn.Module:
        """The module for states of size ``width``."""
        raise NotImplementedError

    def output_width(self, width: int) -> int:
        """The size of the output for states of size ``width``."""
        return width

    def macs(self, width: int) -> MACs:
        """MACs for each token and each row."""
        return MACs(0)

    def attention(self, side: str) -> AttentionSite | None:
        """The attention of the pool over the tokens of a side."""
        return None


@dataclass(frozen=True)
class FirstToken(AnyPool):
    """Pool that reads the state of the first token; if ``dense``, through tanh(W h + b) (BERT)."""

    summaries: ClassVar[Summaries] = ("first",)
    dense: bool = True

    @property
    def first_read(self) -> int:
        return 1

    def build(self, width: int) -> nn.Module:
        return FirstTokenModule(self, width)

    def macs(self, width: int) -> MACs:
        return MACs(0, row=width * width * self.dense)


@dataclass(frozen=True)
class FirstTokens(AnyPool):
    """Pool that concatenates the first ``count`` states (DeiT: class and distillation token)."""

    summaries: ClassVar[Summaries] = ("first",)
    count: int = 2

    def __post_init__(self) -> None:
        at_least(1, self, "count")

    @property
    def first_read(self) -> int:
        return self.count

    def build(self, width: int) -> nn.Module:
        return PlainPoolModule(partial(first_states, count=self.count))

    def output_width(self, width: int) -> int:
        return self.count * width


@dataclass(frozen=True)
class LastToken(AnyPool):
    """Pool that reads the final state of a recurrent trunk, else the state of the last token."""

    summaries: ClassVar[Summaries] = ("last", None)

    def build(self, width: int) -> nn.Module:
        return PlainPoolModule(last_state)


@dataclass(frozen=True)
class MeanPool(AnyPool):
    """Pool that averages all states."""

    def build(self, width: int) -> nn.Module:
        return PlainPoolModule(mean_state)


@dataclass(frozen=True)
class ConcatPool(AnyPool):
    """Pool [h_T; max over t of h_t; mean of h_t] (Howard & Ruder, 2018, section 3.3)."""

    summaries: ClassVar[Summaries] = ("last", None)

    def build(self, width: int) -> nn.Module:
        return PlainPoolModule(concat_states)

    def output_width(self, width: int) -> int:
        return 3 * width


@dataclass(frozen=True)
class AttentionPool(AnyPool):
    """Attention pool Σ_i α_i h_i, with α the softmax of a ``score`` of one query with all states.

    The ``query`` is "learned", "zeros" (with a dot product: the mean of the states) or "mean" (the
    mean of the states). ``inner`` and ``positions`` are as in ``CrossAttentionFacts``.
    """

    score: str = "additive"
    query: str = "learned"
    inner: int | None = None
    positions: int = 128

    def __post_init__(self) -> None:
        one_of(SCORES, "score", self.score)
        one_of(QUERIES, "query", self.query)
        at_least(1, self, "inner", "positions")

    def build(self, width: int) -> nn.Module:
        return AttentionPoolModule(self, width)

    def macs(self, width: int) -> MACs:
        query, key, pair = score_macs(self.score, width, width, self.inner or width, self.positions)
        return MACs(key + pair + width, row=query)

    def attention(self, side: str) -> AttentionSite:
        return AttentionSite(side, "pool", (1,), "pool")


POOLS: dict[str, AnyPool] = {
    "first": FirstToken(dense=False),
    "last": LastToken(),
    "mean": MeanPool(),
    "concat": ConcatPool(),
    "attention": AttentionPool(),
}


class FirstTokenModule(nn.Module):
    """Module of the pools of first tokens."""

    def __init__(self, pool: FirstToken, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width) if pool.dense else None

    def forward(self, encoded: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor:
        """Return the pooled states, (B, D); undefined for empty rows."""
        first_BD = first_states(encoded, 1)
        return first_BD if self.dense is None else torch.tanh(self.dense(first_BD))


def first_states(encoded: EncoderOutput, count: int) -> Tensor:
    """States of the first tokens of each row, concatenated, (B, count · D)."""
    states_TD, layout = encoded.states_TD, encoded.layout
    if layout.full and layout.longest >= count:
        return layout.pad(states_TD)[:, :count].flatten(1)  # its gradient needs no scatter
    if not states_TD.shape[0]:
        states_TD = F.pad(states_TD, (0, 0, 0, 1))
    starts_B, last = layout.offsets[:-1].long(), states_TD.shape[0] - 1
    places = torch.arange(count, device=starts_B.device)
    return states_TD[(starts_B[:, None] + places).clamp(max=last)].flatten(1)


class PlainPoolModule(nn.Module):
    """Module of a pool without weights: a function from the states of rows to a vector per row."""

    def __init__(self, pool: Callable[[EncoderOutput], Tensor]):
        super().__init__()
        self.pool = pool

    def forward(self, encoded: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor:
        """Return the pooled states, (B, D); zeros for empty rows."""
        return self.pool(encoded)


class AttentionPoolModule(nn.Module):
    """Module of the attention pool: one query per row attends to the states of the row."""

    def __init__(self, pool: AttentionPool, width: int):
        super().__init__()
        self.query = pool.query
        if pool.query == "learned":
            self.learned = nn.Parameter(torch.empty(width).normal_(std=1 / math.sqrt(width)))
        sizes = {"inner": pool.inner or width, "positions": pool.positions}
        self.attention = RNNAttention(width, width, pool.score, **sizes)

    def forward(self, source: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor:
        """Return the pooled states, (B, D); zeros for empty rows."""
        queries = Layout.rectangle(source.layout.rows, 1, source.states_TD.device)
        return self.attention(
            self._query(source), queries, self.attention.keys(source, tape), tape=tape
        )

    def _query(self, source: EncoderOutput) -> Tensor:
        states_TD, layout = source.states_TD, source.layout
        if self.query == "learned":
            return self.learned.to(states_TD.dtype).expand(layout.rows, -1)
        if self.query == "zeros":
            return states_TD.new_zeros(layout.rows, states_TD.shape[-1])
        return mean_state(source)


def max_state(source: EncoderOutput) -> Tensor:
    """The maximum over the states of every row, by dimension; zeros for empty rows."""
    layout = source.layout
    padded_BLD = layout.pad(source.states_TD).masked_fill(~layout.real_BL[:, :, None], -torch.inf)
    if not layout.longest:
        padded_BLD = F.pad(padded_BLD, (0, 0, 0, 1))  # with zero gradients
    return padded_BLD.amax(1).masked_fill(layout.empty_B[:, None], 0)


def concat_states(source: EncoderOutput) -> Tensor:
    """Last state, maximum and mean of all states before dropout, concatenated, (B, 3 D)."""
    if source.undropped_TD is not None:
        source = source._replace(states_TD=source.undropped_TD)
    return torch.cat([last_state(source), max_state(source), mean_state(source)], dim=-1)
