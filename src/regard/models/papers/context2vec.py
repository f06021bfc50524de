"""context2vec (Melamud et al., 2016, CoNLL): vectors of words and of their contexts in one space.

c = L2(relu(L1([→h_{i-1}; ←h_{i+1}]))): one LSTM layer reads the words before a position from left
to right, another the words after it from right to left, and two dense layers compute the context
vector. It is trained against word vectors by negative sampling: the words with the largest dot
products fit the context best.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.facts import at_least, change
from regard.models.heads import AnyHead, Inputs
from regard.models.label_heads import read_spans
from regard.models.paper import Paper
from regard.models.rnn import RNNEncoderFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_level import WordTokenizer


@dataclass(frozen=True)
class ContextHead(AnyHead):
    """Head that predicts a word from the words before and after it (Melamud et al., 2016).

    Two dense layers over [→x_{i-1}; ←x_{i+1}] compute a context vector of ``size`` dimensions
    (default: half of a state), whose dot products with word vectors are logits.
    """

    name: ClassVar[str] = "context"
    names_tokens: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_spans)
    needs_positions: ClassVar[bool] = True
    size: int | None = None

    def __post_init__(self) -> None:
        at_least(1, self, "size")

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "ContextHeadModule":
        return ContextHeadModule(trunk, width, self._size(width))

    def macs(self, trunk: Trunk, width: int) -> int:
        return width * width + (width + 1) * self._size(width)

    def _size(self, width: int) -> int:
        return self.size or width // 2


class ContextHeadModule(nn.Module):
    """Module of the context head: context vectors, and their dot products with word vectors."""

    def __init__(self, trunk: Trunk, width: int, size: int):
        super().__init__()
        self.dense, self.out = nn.Linear(width, width), nn.Linear(width, size)
        self.words = nn.Embedding(trunk.embed.vocab, size)
        nn.init.normal_(self.words.weight, std=size**-0.5)

    def forward(self, states_TD: Tensor, read_PN: Tensor) -> Tensor:
        """Compute logits of the candidates of each position; without candidates, of all words.

        The rows of ``read_PN`` are the position before, the position after and the position itself,
        then the candidates.
        """
        before_N, after_N = read_PN[:2]
        forward_TD, backward_TD = states_TD.chunk(2, dim=-1)
        around_ND = torch.cat([forward_TD[before_N], backward_TD[after_N]], dim=-1)
        context_ND = self.out(self.dense(around_ND).relu())
        if len(read_PN) == 3:
            return F.linear(context_ND, self.words.weight)
        return torch.einsum("nd,knd->nk", context_ND, self.words(read_PN[3:]).to(context_ND.dtype))


BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=180_000, position=None),
        RNNEncoderFacts(width=600, embedding=300, direction="both"),
    )
)
LAPTOP = change(BASE, vocab=40_000, width=256, embedding=128)

PAPER = Paper(
    name="context2vec",
    year=2016,
    title="context2vec: Learning Generic Context Embedding with Bidirectional LSTM",
    authors="Oren Melamud, Jacob Goldberger, Ido Dagan",
    arxiv=None,
    report="CoNLL 2016",
    after="Zaremba",
    sizes={"base": BASE, "laptop": LAPTOP},
    tokenizer=WordTokenizer.name,
    pretraining={"negative-sampling": {}},
)
