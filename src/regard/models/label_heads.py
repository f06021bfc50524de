"""Heads of encoders: masked LM; classification and regression of rows or tokens; choices; spans."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.activation import ACTIVATIONS
from regard.layers.attention import EncoderOutput
from regard.layers.block import Norm
from regard.layers.dropout import Dropout
from regard.models.facts import at_least, one_of, share
from regard.models.heads import AnyHead, Inputs, read_rows, tie
from regard.models.trunk import Trunk


def read_spans(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """All states, with the given positions of tokens and their context; None without positions."""
    return None if at is None else (encoded.states_TD, at)


@dataclass(frozen=True)
class MLMHead(AnyHead):
    """Masked-LM head (Devlin et al., 2018): dense layer, activation, norm, output layer.

    ``tied``: the output layer shares the token vectors. ``dense_activation`` defaults to the
    stack's activation; ``dense_bias`` and ``bias`` are of the dense and of the output layer.
    """

    name: ClassVar[str] = "mlm"
    records: ClassVar[bool] = True
    names_tokens: ClassVar[bool] = True
    tied: bool = True
    dense_activation: str | None = None
    dense_bias: bool = True
    bias: bool = True

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "MLMHeadModule":
        module = MLMHeadModule(self, trunk, width)
        if self.tied:
            tie(module.out, tokens)
        return module

    def macs(self, trunk: Trunk, width: int) -> int:
        return trunk.token_width * (width + trunk.embed.vocab)


class MLMHeadModule(nn.Module):
    """Module of the masked-LM head: logits of all tokens at each position."""

    def __init__(self, head: MLMHead, trunk: Trunk, width: int):
        super().__init__()
        self.dense = nn.Linear(width, trunk.token_width, bias=head.dense_bias)
        self.activation = ACTIVATIONS[head.dense_activation or trunk.stack.activation]
        self.norm = trunk.stack.norm_settings.build(trunk.token_width)
        self.out = nn.Linear(trunk.token_width, trunk.embed.vocab, bias=head.bias)

    def forward(self, states_ND: Tensor, *, tape: NullTape = NULL_TAPE) -> Tensor:
        dense_ND = tape("dense", self.activation(self.dense(states_ND)))
        return self.out(tape("norm", self.norm(dense_ND)))


@dataclass(frozen=True)
class DenseLayer:
    """Dense layer before the output layer of a head.

    With ``dense_norm``, a norm follows the activation, dropout is on the norm's output only, and
    new weights of the output layer have a standard deviation of 1/√width (ModernBERT).
    """

    dense_activation: str
    dense_bias: bool = True
    dense_norm: bool = False


class LinearHead(AnyHead):
    """Base class of heads with one linear layer with ``outputs``, and ``dropout`` on its input.

    With ``dense``, an activation such as "tanh", a dense layer comes before it (RoBERTa), also with
    dropout, unless ``last_only`` (DistilBERT); a ``DenseLayer`` has other settings.
    """

    records: ClassVar[bool] = True
    outputs: int
    dropout: float = 0.0
    dense: str | DenseLayer | None = None
    last_only: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        at_least(1, self, "outputs")
        share(self, "dropout")
        if self.dense_layer is not None:
            one_of(ACTIVATIONS, "activation", self.dense_layer.dense_activation)

    @property
    def dense_layer(self) -> DenseLayer | None:
        """The dense layer, or None."""
        return DenseLayer(self.dense) if isinstance(self.dense, str) else self.dense

    def output_std(self, width: int) -> float | None:
        normed = self.dense_layer is not None and self.dense_layer.dense_norm
        return width**-0.5 if normed else None

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "LinearHeadModule":
        return LinearHeadModule(self, width, trunk.stack.norm_settings)

    def macs(self, trunk: Trunk, width: int) -> int:
        return width * ((0 if self.dense is None else width) + self.outputs)


class LinearHeadModule(nn.Module):
    """Module of linear heads: logits of each row or token."""

    def __init__(self, head: LinearHead, width: int, norm: Norm):
        super().__init__()
        dense = head.dense_layer or DenseLayer("relu")
        last_only = head.last_only or dense.dense_norm
        self.dropout = Dropout(head.dropout)
        self.dense_dropout = Dropout(0.0 if last_only else head.dropout)
        self.dense = None if head.dense is None else nn.Linear(width, width, bias=dense.dense_bias)
        self.activation = ACTIVATIONS[dense.dense_activation]
        self.normed = dense.dense_norm
        self.norm = norm.build(width) if self.normed else nn.Identity()
        self.out = nn.Linear(width, head.outputs, bias=head.bias)

    def forward(self, states_ND: Tensor, *, tape: NullTape = NULL_TAPE) -> Tensor:
        if self.dense is not None:
            dense_ND = self.activation(self.dense(self.dense_dropout(states_ND)))
            states_ND = self.norm(tape("dense", dense_ND))
            states_ND = tape("norm", states_ND) if self.normed else states_ND
        return self.out(self.dropout(states_ND))


class RowHead(LinearHead):
    """Base class of linear heads over the pooled states of rows."""

    per_row: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_rows)


@dataclass(frozen=True)
class SentencePairHead(RowHead):
    """Linear head that predicts whether the second text of a row follows the first."""

    name: ClassVar[str] = "sentence_pair"
    logits_order: ClassVar[int | None] = 1
    classes: ClassVar[tuple[str, str]] = ("IsNext", "NotNext")
    outputs: ClassVar[int] = 2  # type: ignore[misc]


@dataclass(frozen=True)
class LabelHead(RowHead):
    """Linear head that predicts a label, or a number, for each row."""

    name: ClassVar[str] = "label"
    outputs: int
    dropout: float = 0.0
    dense: str | DenseLayer | None = None
    last_only: bool = False
    bias: bool = True


@dataclass(frozen=True)
class TokenLabelHead(LinearHead):
    """Linear head that predicts a label, or a number, for each token."""

    name: ClassVar[str] = "token_label"
    outputs: int
    dropout: float = 0.0
    dense: str | DenseLayer | None = None


@dataclass(frozen=True)
class TransitionHead(AnyHead):
    """Head with the transition scores of a CRF between labels, and at both ends of a row."""

    name: ClassVar[str] = "transition"
    logits_order: ClassVar[int | None] = None
    outputs: int

    def __post_init__(self) -> None:
        at_least(1, self, "outputs")

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "TransitionHeadModule":
        return TransitionHeadModule(self)

    def macs(self, trunk: Trunk, width: int) -> int:
        return 0


class TransitionHeadModule(nn.Module):
    """Table of transition scores of a CRF, which does not depend on the states."""

    def __init__(self, head: TransitionHead):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(head.outputs + 2, head.outputs))

    def forward(self, states_ND: Tensor) -> Tensor:
        return self.table.float()


@dataclass(frozen=True)
class ChoiceHead(RowHead):
    """Linear head with one score for each row, by which the choices of a question are compared."""

    name: ClassVar[str] = "choice"
    logits_order: ClassVar[int | None] = 1
    outputs: ClassVar[int] = 1  # type: ignore[misc]
    dropout: float = 0.0
    dense: str | DenseLayer | None = None
    last_only: bool = False


@dataclass(frozen=True)
class SpanHead(LinearHead):
    """Linear head that scores each token as the first and as the last token of a span."""

    name: ClassVar[str] = "span"
    outputs: ClassVar[int] = 2  # type: ignore[misc]


@dataclass(frozen=True)
class DropoutSpanHead(SpanHead):
    """Span head with dropout (DistilBERT's form), and a dense layer (ModernBERT's)."""

    dropout: float = 0.0
    dense: str | DenseLayer | None = None
