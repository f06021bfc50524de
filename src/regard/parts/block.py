"""A Transformer block: self-attention, optional cross-attention, feed-forward; with residuals."""

from collections.abc import Callable

from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.attention import CrossAttention, EncoderOutput, SelfAttention
from regard.parts.dropout import Dropout
from regard.parts.kv_cache import LayerKVCache
from regard.parts.mlp import Mlp


class Residual(nn.Module):
    """norm(x + f(x)), as in the paper ("post"), or x + f(norm(x)) ("pre").

    The result of the norm is cast to the precision of f, which under autocast is the lower one.
    """

    def __init__(self, width: int, *, norm: str = "post", eps: float = 1e-5, dropout: float = 0.0):
        super().__init__()
        if norm not in ("post", "pre"):
            raise ValueError(f"norm is 'post' or 'pre', not {norm!r}")
        self.post = norm == "post"
        self.norm = nn.LayerNorm(width, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, x_TD: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        if self.post:
            update_TD = part(x_TD)
            return self.norm(x_TD + self.dropout(update_TD)).to(update_TD.dtype)
        return x_TD + self.dropout(part(self.norm(x_TD)))


class Block(nn.Module):
    """One layer of an encoder or, given a cross-attention, of a decoder."""

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
    ):
        super().__init__()

        def residual() -> Residual:
            return Residual(width, norm=norm, eps=eps, dropout=dropout)

        self.attention, self.attention_residual = attention, residual()
        self.decodes = cross is not None
        if cross is not None:
            self.cross, self.cross_residual = cross, residual()
        self.mlp, self.mlp_residual = mlp, residual()

    @property
    def residual_outputs(self) -> list[nn.Linear]:
        """The last layer of each sublayer."""
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

        x_TD = self.attention_residual(x_TD, attend_to_self)
        if self.decodes:
            x_TD = self.cross_residual(x_TD, attend_to_source)
        return tape("output", self.mlp_residual(x_TD, feed_forward))
