"""Heads: the base class, and those that name tokens; label_heads.py has the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.models.pools import AnyPool
from regard.models.trunk import AnyStack, Trunk
from regard.parts.attention import EncoderOutput

ALIGNED = 64
Inputs = tuple[Tensor | Layout | None, ...] | None  # of the module of a head; None: it does not run


def read_tokens(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """The states of the tokens at the given positions, by default of all tokens."""
    return (encoded.states_TD if at is None else encoded.states_TD[at],)


def read_spans(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """All states, and positions around and in spans; nothing without positions."""
    return None if at is None else (encoded.states_TD, at)


def read_rows(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """The pooled state of each row."""
    return (pooled_BD,)


@dataclass(frozen=True)
class AnyHead:
    """Base class of heads, with defaults.

    A head's ``name`` stands in state dicts, tape paths and outputs. Its module is called with what
    ``read`` gives, from the states of tokens, the pooled states of rows (heads ``per_row``) and the
    positions that the head predicts; a head that ``reads_queries`` needs a stack that computes
    states of predicted tokens. A head with several output layers predicts the mean of their logits;
    outputs have the logits of each layer, (count, N, V), under ``layers_name``. A head that
    ``names_tokens`` needs a trunk with a vocabulary. With an ``eager`` head, a model is neither
    compiled nor captured, and no rows fill its batches up.
    """

    name: ClassVar[str]
    per_row: ClassVar[bool] = False
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_tokens)
    reads_queries: ClassVar[bool] = False
    layers_name: ClassVar[str] = ""
    names_tokens: ClassVar[bool] = False
    eager: ClassVar[bool] = False
    logits_order: ClassVar[int | None] = 0  # the lowest gives a model's logits; None: none

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> nn.Module:
        """The module over that trunk, whose token vectors it may share.

        It reads states of tokens, or of rows, of size ``width``.
        """
        raise NotImplementedError

    def macs(self, trunk: Trunk, width: int) -> int:
        """MACs for each row or token that it reads."""
        raise NotImplementedError


@dataclass(frozen=True)
class PaperHead:
    """A head in the form that a paper has, and the ``pool`` under it, if that is not the model's.

    ``from_stack``: its fields that have the values of the stack, by their names there.
    """

    head: AnyHead
    pool: AnyPool | None = field(default=None, kw_only=True)
    from_stack: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def fit(self, head: AnyHead, stack: AnyStack) -> AnyHead:
        """The form with as many outputs as a ``head`` has, over states of a stack."""
        changes = {name: getattr(stack, theirs) for name, theirs in self.from_stack.items()}
        changes |= {name: value for name, value in vars(head).items() if name == "outputs"}
        return replace(self.head, **changes) if changes else self.head


@dataclass(frozen=True)
class NextTokenHead(AnyHead):
    """The next token, by a vector for each token of the vocabulary.

    ``tied``: these are the token vectors of the embedding. ``bias`` adds one number per token.
    """

    name: ClassVar[str] = "next_token"
    names_tokens: ClassVar[bool] = True
    tied: bool = True
    bias: bool = False

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "VocabularyLinear":
        module = VocabularyLinear(width, trunk.embed.vocab, bias=self.bias)
        if self.bias:
            nn.init.zeros_(module.bias)
        if self.tied:
            tie(module, tokens)
        return module

    def macs(self, trunk: Trunk, width: int) -> int:
        return width * trunk.embed.vocab


class VocabularyLinear(nn.Linear):
    """A logit for each token of the vocabulary.

    Compiled, and in training on CUDA, the vocabulary is padded to a multiple of ``ALIGNED`` by
    tokens with a logit of -inf: in half precision the fast products of CUDA, also those of the
    gradients, need rows of a multiple of 16 bytes. The weights are those of the vocabulary, and so
    are the logits of an exported model.
    """

    def forward(self, states_ND: Tensor) -> Tensor:
        padding = -self.out_features % ALIGNED
        on_cuda = self.training and states_ND.is_cuda
        if not padding or not (on_cuda or torch.compiler.is_dynamo_compiling()):
            return super().forward(states_ND)
        bias_V = self.weight.new_zeros(self.out_features) if self.bias is None else self.bias
        weight_FD = F.pad(self.weight, (0, 0, 0, padding))
        return F.linear(states_ND, weight_FD, F.pad(bias_V, (0, padding), value=-torch.inf))


def tie(output: nn.Linear, tokens: nn.Embedding) -> None:
    """Share the token vectors with the output layer."""
    if output.weight.shape != tokens.weight.shape:
        raise ValueError("output and token vectors can be tied only if their shapes agree")
    output.weight = tokens.weight
