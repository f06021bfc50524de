"""Multi-head attention (Vaswani et al., 2017, section 3.2): H heads side by side, joined by W_O."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import SILENT, Silent
from regard.parts.attend import attention
from regard.parts.memory import Kept, LayerMemory
from regard.parts.score import ScaledDot
from regard.parts.sight import Sight, everyone

# Flatter scores at the start: with 1.0, post-norm stacks often never learn to look at the source.
INTO_HEADS = 1 / math.sqrt(2)


class Source(NamedTuple):
    """What a decoder looks at: an encoder's states and how they lie.

    ``ends`` is where each layer of a recurrent encoder ended: its state, (B, width) each.
    """

    states_TD: Tensor
    layout: Layout
    ends: Sequence[tuple[Tensor, ...]] | None = None

    def to(self, dtype: torch.dtype) -> "Source":
        """The same with states in that precision."""
        return self._replace(states_TD=self.states_TD.to(dtype))


@dataclass(frozen=True)
class Heads:
    """How many heads there are, and the sizes of their keys and values."""

    count: int
    key: int
    value: int

    @classmethod
    def of(
        cls, width: int, count: int, key: int | None = None, value: int | None = None
    ) -> "Heads":
        """Sizes that share the width out evenly, unless they are given."""
        if key is None and width % count:
            raise ValueError(f"a width of {width} cannot be shared by {count} heads")
        key = width // count if key is None else key
        return cls(count, key, key if value is None else value)

    def part(self, x_TD: Tensor, *sizes: int) -> list[Tensor]:
        """(T, ΣH·K) as one (T, H, K) per size."""
        parts = x_TD.split([self.count * size for size in sizes], dim=-1)
        return [part.unflatten(-1, (self.count, -1)) for part in parts]


class SelfAttention(nn.Module):
    """Queries, keys and values from the same tokens, by one projection."""

    def __init__(
        self,
        width: int,
        heads: Heads,
        *,
        score: nn.Module | None = None,
        sight: Sight = everyone,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        self.heads, self.sight, self.dropout = heads, sight, dropout
        self.score = score or ScaledDot()
        sizes = (heads.key, heads.key, heads.value)
        self.qkv = joined(width, [heads.count * size for size in sizes], bias, INTO_HEADS)
        self.o = joined(heads.count * heads.value, [width], bias)

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        *,
        memory: LayerMemory | None = None,
        tape: Silent = SILENT,
    ) -> Tensor:
        h = self.heads
        q, k, v = h.part(self.qkv(x_TD), h.key, h.key, h.value)
        keys = layout
        if memory is not None:
            k, v, keys = memory.extend(k, v, layout)
        seen_THK = attention(
            self.score,
            q,
            k,
            v,
            queries=layout,
            keys=keys,
            sight=self.sight,
            dropout=self.dropout if self.training else 0.0,
            tape=tape,
        )
        return self.o(seen_THK.flatten(1))


class CrossAttention(nn.Module):
    """Queries from a decoder, keys and values from a source of another width perhaps."""

    def __init__(
        self,
        width: int,
        heads: Heads,
        *,
        source_width: int | None = None,
        score: nn.Module | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.score = score or ScaledDot()
        self.q = joined(width, [heads.count * heads.key], bias, INTO_HEADS)
        sizes = (heads.key, heads.value)
        outputs = [heads.count * size for size in sizes]
        self.kv = joined(source_width or width, outputs, bias, INTO_HEADS)
        self.o = joined(heads.count * heads.value, [width], bias)

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        source: Source | None,
        *,
        memory: LayerMemory | None = None,
        tape: Silent = SILENT,
    ) -> Tensor:
        (q,) = self.heads.part(self.q(x_TD), self.heads.key)
        k, v, keys = self.kept(source, memory)
        seen_THK = attention(
            self.score,
            q,
            k,
            v,
            queries=layout,
            keys=keys,
            dropout=self.dropout if self.training else 0.0,
            tape=tape,
        )
        return self.o(seen_THK.flatten(1))

    def kept(self, source: Source | None, memory: LayerMemory | None) -> Kept:
        """Keys and values of the source: computed, or as the memory keeps them."""
        if memory is not None and memory.source is not None:
            return memory.source
        assert source is not None
        k, v = self.heads.part(self.kv(source.states_TD), self.heads.key, self.heads.value)
        return (k, v, source.layout) if memory is None else memory.keep_source(k, v, source.layout)


def joined(inputs: int, outputs: list[int], bias: bool, gain: float = 1.0) -> nn.Linear:
    """Several projections as one matrix, each part initialised as if it stood alone (Glorot)."""
    linear = nn.Linear(inputs, sum(outputs), bias=bias)
    for part in linear.weight.detach().split(outputs):
        nn.init.xavier_uniform_(part, gain)
    if bias:
        torch.nn.init.zeros_(linear.bias)
    return linear
