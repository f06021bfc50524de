"""A Transformer block: self-attention, optional cross-attention, feed-forward; residuals, norms."""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.activation import ACTIVATIONS
from regard.layers.attend import Mask, causal, full
from regard.layers.attention import CrossAttention, EncoderOutput, SelfAttention, fused_linear
from regard.layers.dropout import Dropout, DropPath
from regard.layers.kernels import elementwise
from regard.layers.kv_cache import LayerKVCache


class RMSNorm(nn.Module):
    """Norm x / √(mean(x²) + ε) · g (Zhang & Sennrich, 2019, arXiv:1910.07467, eq. 4)."""

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = None

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": nn.LayerNorm,
    "layer-no-bias": partial(nn.LayerNorm, bias=False),
    "rms": RMSNorm,
}


@dataclass(frozen=True)
class Norm:
    """Kind of a norm, one of ``NORMS``, and its epsilon."""

    kind: str = "layer"
    eps: float = 1e-5

    def build(self, width: int) -> nn.Module:
        """The module of a norm of states of this width."""
        return NORMS[self.kind](width, eps=self.eps)


LAYER_NORM = Norm()


class Mlp(nn.Module):
    """Feed-forward layer, act(xW1 + b1)W2 + b2 (Vaswani et al., 2017, eq. 2).

    If ``gated``, it is (act(xV) ⊙ xW)W2 (Shazeer, 2020, eq. 6: GEGLU, SwiGLU), and ``up`` has V and
    W side by side.
    """

    def __init__(
        self,
        width: int,
        inner: int,
        *,
        activation: str = "relu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        init: str = "xavier",
    ):
        super().__init__()
        self.gated = gated
        self.up = fused_linear(width, [inner] * (1 + gated), bias, init=init)
        self.down = fused_linear(inner, [width], bias, init=init)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x_TD: Tensor, tape: NullTape = NULL_TAPE) -> Tensor:
        return self.down(self.dropout(tape("inner", self._activated(self.up(x_TD)))))

    def _activated(self, inner_TF: Tensor) -> Tensor:
        if not self.gated:
            return self.activation(inner_TF)
        if inner_TF.is_cuda and elementwise.fits(inner_TF):
            return elementwise.gated(inner_TF, self.activation)
        gate_TF, up_TF = inner_TF.chunk(2, dim=-1)
        return self.activation(gate_TF) * up_TF


class Residual(nn.Module):
    """Residual connection: norm(x + f(x)), as in the paper (``post``), or x + f(norm(x)).

    The result of the norm is cast to the precision of f, which is lower under autocast. With
    ``layer_scale``, f(x) is multiplied by a learned vector that starts at that value (Touvron et
    al., 2021, arXiv:2103.17239, equation 8); with ``drop_path`` f(x) is dropped by rows.

    A tape records what the norm returns (``normed``) and x + f(x) (``sum``); with ``last``, the
    result is not recorded here: the block records it as its output.
    """

    def __init__(
        self,
        width: int,
        norm: Norm = LAYER_NORM,
        *,
        post: bool = True,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        layer_scale: float | None = None,
    ):
        super().__init__()
        self.post = post
        self.norm, self.norms = norm.build(width), True
        self.dropout, self.drop_path = Dropout(dropout), DropPath(drop_path)
        scale_D = None if layer_scale is None else torch.full((width,), layer_scale)
        self.layer_scale = None if scale_D is None else nn.Parameter(scale_D)

    def forward(
        self,
        x_TD: Tensor,
        part: Callable[[Tensor], Tensor],
        layout: Layout | None = None,
        *,
        tape: NullTape = NULL_TAPE,
        last: bool = False,
    ) -> Tensor:
        """States after the sublayer ``part``; ``drop_path`` needs the rows of a ``layout``."""
        update_TD = part(self.normed(x_TD, tape))
        added_TD = self.dropout(update_TD)
        if self.layer_scale is not None:
            added_TD = added_TD * self.layer_scale.to(added_TD.dtype)
        if layout is not None:
            added_TD = self.drop_path(added_TD, layout)
        added_TD = x_TD + added_TD
        if self.post or not last:
            added_TD = tape("sum", added_TD)
        if not self.post:
            return added_TD
        normed_TD = self._apply_norm(added_TD)
        normed_TD = normed_TD if last or not self.norms else tape("normed", normed_TD)
        return normed_TD.to(update_TD.dtype)

    def normed(self, x_TD: Tensor, tape: NullTape = NULL_TAPE) -> Tensor:
        """Input of the sublayer."""
        if self.post:
            return x_TD
        normed_TD = self._apply_norm(x_TD)
        return tape("normed", normed_TD) if self.norms else normed_TD

    def _apply_norm(self, x_TD: Tensor) -> Tensor:
        known = x_TD.is_cuda and _norm_name(self.norm) in NORMS
        if known and elementwise.fits(x_TD, *self.norm.parameters()):
            return elementwise.normed(x_TD, self.norm)
        return self.norm(x_TD)


