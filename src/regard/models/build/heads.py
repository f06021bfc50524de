"""Modules of heads: from states of tokens, or from pooled states of rows, to logits."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.parts.batch_norm import RowBatchNorm
from regard.parts.dropout import Dropout

ALIGNED = 64


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
