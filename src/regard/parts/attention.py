"""Multi-head attention (Vaswani et al., 2017, section 3.2): H heads in parallel, joined by W_O."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.attend import Mask, ScaledDot, attend, full
from regard.parts.kernels.fast_attend import fast_attend
from regard.parts.kv_cache import KeyValues, LayerKVCache

# Flatter scores at first: with 1.0, post-norm stacks often never learn to attend to the source.
INTO_HEADS = 1 / math.sqrt(2)


class EncoderOutput(NamedTuple):
    """States of an encoder, with their layout.

    ``ends`` are the final states of the layers of a recurrent encoder, (B, width) each;
    ``undropped_TD`` are its states before the last dropout. ``state`` is the state that a stateful
    trunk carries to the next batch.
    """

    states_TD: Tensor
    layout: Layout
    ends: Sequence[tuple[Tensor, ...]] | None = None
    state: object = None
    undropped_TD: Tensor | None = None

    def to(self, dtype: torch.dtype) -> "EncoderOutput":
        """Convert the states to another precision."""
        return self._replace(states_TD=self.states_TD.to(dtype))


@dataclass(frozen=True)
class Heads:
    """Number of heads, and sizes of their keys and values."""

    count: int
    key: int
    value: int

    @classmethod
    def of(cls, width: int, count: int, key: int | None = None, value: int | None = None) -> Self:
        """Heads of a width; sizes default to the width divided by the number of heads."""
        if key is None and width % count:
            raise ValueError(f"a width of {width} is not divisible by {count} heads")
        key = width // count if key is None else key
        return cls(count, key, key if value is None else value)

    def part(self, x_TD: Tensor, *sizes: int) -> list[Tensor]:
        """Split (T, ΣH·K) into one (T, H, K) per size."""
        parts = x_TD.split([self.count * size for size in sizes], dim=-1)
        return [part.unflatten(-1, (self.count, -1)) for part in parts]


class HeadsModule(nn.Module):
    """Base class of self- and cross-attention: heads with one score, joined by ``o``."""

    o: nn.Linear
    mask: Mask = full

    def __init__(self, heads: Heads, score: nn.Module | None, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.score = score or ScaledDot()

    def join(
        self, q: Tensor, k: Tensor, v: Tensor, queries: Layout, keys: Layout, tape: NullTape
    ) -> Tensor:
        """Concatenate the weighted values of all heads, and project them."""
        recorded = tape.wants("scores", "weights")  # which kernels do not return
        run = partial(attend, tape=tape) if recorded else fast_attend
        rate, mask = self.dropout if self.training else 0.0, self.mask
        attended_THK = run(self.score, q, k, v, queries=queries, keys=keys, mask=mask, dropout=rate)
        return self.o(attended_THK.flatten(1))


class SelfAttention(HeadsModule):
    """Self-attention: queries, keys and values are projections of the same tokens."""

    def __init__(
        self,
        width: int,
        heads: Heads,
        *,
        score: nn.Module | None = None,
        mask: Mask = full,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__(heads, score, dropout)
        self.mask = mask
        sizes = (heads.key, heads.key, heads.value)
        self.qkv = fused_linear(width, [heads.count * size for size in sizes], bias, INTO_HEADS)
        self.o = fused_linear(heads.count * heads.value, [width], bias)

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        *,
        queries: tuple[Tensor, Layout] | None = None,
        cache: LayerKVCache | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        """Attention of each token, or of ``queries`` only: states of some tokens of each row."""
        h, keys = self.heads, layout
        if queries is not None:
            return self._attend_from(*queries, x_TD, layout, tape)
        q, k, v = h.part(self.qkv(x_TD), h.key, h.key, h.value)
        if cache is not None:
            k, v, keys = cache.extend(k, v, layout)
        return self.join(q, k, v, layout, keys, tape)

    def _attend_from(
        self, x_TD: Tensor, queries: Layout, keys_TD: Tensor, keys: Layout, tape: NullTape
    ) -> Tensor:
        """Attention of queries to all tokens, by parts of the ``qkv`` matrix."""
        h = self.heads
        sizes = [h.count * h.key, h.count * (h.key + h.value)]
        parts = (part.split(sizes) for part in self.qkv.parameters())
        of_queries, of_keys = zip(*parts, strict=True)
        (q,) = h.part(F.linear(x_TD, *of_queries), h.key)
        k, v = h.part(F.linear(keys_TD, *of_keys), h.key, h.value)
        return self.join(q, k, v, queries, keys, tape)


class CrossAttention(HeadsModule):
    """Cross-attention: queries from decoder states, keys and values from encoder states."""

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
        super().__init__(heads, score, dropout)
        keys, values = heads.count * heads.key, heads.count * heads.value
        self.q = fused_linear(width, [keys], bias, INTO_HEADS)
        self.kv = fused_linear(source_width or width, [keys, values], bias, INTO_HEADS)
        self.o = fused_linear(heads.count * heads.value, [width], bias)

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        source: EncoderOutput | None,
        *,
        cache: LayerKVCache | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        (q,) = self.heads.part(self.q(x_TD), self.heads.key)
        k, v, keys = self.source_key_values(source, cache)
        return self.join(q, k, v, layout, keys, tape)

    def source_key_values(
        self, source: EncoderOutput | None, cache: LayerKVCache | None
    ) -> KeyValues:
        """Keys and values of the source, from the cache or computed."""
        if cache is not None and cache.source is not None:
            return cache.source
        assert source is not None
        k, v = self.heads.part(self.kv(source.states_TD), self.heads.key, self.heads.value)
        return (k, v, source.layout) if cache is None else cache.store_source(k, v, source.layout)


def fused_linear(inputs: int, outputs: list[int], bias: bool, gain: float = 1.0) -> nn.Linear:
    """Linear layer of several projections, each initialised on its own (Glorot)."""
    linear = nn.Linear(inputs, sum(outputs), bias=bias)
    for part in linear.weight.detach().split(outputs):
        nn.init.xavier_uniform_(part, gain)
    if bias:
        torch.nn.init.zeros_(linear.bias)
    return linear