class Block(nn.Module):
    """Transformer layer of an encoder or, with ``cross``, of a decoder.

    ``residual`` builds the residual connection of a sublayer. ``dropout`` applies to the output of
    each sublayer; ``attention_output_dropout`` overrides it for attention. Without ``first_norm``,
    the input of self-attention is not normed.
    """

    def __init__(
        self,
        attention: SelfAttention,
        mlp: Mlp,
        residual: Callable[..., Residual],
        *,
        cross: CrossAttention | None = None,
        dropout: float = 0.0,
        attention_output_dropout: float | None = None,
        first_norm: bool = True,
    ):
        super().__init__()
        rate = dropout if attention_output_dropout is None else attention_output_dropout
        self.attention, self.attention_residual = attention, residual(dropout=rate)
        self.decodes = cross is not None
        if cross is not None:
            self.cross, self.cross_residual = cross, residual(dropout=rate)
        self.mlp, self.mlp_residual = mlp, residual(dropout=dropout)
        if not first_norm:
            self.attention_residual.norm = nn.Identity()
            self.attention_residual.norms = False

    @property
    def traits(self) -> dict[str, set[str | type[nn.Module]]]:
        """Properties that decide what the block computes, by name. Classes stand for themselves.

        An engine that computes blocks by code of its own compares them with the traits it supports,
        so that it refuses whatever is new.
        """
        attentions = [self.attention, self.cross] if self.decodes else [self.attention]
        residuals = [self.attention_residual, self.mlp_residual]
        residuals += [self.cross_residual] if self.decodes else []
        layers = [self.attention.qkv, self.attention.o, self.mlp.up, self.mlp.down]
        heads, activation = self.attention.heads, self.mlp.activation
        return {
            "norm": {_norm_name(residual.norm) for residual in residuals},
            "norm placement": {"post" if residual.post else "pre" for residual in residuals},
            "score": {type(attention.score) for attention in attentions},
            "mask": {_mask_name(attention.mask) for attention in attentions[:1]},
            "cross-attention": {"yes" if self.decodes else "no"},
            "heads": {"some" if attention.heads.count else "none" for attention in attentions},
            "keys": {"one for each head" if heads.kv == heads.count else "one for several heads"},
            "feed-forward": {"gated" if self.mlp.gated else "plain"},
            "activation": {name for name, act in ACTIVATIONS.items() if act is activation},
            "biases": {"yes" if _has_bias(layer) else "no" for layer in layers},
            "layer scale": {"no" if each.layer_scale is None else "yes" for each in residuals},
        }

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
        own, of_source, of_mlp = (tape.under(part) for part in ("attention", "cross", "mlp"))

        def attend_to_self(x: Tensor) -> Tensor:
            return own("output", self.attention(x, layout, cache=cache, tape=own))

        def attend_to_source(x: Tensor) -> Tensor:
            attended = self.cross(x, layout, source, cache=cache, tape=of_source)
            return of_source("output", attended)

        def feed_forward(x: Tensor) -> Tensor:
            return of_mlp("output", self.mlp(x, of_mlp))

        x_TD = self.attention_residual(x_TD, attend_to_self, layout, tape=own)
        if self.decodes:
            x_TD = self.cross_residual(x_TD, attend_to_source, layout, tape=of_source)
        return tape("output", self.mlp_residual(x_TD, feed_forward, layout, tape=of_mlp, last=True))

    def first_tokens(self, x_TD: Tensor, layout: Layout, count: int) -> tuple[Tensor, Layout]:
        """States of the first ``count`` tokens of each row after the block, with their layout.

        Rows must be full. Only keys and values are computed for the other tokens.
        """
        first = Layout.rectangle(layout.rows, count, x_TD.device, start=layout.start or 0)
        first_TD = first.pack(layout.pad(x_TD)[:, :count])
        keys_TD = self.attention_residual.normed(x_TD)
        first_TD = self.attention_residual(
            first_TD, lambda x: self.attention(keys_TD, layout, queries=(x, first)), first
        )
        return self.mlp_residual(first_TD, self.mlp, first), first


def unsupported(block: Block, supported: Mapping[str, Set[str | type[nn.Module]]]) -> Iterator[str]:
    """Traits of a block that are not among the ``supported`` ones of an engine."""
    for name, values in block.traits.items():
        for value in sorted(values - supported.get(name, frozenset()), key=str):
            yield f"{name}: {value if isinstance(value, str) else value.__name__}"


def _has_bias(layer: nn.Module) -> bool:
    """Whether a linear layer has a bias, which packed layers call ``bias_F``."""
    return any(getattr(layer, name, None) is not None for name in ("bias", "bias_F"))


def _norm_name(norm: nn.Module) -> str | type[nn.Module]:
    if norm.__class__ is nn.LayerNorm and norm.weight is not None:
        return "layer" if norm.bias is not None else "layer-no-bias"
    return {RMSNorm: "rms", nn.Identity: "none"}.get(type(norm), type(norm))


def _mask_name(mask: Mask) -> str:
    return "full" if mask == full else "causal" if mask == causal else "window"
