"""The feed-forward layer of a block: act(xW1 + b1)W2 + b2, for each token."""

from torch import Tensor, nn

from regard.parts.activation import ACTIVATIONS
from regard.parts.attention import fused_linear
from regard.parts.dropout import Dropout


class Mlp(nn.Module):
    """Vaswani et al., 2017, eq. 2, with a choice of activation."""

    def __init__(self, width: int, inner: int, *, activation: str = "relu", dropout: float = 0.0):
        super().__init__()
        self.up = fused_linear(width, [inner], bias=True)
        self.down = fused_linear(inner, [width], bias=True)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x_TD: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x_TD))))
