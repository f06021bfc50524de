"""Heads: the base class, the forms that papers give them, and the next-token head."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NullTape
from regard.layers.attention import EncoderOutput
from regard.models.pools import AnyPool
from regard.models.trunk import AnyStack, Trunk

ALIGNED = 64
Inputs = tuple[Tensor | Layout | None, ...] | None  # of a head's module; None: it does not run
Named = dict[str, Tensor]  # outputs of heads


def read_tokens(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """The states of the tokens at the given positions; default: of all tokens."""
    return (encoded.states_TD if at is None else encoded.states_TD[at],)


def read_rows(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """The pooled state of each row."""
    return (pooled_BD,)


@dataclass(frozen=True)
class AnyHead:
    """Base class of heads, with defaults.

    ``name`` is the name of a head in state dicts, tape paths and outputs. The module of a head that
    ``records`` puts values before its logits on a tape. ``read`` selects the
    inputs of its module: states of tokens at positions, or pooled states (``per_row``); a head that
    ``reads_queries`` reads the query stream of a stack. A head that ``names_tokens`` needs a
    vocabulary. With an ``eager`` head, a model is neither compiled nor captured, and its batches
    are not padded. A head that ``needs_positions`` runs only where positions are given. The
    outputs of a head that ``joins_rows`` can be concatenated row by row.
    """

    name: ClassVar[str]
    per_row: ClassVar[bool] = False
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_tokens)
    records: ClassVar[bool] = False
    reads_queries: ClassVar[bool] = False
    names_tokens: ClassVar[bool] = False
    eager: ClassVar[bool] = False
    needs_positions: ClassVar[bool] = False
    joins_rows: ClassVar[bool] = True
    classes: ClassVar[tuple[str, ...]] = ()  # names of the outputs, if the head has its own
    logits_order: ClassVar[int | None] = 0  # the head with the lowest is the default; None: never

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> nn.Module:
        """Build the module over states of size ``width``; it may share the token vectors."""
        raise NotImplementedError

    def run(self, module: nn.Module, inputs: Sequence[object], tape: NullTape) -> Named:
        """Run the module of the head; return its outputs by name, with its logits last."""
        more = {"tape": tape} if self.records else {}
        return {self.name: tape("logits", module(*inputs, **more))}

    def output_std(self, width: int) -> float | None:
        """Standard deviation of new weights of the output layer, if it is not that of the model."""
        return None

    def macs(self, trunk: Trunk, width: int) -> int:
        """MACs for each row or token that the head reads."""
        raise NotImplementedError


@dataclass(frozen=True)
class PaperHead:
    """Head in a paper's form, optionally with its own ``pool`` and fields copied ``from_stack``."""

    head: AnyHead
    pool: AnyPool | None = field(default=None, kw_only=True)
    from_stack: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def fit(self, head: AnyHead, stack: AnyStack) -> AnyHead:
        """Return the paper's form with the number of outputs of ``head``, for a stack."""
        changes = {name: getattr(stack, theirs) for name, theirs in self.from_stack.items()}
        changes |= {name: value for name, value in vars(head).items() if name == "outputs"}
        return replace(self.head, **changes) if changes else self.head


@dataclass(frozen=True)
class NextTokenHead(AnyHead):
    """Next-token head: an output layer that shares the token vectors if ``tied``."""

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
    """Linear layer with one logit for each token of the vocabulary.

    Compiled, and in training on CUDA, logits of -inf pad the vocabulary to a multiple of
    ``ALIGNED``: the fast half-precision matrix products of CUDA need rows of multiples of 16 bytes.
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
    """Make an output layer share the token vectors."""
    if output.weight.shape != tokens.weight.shape:
        raise ValueError("output and token vectors can be tied only if their shapes agree")
    output.weight = tokens.weight
