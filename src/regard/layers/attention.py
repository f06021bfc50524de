"""Multi-head attention (Vaswani et al., 2017, section 3.2): H heads in parallel, joined by W_O."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attend import Mask, ScaledDot, Score, attend, full
from regard.layers.kernels.fast_attend import fast_attend
from regard.layers.kv_cache import KeyValues, LayerKVCache

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
    """Number of heads, sizes of their keys and values, and number of heads of keys and values.

    With fewer heads of keys (``kv``), each serves a group of queries (Ainslie et al., 2023).
    """

    count: int
    key: int
    value: int
    kv: int

    @classmethod
    def of(
        cls,
        width: int,
        count: int,
        key: int | None = None,
        value: int | None = None,
        kv: int | None = None,
    ) -> Self:
        """Heads of a width; sizes default to the width divided by the number of heads."""
        if key is None and width % count:
            raise ValueError(f"a width of {width} is not divisible by {count} heads")
        key = width // count if key is None else key
        return cls(count, key, key if value is None else value, count if kv is None else kv)

    @property
    def queries(self) -> int:
        """Size of the queries of all heads."""
        return self.count * self.key

    @property
    def keys(self) -> int:
        """Size of the keys of all heads."""
        return self.kv * self.key

    @property
    def values(self) -> int:
        """Size of the values of all heads."""
        return self.kv * self.value

    def split_queries(self, x_TD: Tensor) -> Tensor:
        """Queries of each head, (T, H, K)."""
        return x_TD.unflatten(-1, (self.count, self.key))

    def split_keys(self, x_TD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of each head, (T, H, K), which lie side by side."""
        k_TD, v_TD = x_TD.split([self.keys, self.values], dim=-1)
        return (k_TD.unflatten(-1, (self.kv, self.key)), v_TD.unflatten(-1, (self.kv, self.value)))

    def split_values(self, x_TD: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys of all heads, (T, H, K), and values, which lie side by side."""
        qk_TD, v_TD = x_TD.split([self.queries + self.keys, self.values], dim=-1)
        return qk_TD.unflatten(-1, (-1, self.key)), v_TD.unflatten(-1, (self.kv, self.value))

    def split(self, x_TD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of each head, (T, H, K), which lie side by side."""
        q_TD, kv_TD = x_TD.split([self.queries, self.keys + self.values], dim=-1)
        return (self.split_queries(q_TD), *self.split_keys(kv_TD))


class HeadsModule(nn.Module):
    """Base class of self- and cross-attention: heads with one score, joined by ``o``."""

    o: nn.Linear
    mask: Mask = full

    def __init__(self, heads: Heads, score: Score | None, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.score: Score = score or ScaledDot()

    def _build_output(self, width: int, bias: bool, init: str) -> nn.Linear:
        return fused_linear(self.heads.count * self.heads.value, [width], bias, init=init)

    def _shrink_queries(self, projection: nn.Linear) -> None:
        """Begin with smaller queries if the score does not divide by √K."""
        if not self.score.scaled:
            with torch.no_grad():
                projection.weight[: self.heads.queries] /= math.sqrt(self.heads.key)

    def output_bias(self, x_TD: Tensor) -> Tensor:
        """Output for each token where all heads were removed: the bias of the last projection."""
        return self.o(x_TD[:, :0].to(self.o.weight.dtype)).to(x_TD.dtype)

    def join(
        self, q: Tensor, k: Tensor, v: Tensor, queries: Layout, keys: Layout, tape: NullTape
    ) -> Tensor:
        """Concatenate the weighted values of all heads, and project them."""
        q, k, v = tape("queries", q), tape("keys", k), tape("values", v)
        # Kernels do not return these values.
        recorded = tape.wants("scores", "mask", "weights", *self.score.terms)
        run = partial(attend, tape=tape) if recorded else fast_attend
        rate, mask = self.dropout if self.training else 0.0, self.mask
        attended_THK = run(self.score, q, k, v, queries=queries, keys=keys, mask=mask, dropout=rate)
        return self.o(tape("head_outputs", attended_THK).flatten(1))


class SelfAttention(HeadsModule):
    """Self-attention: queries, keys and values are projections of the same tokens.

    ``bias`` is of these projections, ``output_bias`` (default: as ``bias``) of the last one.
    """

    def __init__(
        self,
        width: int,
        heads: Heads,
        *,
        score: Score | None = None,
        mask: Mask = full,
        dropout: float = 0.0,
        bias: bool = True,
        output_bias: bool | None = None,
        init: str = "xavier",
    ):
        super().__init__(heads, score, dropout)
        self.mask = mask
        sizes = [heads.queries, heads.keys, heads.values]
        self.qkv = fused_linear(width, sizes, bias, INTO_HEADS, init)
        self._shrink_queries(self.qkv)
        self.o = self._build_output(width, bias if output_bias is None else output_bias, init)

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
        keys = layout
        if not self.heads.count:
            return self.output_bias(x_TD if queries is None else queries[0])
        if queries is not None:
            return self._attend_from(*queries, x_TD, layout, tape)
        qk, v = self.heads.split_values(self.qkv(x_TD))
        if self.score.places and tape.wants("unturned_queries", "unturned_keys"):
            qk = self._unturned(qk, tape)
        q, k = self.score.place(qk, layout).split([self.heads.count, self.heads.kv], dim=1)
        if cache is not None:
            k, v, keys = cache.extend(k, v, layout)
        return self.join(q, k, v, layout, keys, tape)

    def _unturned(self, qk_THK: Tensor, tape: NullTape) -> Tensor:
        """Queries and keys on a tape, before they are turned by their positions."""
        q_THK, k_THK = qk_THK.split([self.heads.count, self.heads.kv], dim=1)
        return torch.cat([tape("unturned_queries", q_THK), tape("unturned_keys", k_THK)], dim=1)

    def _attend_from(
        self, x_TD: Tensor, queries: Layout, keys_TD: Tensor, keys: Layout, tape: NullTape
    ) -> Tensor:
        """Attention of queries to all tokens, by parts of the ``qkv`` matrix."""
        h = self.heads
        parts = (part.split([h.queries, h.keys + h.values]) for part in self.qkv.parameters())
        of_queries, of_keys = zip(*parts, strict=True)
        q = self.score.place(h.split_queries(F.linear(x_TD, *of_queries)), queries)
        k, v = h.split_keys(F.linear(keys_TD, *of_keys))
        return self.join(q, self.score.place(k, keys), v, queries, keys, tape)


class CrossAttention(HeadsModule):
    """Cross-attention: queries from decoder states, keys and values from encoder states."""

    def __init__(
        self,
        width: int,
        heads: Heads,
        *,
        source_width: int | None = None,
        score: Score | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        output_bias: bool | None = None,
        init: str = "xavier",
    ):
        super().__init__(heads, score, dropout)
        sizes = [heads.keys, heads.values]
        self.q = fused_linear(width, [heads.queries], bias, INTO_HEADS, init)
        self.kv = fused_linear(source_width or width, sizes, bias, INTO_HEADS, init)
        self._shrink_queries(self.q)
        self.o = self._build_output(width, bias if output_bias is None else output_bias, init)

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        source: EncoderOutput | None,
        *,
        cache: LayerKVCache | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        if not self.heads.count:
            return self.output_bias(x_TD)
        q = self.heads.split_queries(self.q(x_TD))
        k, v, keys = self.source_key_values(source, cache)
        return self.join(q, k, v, layout, keys, tape)

    def source_key_values(
        self, source: EncoderOutput | None, cache: LayerKVCache | None
    ) -> KeyValues:
        """Keys and values of the source, from the cache or computed."""
        if cache is not None and cache.source is not None:
            return cache.source
        assert source is not None
        k, v = self.heads.split_keys(self.kv(source.states_TD))
        return (k, v, source.layout) if cache is None else cache.store_source(k, v, source.layout)


def xavier(weight_FD: Tensor, gain: float) -> None:
    """Initialise a matrix by a uniform distribution of deviation gain · √(2 / (F + D)) (Glorot)."""
    nn.init.xavier_uniform_(weight_FD, gain)


def fan_in(weight_FD: Tensor, gain: float) -> None:
    """Initialise a matrix by a normal distribution of deviation 1/√D (T5); it has no ``gain``."""
    nn.init.normal_(weight_FD, std=weight_FD.shape[1] ** -0.5)


INITS: Mapping[str, Callable[[Tensor, float], None]] = MappingProxyType(
    {"xavier": xavier, "fan-in": fan_in}
)


def fused_linear(
    inputs: int, outputs: list[int], bias: bool, gain: float = 1.0, init: str = "xavier"
) -> nn.Linear:
    """Linear layer of several projections, each initialised on its own by one of ``INITS``."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Initializing zero-element tensors")  # no heads
        linear = nn.Linear(inputs, sum(outputs), bias=bias)
    for part in linear.weight.detach().split(outputs) if linear.weight.numel() else ():
        INITS[init](part, gain)
    if bias:
        torch.nn.init.zeros_(linear.bias)
    return linear
