"""Heads: what is read off the states of tokens, or off pooled states of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.models.facts import at_least, one_of, share
from regard.models.trunk import Trunk
from regard.parts.activation import ACTIVATIONS
from regard.parts.attention import EncoderOutput
from regard.parts.batch_norm import RowBatchNorm
from regard.parts.dropout import Dropout

ALIGNED = 64

Inputs = tuple[Tensor | Layout | None, ...] | None  # of the module of a head; None: it does not run


def read_tokens(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """The states of the tokens at the given positions, by default of all tokens."""
    return (encoded.states_TD if at is None else encoded.states_TD[at],)


def read_queries(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """The query stream of a two-stream stack, computed at the given positions; else all states."""
    return (encoded.states_TD if at is None else encoded.queries_ND,)


def read_spans(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """All states, and positions around and in spans; nothing without positions."""
    return None if at is None else (encoded.states_TD, at)


def read_rows(encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """The pooled state of each row."""
    return (pooled_BD,)


def read_rows_and_layout(
    encoded: EncoderOutput, pooled_BD: Tensor | None, at: Tensor | None
) -> Inputs:
    """The pooled state of each row, and the layout of the rows."""
    return (pooled_BD, encoded.layout)


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


class BiLMHeadModule(nn.Module):
    """Logits (T, 2, words) of both directions, by one vector for each word."""

    def __init__(self, width: int, words: int):
        super().__init__()
        self.out = VocabularyLinear(width, words)
        nn.init.normal_(self.out.weight, std=width**-0.5)
        nn.init.zeros_(self.out.bias)

    def forward(self, states_TD: Tensor) -> Tensor:
        return self.out(states_TD.unflatten(-1, (2, -1)))


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


class ContextHeadModule(nn.Module):
    """A vector of what stands around a position, and its products with the vectors of words."""

    def __init__(self, width: int, size: int, vocab: int):
        super().__init__()
        self.dense, self.out = nn.Linear(width, width), nn.Linear(width, size)
        self.words = nn.Embedding(vocab, size)
        nn.init.normal_(self.words.weight, std=size**-0.5)

    def forward(self, states_TD: Tensor, read_PN: Tensor) -> Tensor:
        """Logits of the candidates of each position, or of all words where it has none.

        ``read_PN`` are the positions before and after each position and its own, then candidates.
        """
        before_N, after_N = read_PN[:2]
        forward_TD, backward_TD = states_TD.chunk(2, dim=-1)
        around_ND = torch.cat([forward_TD[before_N], backward_TD[after_N]], dim=-1)
        context_ND = self.out(self.dense(around_ND).relu())
        if len(read_PN) == 3:
            return F.linear(context_ND, self.words.weight)
        return torch.einsum("nd,knd->nk", context_ND, self.words(read_PN[3:]).to(context_ND.dtype))


class SpanBoundaryHeadModule(nn.Module):
    """Two dense layers, each with GELU and norm, and a vector for each token of the vocabulary.

    ``positions``: how many places in a span have vectors, and the size of these.
    """

    def __init__(self, width: int, size: int, vocab: int, positions: tuple[int, int], eps: float):
        super().__init__()
        self.position = nn.Embedding(*positions)
        inputs = 2 * width + positions[1]
        self.dense = nn.ModuleList([nn.Linear(inputs, width), nn.Linear(width, size)])
        self.norm = nn.ModuleList([nn.LayerNorm(width, eps=eps), nn.LayerNorm(size, eps=eps)])
        self.out = nn.Linear(size, vocab)

    def forward(self, states_TD: Tensor, positions_3N: Tensor) -> Tensor:
        """Logits of tokens whose spans have a token before and after them."""
        before_N, after_N, at_N = positions_3N
        place_N = (at_N - before_N - 1).clamp(0, self.position.num_embeddings - 1)
        parts = (states_TD[before_N], states_TD[after_N], self.position(place_N))
        x_ND = torch.cat([part.to(states_TD.dtype) for part in parts], -1)
        for dense, norm in zip(self.dense, self.norm, strict=True):
            x_ND = norm(F.gelu(dense(x_ND)))
        return self.out(x_ND)


class TransitionHeadModule(nn.Module):
    """A table of transitions between labels, of which states know nothing."""

    def __init__(self, labels: int):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(labels + 2, labels))

    def forward(self, states_ND: Tensor) -> Tensor:
        return self.table.float()


class SeveralHeadsModule(nn.Module):
    """(count, N, outputs): the logits of ``count`` linear layers, each over its share of the input.

    The model averages them.
    """

    def __init__(self, width: int, outputs: int, count: int):
        super().__init__()
        self.out = nn.ModuleList(nn.Linear(width, outputs) for _ in range(count))

    def forward(self, states_ND: Tensor) -> Tensor:
        parts = zip(self.out, states_ND.chunk(len(self.out), -1), strict=True)
        return torch.stack([layer(part_ND) for layer, part_ND in parts])


class LinearHeadModule(nn.Module):
    """Dropout and a linear layer; with an ``activation``, a dense layer before it.

    ``dropout`` are the rates on the inputs of the linear and of the dense layer.
    """

    def __init__(
        self,
        width: int,
        outputs: int,
        dropout: tuple[float, float] = (0.0, 0.0),
        activation: Callable[[Tensor], Tensor] | None = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        self.dropout, self.dense_dropout = map(Dropout, dropout)
        self.activation = activation
        self.dense = None if activation is None else nn.Linear(width, width)
        self.out = nn.Linear(width, outputs, bias=bias)

    def forward(self, states_ND: Tensor) -> Tensor:
        if self.dense is not None and self.activation is not None:
            states_ND = self.activation(self.dense(self.dense_dropout(states_ND)))
        return self.out(self.dropout(states_ND))


class NormedHeadModule(nn.Module):
    """Two linear layers with ReLU between them; batch norm and dropout before each."""

    def __init__(self, width: int, hidden: int, outputs: int, dropout: tuple[float, float]):
        super().__init__()
        self.norms = nn.ModuleList([RowBatchNorm(width), RowBatchNorm(hidden)])
        self.dense_dropout, self.dropout = map(Dropout, dropout)
        self.dense = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, outputs)

    def forward(self, pooled_BD: Tensor, layout: Layout) -> Tensor:
        dense_norm, out_norm = self.norms
        hidden_BD = F.relu(self.dense(self.dense_dropout(dense_norm(pooled_BD, layout))))
        return self.out(self.dropout(out_norm(hidden_BD, layout)))


class AnyHead:
    """Base class of heads, with defaults.

    A head's ``name`` stands in state dicts, tape paths and outputs. Its module is called with what
    ``read`` gives, from the states of tokens, the pooled states of rows (heads ``per_row``) and the
    positions that the head predicts. One that ``averages`` has several output layers, and predicts
    the mean of their logits. One that ``names_tokens`` needs a trunk with a vocabulary. With an
    ``eager`` one, a model is neither compiled nor captured, and no rows fill its batches up.
    """

    name: ClassVar[str]
    per_row: ClassVar[bool] = False
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_tokens)
    averages: ClassVar[bool] = False
    names_tokens: ClassVar[bool] = False
    eager: ClassVar[bool] = False
    logits_order: ClassVar[int | None] = 0  # the lowest gives a model's logits; None: none
    outputs: int

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None) -> nn.Module:
        """The module over states of that trunk, whose token vectors it may share.

        ``width`` is the size of what it reads, if these are not the states of the trunk.
        """
        raise NotImplementedError

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        """Products for each row or token that it reads."""
        raise NotImplementedError


@dataclass(frozen=True)
class MLMHead(AnyHead):
    """The token at a position (Devlin et al., 2018): dense, activation, norm, token vectors.

    ``tied``: these are the token vectors of the embedding. ``dense_activation`` is by default the
    activation of the stack. The dense layer gives as many numbers as a token vector has.
    """

    name: ClassVar[str] = "mlm"
    names_tokens: ClassVar[bool] = True
    tied: bool = True
    dense_activation: str | None = None

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None) -> MLMHeadModule:
        stack, read = trunk.stack, width or trunk.width
        sizes = (read, trunk.token_width, trunk.embed.vocab)
        activation = ACTIVATIONS[self.dense_activation or stack.activation]
        module = MLMHeadModule(*sizes, activation, stack.eps)
        if self.tied:
            _tie(module.out, tokens)
        return module

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        return trunk.token_width * ((width or trunk.width) + trunk.embed.vocab)


@dataclass(frozen=True)
class NextTokenHead(AnyHead):
    """The next token, by a vector for each token of the vocabulary.

    ``tied``: these are the token vectors of the embedding. ``bias`` adds one number per token.
    """

    name: ClassVar[str] = "next_token"
    names_tokens: ClassVar[bool] = True
    tied: bool = True
    bias: bool = False

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> VocabularyLinear:
        module = VocabularyLinear(width or trunk.width, trunk.embed.vocab, bias=self.bias)
        if self.bias:
            nn.init.zeros_(module.bias)
        if self.tied:
            _tie(module, tokens)
        return module

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        return (width or trunk.width) * trunk.embed.vocab


@dataclass(frozen=True)
class PermutationLMHead(NextTokenHead):
    """The token at a position, from its query state (Yang et al., 2019); without any predicted
    positions, from the content states of all tokens.
    """

    name: ClassVar[str] = "permutation_lm"
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_queries)
    bias: bool = True


@dataclass(frozen=True)
class BiLMHead(AnyHead):
    """The next word from the forward half of a state, and the one before from the backward half.

    Both directions share the vectors of ``words`` words (Peters et al., 2018).
    """

    name: ClassVar[str] = "bilm"
    words: int = 793_471

    def __post_init__(self) -> None:
        at_least(1, "words", self.words)

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None) -> BiLMHeadModule:
        return BiLMHeadModule((width or trunk.width) // 2, self.words)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        return (width or trunk.width) * self.words


@dataclass(frozen=True)
class ContextHead(AnyHead):
    """Words that fit between the words before and after a position (Melamud et al., 2016).

    Two dense layers over [→x_{i-1}; ←x_{i+1}] give a vector of ``size`` numbers, by default half
    as many as a state has, which is compared with those of words.
    """

    name: ClassVar[str] = "context"
    names_tokens: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_spans)
    size: int | None = None

    def __post_init__(self) -> None:
        at_least(1, "size", self.size)

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> ContextHeadModule:
        read = width or trunk.width
        return ContextHeadModule(read, self._size(read), trunk.embed.vocab)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        read = width or trunk.width
        return read * read + (read + 1) * self._size(read)

    def _size(self, width: int) -> int:
        return self.size or width // 2


@dataclass(frozen=True)
class SpanBoundaryHead(AnyHead):
    """A token of a span, from the states of the two tokens around it (Joshi et al., 2019).

    Two dense layers with GELU and norm over [x_{s-1}; x_{e+1}; p_{i-s+1}] and token vectors, by
    default those of the embedding (``tied``).
    """

    name: ClassVar[str] = "span_boundary"
    names_tokens: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_spans)
    positions: ClassVar[int] = 20  # of tokens in a span
    position_size: ClassVar[int] = 200
    tied: bool = True

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> SpanBoundaryHeadModule:
        module = SpanBoundaryHeadModule(
            width or trunk.width,
            trunk.token_width,
            trunk.embed.vocab,
            (self.positions, self.position_size),
            trunk.stack.eps,
        )
        if self.tied:
            _tie(module.out, tokens)
        return module

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        read = width or trunk.width
        first = read * (2 * read + self.position_size)
        return first + trunk.token_width * (read + trunk.embed.vocab)


class LinearHead(AnyHead):
    """One linear layer with ``outputs``; ``dropout`` falls on its input.

    With ``dense``, an activation such as "tanh", a dense layer comes before it (RoBERTa's form),
    with dropout as well unless it falls on the input of the ``last_only`` (DistilBERT's form).
    """

    outputs: int
    dropout: float = 0.0
    dense: str | None = None
    last_only: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        at_least(1, "outputs", self.outputs)
        share("dropout", self.dropout)
        if self.dense is not None:
            one_of(ACTIVATIONS, "activation", self.dense)

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> LinearHeadModule:
        activation = None if self.dense is None else ACTIVATIONS[self.dense]
        before = 0.0 if self.last_only else self.dropout
        sizes, rates = (width or trunk.width, self.outputs), (self.dropout, before)
        return LinearHeadModule(*sizes, rates, activation, bias=self.bias)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        width = width or trunk.width
        return width * ((0 if self.dense is None else width) + self.outputs)


@dataclass(frozen=True)
class SentencePairHead(LinearHead):
    """Whether the second text of a row belongs behind the first: two classes."""

    name: ClassVar[str] = "sentence_pair"
    logits_order: ClassVar[int | None] = 1
    classes: ClassVar[tuple[str, str]] = ("IsNext", "NotNext")
    per_row: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_rows)
    outputs: ClassVar[int] = 2  # type: ignore[misc]


@dataclass(frozen=True)
class SentenceOrderHead(SentencePairHead):
    """The same of two texts that follow each other, with dropout (ALBERT), which BERT's lacks."""

    classes: ClassVar[tuple[str, str]] = ("InOrder", "Swapped")
    dropout: float = 0.0


@dataclass(frozen=True)
class ReplacedTokenHead(LinearHead):
    """Whether a token was replaced by another (Clark et al., 2020): one logit."""

    name: ClassVar[str] = "replaced_token"
    outputs: ClassVar[int] = 1  # type: ignore[misc]
    dense: str | None = "gelu"


@dataclass(frozen=True)
class LabelHead(LinearHead):
    """Labels, or numbers, of whole rows."""

    name: ClassVar[str] = "label"
    per_row: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_rows)
    outputs: int
    dropout: float = 0.0
    dense: str | None = None
    last_only: bool = False
    bias: bool = True


@dataclass(frozen=True)
class TokenLabelHead(LinearHead):
    """Labels, or numbers, of tokens."""

    name: ClassVar[str] = "token_label"
    outputs: int
    dropout: float = 0.0


@dataclass(frozen=True)
class TransitionHead(AnyHead):
    """Scores of a label after another, at the beginning and at the end of a row: those of a CRF."""

    name: ClassVar[str] = "transition"
    logits_order: ClassVar[int | None] = None
    outputs: int

    def __post_init__(self) -> None:
        at_least(1, "outputs", self.outputs)

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> TransitionHeadModule:
        return TransitionHeadModule(self.outputs)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        return 0


@dataclass(frozen=True)
class ChoiceHead(LinearHead):
    """One number for each row, by which choices are compared."""

    name: ClassVar[str] = "choice"
    logits_order: ClassVar[int | None] = 1
    per_row: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_rows)
    outputs: ClassVar[int] = 1  # type: ignore[misc]
    dropout: float = 0.0
    dense: str | None = None
    last_only: bool = False


