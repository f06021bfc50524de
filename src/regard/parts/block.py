"""A Transformer block: self-attention, optional cross-attention, feed-forward; with residuals."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.activation import ACTIVATIONS
from regard.parts.attention import CrossAttention, EncoderOutput, SelfAttention, fused_linear
from regard.parts.dropout import Dropout, DropPath
from regard.parts.kv_cache import LayerKVCache


class Mlp(nn.Module):
    """Feed-forward layer, act(xW1 + b1)W2 + b2 (Vaswani et al., 2017, eq. 2)."""

    def __init__(self, width: int, inner: int, *, activation: str = "relu", dropout: float = 0.0):
        super().__init__()
        self.up = fused_linear(width, [inner], bias=True)
        self.down = fused_linear(inner, [width], bias=True)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x_TD: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x_TD))))


class Residual(nn.Module):
    """Residual connection: norm(x + f(x)), as in the paper ("post"), or x + f(norm(x)) ("pre").

    The result of the norm is cast to the precision of f, which is lower under autocast. With
    ``layer_scale``, f(x) is multiplied by a learned vector that starts at that value (Touvron et
    al., 2021, arXiv:2103.17239, equation 8); with ``drop_path`` f(x) is dropped by rows.
    """

    def __init__(
        self,
        width: int,
        *,
        norm: str = "post",
        eps: float = 1e-5,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        layer_scale: float | None = None,
    ):
        super().__init__()
        if norm not in ("post", "pre"):
            raise ValueError(f"norm must be 'post' or 'pre', not {norm!r}")
        self.post = norm == "post"
        self.norm = nn.LayerNorm(width, eps=eps)
        self.dropout, self.drop_path = Dropout(dropout), DropPath(drop_path)
        scale_D = None if layer_scale is None else torch.full((width,), layer_scale)
        self.layer_scale = None if scale_D is None else nn.Parameter(scale_D)

    def forward(
        self, x_TD: Tensor, part: Callable[[Tensor], Tensor], layout: Layout | None = None
    ) -> Tensor:
        """States after the sublayer ``part``; ``drop_path`` needs the rows of a ``layout``."""
        update_TD = part(self.normed(x_TD))
        added_TD = self.dropout(update_TD)
        if self.layer_scale is not None:
            added_TD = added_TD * self.layer_scale.to(added_TD.dtype)
        if layout is not None:
            added_TD = self.drop_path(added_TD, layout)
        return self.norm(x_TD + added_TD).to(update_TD.dtype) if self.post else x_TD + added_TD

    def normed(self, x_TD: Tensor) -> Tensor:
        """Input of the sublayer."""
        return x_TD if self.post else self.norm(x_TD)


class Block(nn.Module):
    """Transformer layer of an encoder or, with ``cross``, of a decoder.

    ``dropout`` applies to the output of each sublayer; ``attention_output_dropout`` overrides it
    for attention.
    """

    def __init__(
        self,
        width: int,
        attention: SelfAttention,
        mlp: Mlp,
        *,
        cross: CrossAttention | None = None,
        norm: str = "post",
        eps: float = 1e-5,
        dropout: float = 0.0,
        attention_output_dropout: float | None = None,
        drop_path: float = 0.0,
        layer_scale: float | None = None,
    ):
        super().__init__()
        rate = dropout if attention_output_dropout is None else attention_output_dropout
        residual = partial(
            Residual, width, norm=norm, eps=eps, drop_path=drop_path, layer_scale=layer_scale
        )
        self.attention, self.attention_residual = attention, residual(dropout=rate)
        self.decodes = cross is not None
        if cross is not None:
            self.cross, self.cross_residual = cross, residual(dropout=rate)
        self.mlp, self.mlp_residual = mlp, residual(dropout=dropout)

    @property
    def residual_outputs(self) -> list[nn.Linear]:
        """Last linear layer of each sublayer."""
        cross = [self.cross.o] if self.decodes else []
        return [self.attention.o, *cross, self.mlp.down]

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        *,
        source: EncoderOutput | None = None,
        cache: LayerKVCache | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        def attend_to_self(x: Tensor) -> Tensor:
            inner = tape.under("attention")
            return inner("output", self.attention(x, layout, cache=cache, tape=inner))

        def attend_to_source(x: Tensor) -> Tensor:
            inner = tape.under("cross")
            return inner("output", self.cross(x, layout, source, cache=cache, tape=inner))

        def feed_forward(x: Tensor) -> Tensor:
            return tape("mlp.output", self.mlp(x))

        x_TD = self.attention_residual(x_TD, attend_to_self, layout)
        if self.decodes:
            x_TD = self.cross_residual(x_TD, attend_to_source, layout)
        return tape("output", self.mlp_residual(x_TD, feed_forward, layout))

    def first_tokens(self, x_TD: Tensor, layout: Layout, count: int) -> tuple[Tensor, Layout]:
        """States of the first ``count`` tokens of each row after the block, with their layout.

        Rows must be full. Only keys and values are computed for the other tokens.
        """
        first = Layout.rectangle(layout.rows, count, x_TD.device, start=layout.start or 0)
        first_TD = first.pack(layout.pad(x_TD)[:, :count])
        keys_TD = self.attention_residual.normed(x_TD)

        def attend_to_all(x: Tensor) -> Tensor:
            return self.attention(keys_TD, layout, queries=(x, first))

        first_TD = self.attention_residual(first_TD, attend_to_all, first)
        return self.mlp_residual(first_TD, self.mlp, first), first
