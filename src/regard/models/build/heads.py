"""Modules of heads: from states of tokens, or from pooled states of rows, to logits."""

from collections.abc import Callable

from torch import Tensor, nn

from regard.parts.dropout import Dropout


class MLMHeadModule(nn.Module):
    """Dense layer, activation, norm, and a vector of ``size`` for each token of the vocabulary."""

    def __init__(
        self,
        width: int,
        size: int,
        vocab: int,
        activation: Callable[[Tensor], Tensor],
        eps: float,
    ):
        super().__init__()
        self.dense = nn.Linear(width, size)
        self.activation = activation
        self.norm = nn.LayerNorm(size, eps=eps)
        self.out = nn.Linear(size, vocab)

    def forward(self, states_ND: Tensor) -> Tensor:
        return self.out(self.norm(self.activation(self.dense(states_ND))))


class LinearHeadModule(nn.Module):
    """Dropout and a linear layer; with an ``activation``, a dense layer before it.

    ``dense_dropout`` is that of the input of the dense layer.
    """

    def __init__(
        self,
        width: int,
        outputs: int,
        dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] | None = None,
        dense_dropout: float = 0.0,
    ):
        super().__init__()
        self.dropout, self.dense_dropout = Dropout(dropout), Dropout(dense_dropout)
        self.activation = activation
        self.dense = None if activation is None else nn.Linear(width, width)
        self.out = nn.Linear(width, outputs)

    def forward(self, states_ND: Tensor) -> Tensor:
        if self.dense is not None and self.activation is not None:
            states_ND = self.activation(self.dense(self.dense_dropout(states_ND)))
        return self.out(self.dropout(states_ND))
