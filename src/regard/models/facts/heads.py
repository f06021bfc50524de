"""Facts of heads: what is read off the states of a trunk. A model has those that it uses.

A head's ``name`` stands in state dicts, tape paths and outputs. Heads ``per_row`` read the pooled
state of each row, the others the states of tokens. One that ``reads_spans`` is given the states of
all tokens and, for each token of its targets, the positions around its span and its own. One that
``reads_queries`` is given the query stream of a two-stream stack at its positions. One that
``reads_layout`` is given the layout of the rows as well. One that ``averages`` has several output
layers, and predicts the mean of their logits. One that ``names_tokens`` needs a trunk with a
vocabulary. With an ``eager`` one, a model is neither compiled nor captured, and no rows fill its
batches up.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from regard.models.build.heads import (
    BiLMHeadModule,
    ContextHeadModule,
    LinearHeadModule,
    MLMHeadModule,
    SpanBoundaryHeadModule,
    TransitionHeadModule,
    VocabularyLinear,
)
from regard.models.facts.checks import at_least, one_of, share
from regard.models.facts.trunk import Trunk
from regard.parts.activation import ACTIVATIONS


class AnyHead:
    """What every head can be asked."""

    name: ClassVar[str]
    per_row: ClassVar[bool] = False
    reads_spans: ClassVar[bool] = False
    reads_queries: ClassVar[bool] = False
    reads_layout: ClassVar[bool] = False
    averages: ClassVar[bool] = False
    names_tokens: ClassVar[bool] = False
    eager: ClassVar[bool] = False
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
        """With the epsilon of the stack."""
        stack, read = trunk.stack, width or trunk.width
        sizes = (read, trunk.token_width, trunk.embed.vocab)
        activation = ACTIVATIONS[self.dense_activation or stack.activation]
        module = MLMHeadModule(*sizes, activation, stack.eps)
        if self.tied:
            _tie(module.out, tokens)
        return module

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        """The dense layer and all token vectors."""
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
        """One linear layer."""
        module = VocabularyLinear(width or trunk.width, trunk.embed.vocab, bias=self.bias)
        if self.bias:
            nn.init.zeros_(module.bias)
        if self.tied:
            _tie(module, tokens)
        return module

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        """All token vectors."""
        return (width or trunk.width) * trunk.embed.vocab


@dataclass(frozen=True)
class PermutationLMHead(NextTokenHead):
    """The token at a position, from its query state (Yang et al., 2019); without any predicted
    positions, from the content states of all tokens.
    """

    name: ClassVar[str] = "permutation_lm"
    reads_queries: ClassVar[bool] = True
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
        """One linear layer."""
        return BiLMHeadModule((width or trunk.width) // 2, self.words)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        """All word vectors, twice."""
        return (width or trunk.width) * self.words


@dataclass(frozen=True)
class ContextHead(AnyHead):
    """Words that fit between the words before and after a position (Melamud et al., 2016).

    Two dense layers over [→x_{i-1}; ←x_{i+1}] give a vector of ``size`` numbers, by default half
    as many as a state has, which is compared with those of words.
    """

    name: ClassVar[str] = "context"
    names_tokens: ClassVar[bool] = True
    reads_spans: ClassVar[bool] = True
    size: int | None = None

    def __post_init__(self) -> None:
        at_least(1, "size", self.size)

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> ContextHeadModule:
        """With word vectors of its own."""
        read = width or trunk.width
        return ContextHeadModule(read, self._size(read), trunk.embed.vocab)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        """Both dense layers and the vector of one word; few others are compared."""
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
    reads_spans: ClassVar[bool] = True
    positions: ClassVar[int] = 20  # of tokens in a span
    position_size: ClassVar[int] = 200
    tied: bool = True

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> SpanBoundaryHeadModule:
        """With the epsilon of the stack."""
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
        """Both dense layers and all token vectors."""
        read = width or trunk.width
        first = read * (2 * read + self.position_size)
        return first + trunk.token_width * (read + trunk.embed.vocab)


class LinearHead(AnyHead):
    """One linear layer with ``outputs``; ``dropout`` falls on its input.

    With ``dense``, an activation such as "tanh", a dense layer comes before it (RoBERTa's form),
    with dropout as well unless it falls on the input of the ``last_only`` (DistilBERT's form).
    ``bias`` adds a number to each output.
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
        """Of the width of what it reads."""
        activation = None if self.dense is None else ACTIVATIONS[self.dense]
        before = 0.0 if self.last_only else self.dropout
        sizes, rates = (width or trunk.width, self.outputs), (self.dropout, before)
        return LinearHeadModule(*sizes, rates, activation, bias=self.bias)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        """Both layers."""
        width = width or trunk.width
        return width * ((0 if self.dense is None else width) + self.outputs)


@dataclass(frozen=True)
class SentencePairHead(LinearHead):
    """Whether the second text of a row belongs behind the first: two classes."""

    name: ClassVar[str] = "sentence_pair"
    classes: ClassVar[tuple[str, str]] = ("IsNext", "NotNext")
    per_row: ClassVar[bool] = True
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
    outputs: int

    def __post_init__(self) -> None:
        at_least(1, "outputs", self.outputs)

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> TransitionHeadModule:
        """A table of numbers."""
        return TransitionHeadModule(self.outputs)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        """It reads nothing."""
        return 0


@dataclass(frozen=True)
class ChoiceHead(LinearHead):
    """One number for each row, by which choices are compared."""

    name: ClassVar[str] = "choice"
    per_row: ClassVar[bool] = True
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