@dataclass(frozen=True)
class SpanHead(LinearHead):
    """How well a span begins, and how well it ends, at each token."""

    name: ClassVar[str] = "span"
    outputs: ClassVar[int] = 2  # type: ignore[misc]


@dataclass(frozen=True)
class DropoutSpanHead(SpanHead):
    """The same with dropout (DistilBERT's form)."""

    dropout: float = 0.0


def _tie(output: nn.Linear, tokens: nn.Embedding) -> None:
    """Let the vectors of the outputs be those of the tokens."""
    if output.weight.shape != tokens.weight.shape:
        raise ValueError("output and token vectors can be tied only if their shapes agree")
    output.weight = tokens.weight


@dataclass(frozen=True)
class DistilledLabelHead(AnyHead):
    """Labels of whole rows by two linear layers, over the class and the distillation token, whose
    logits are averaged (Touvron et al., 2020, section 4).

    The second one learns from a teacher: see ``LabelDistillation``.
    """

    name: ClassVar[str] = LabelHead.name
    per_row: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_rows)
    averages: ClassVar[bool] = True
    outputs: int

    def __post_init__(self) -> None:
        at_least(1, "outputs", self.outputs)

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> SeveralHeadsModule:
        if width != 2 * trunk.width:
            raise BadInput("pool: a distilled label head reads two tokens, the pool FirstTokens(2)")
        return SeveralHeadsModule(trunk.width, self.outputs, 2)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        return (width or trunk.width) * self.outputs


@dataclass(frozen=True)
class NormedLabelHead(AnyHead):
    """Labels, or numbers, of whole rows by two linear layers, with ReLU between them.

    Batch norm and dropout fall on the input of each (Howard & Ruder, 2018, section 3.3);
    ``rates`` are those of dropout, ``hidden`` is the size between the layers.
    """

    name: ClassVar[str] = LabelHead.name
    per_row: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_rows_and_layout)
    eager: ClassVar[bool] = True
    outputs: int
    hidden: int = 50
    rates: tuple[float, float] = (0.4, 0.1)

    def __post_init__(self) -> None:
        for name in ("outputs", "hidden"):
            at_least(1, name, getattr(self, name))
        if len(self.rates) != 2:
            raise BadInput(f"rates: {self.rates} are not those of two layers")
        for rate in self.rates:
            share("rates", rate)

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> NormedHeadModule:
        return NormedHeadModule(width or trunk.width, self.hidden, self.outputs, self.rates)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        return self.hidden * ((width or trunk.width) + self.outputs)
