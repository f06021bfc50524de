"""A block: attention, perhaps attention to a source, feed-forward; each in a residual."""

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

    What was normed goes on in the precision of f, which under autocast is the lower one.
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
            said_TD = part(x_TD)
            return self.norm(x_TD + self.dropout(said_TD)).to(said_TD.dtype)
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

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        *,
        source: EncoderOutput | None = None,
        cache: LayerKVCache | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        def look(x: Tensor) -> Tensor:
            inner = tape.under("attention")
            return inner("output", self.attention(x, layout, cache=cache, tape=inner))

        def look_at_source(x: Tensor) -> Tensor:
            inner = tape.under("cross")
            return inner("output", self.cross(x, layout, source, cache=cache, tape=inner))

        def think(x: Tensor) -> Tensor:
            return tape("mlp.output", self.mlp(x))

        x_TD = self.attention_residual(x_TD, look)
        if self.decodes:
            x_TD = self.cross_residual(x_TD, look_at_source)
        return tape("output", self.mlp_residual(x_TD, think))
