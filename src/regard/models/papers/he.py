"""Deep highway BiLSTM for semantic roles (He et al., 2017): one direction for each layer.

The input of a word is [w; p]: its vector (GloVe, 100 dimensions), and one of two vectors that say
whether it is the predicate. Layers read in alternate directions, each the output of the layer
below. With gates i, f, o, r and the candidate g, which are linear in [h_{t-1}; x_t], before their
sigmoid or tanh:

    c_t = i ∘ g + f ∘ c_{t-1},  h_t = z ∘ (r ∘ o ∘ tanh(c_t) + (1 - r) ∘ W x_t)

z is a dropout mask that all words of a row share. Tags are predicted one by one, and decoded so
that they are legal (``regard.inference.role_labeller``). The paper trains by Adadelta and averages
five models by a product of experts; recipes name the vectors (``model.vectors``).
"""

from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.layers.block import LAYER_NORM, Norm
from regard.layers.dropout import Dropout
from regard.layers.recurrent.rnn import without_autocast
from regard.models.embedding import AnyEmbedding, EmbeddingModule
from regard.models.facts import at_least, change, share
from regard.models.macs import MACs
from regard.models.paper import Paper
from regard.models.tokens import Tokens
from regard.models.trunk import AnyStack, StackModule, Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_level import WordTokenizer

GATES = 5  # i, f, o, r and g, of which the first four are sigmoids


@dataclass(frozen=True)
class PredicateTokens(Tokens):
    """Token embedding, with a vector of ``indicator`` dimensions for the segment beside each.

    Tokens of the predicate have segment 1.
    """

    segments: int = 2
    indicator: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "segments")
        at_least(1, self, "indicator")

    def build(self, width: int, dropout: float, norm: Norm = LAYER_NORM) -> "PredicateEmbedding":
        if width <= self.indicator:
            fault = f"the {self.indicator} dimensions of indicator leave none for words"
            raise BadInput(f"embedding is {width}: {fault}")
        own = {field.name: getattr(self, field.name) for field in fields(Tokens)}
        words = Tokens(**{**own, "segments": 0}).build(width - self.indicator, dropout, norm)
        return PredicateEmbedding(words, self)

    def macs(self, width: int) -> int:
        return super().macs(width - self.indicator)


class PredicateEmbedding(EmbeddingModule):
    """Word vector concatenated with the vector of its segment."""

    def __init__(self, words: EmbeddingModule, tokens: PredicateTokens):
        super().__init__()
        self.words, self.segments = words, tokens.segments
        self.ids_per_token, self.scale = words.ids_per_token, words.scale
        self.position_limit = words.position_limit
        self.indicator = nn.Embedding(tokens.segments, tokens.indicator)
        nn.init.normal_(self.indicator.weight, std=tokens.indicator**-0.5)

    @property
    def token(self) -> nn.Embedding:
        """The embedding table of words."""
        return self.words.token

    def forward(self, tokens_T: Tensor, layout: Layout, tape: NullTape = NULL_TAPE) -> Tensor:
        assert layout.segments_T is not None
        inner = tape.under("words")
        words_TD = inner("output", self.words(tokens_T, layout, inner))
        indicator_TD = tape("indicator", self.indicator(layout.segments_T))
        return torch.cat([words_TD, indicator_TD], dim=-1)

    def static(self, tokens: Tensor) -> Tensor:
        return self.words.static(tokens)


@dataclass(frozen=True)
class HighwayStack(AnyStack):
    """Stack of highway LSTM layers that read in alternate directions, the first one forward.

    ``embedding`` is the size of token vectors. ``dropout`` is applied to them and to states, with
    one mask for all tokens of a row (Gal & Ghahramani, 2016).
    """

    eager: ClassVar[bool] = True
    width: int
    embedding: int
    depth: int = 8
    dropout: float = 0.1

    def __post_init__(self) -> None:
        at_least(1, self, "width", "embedding", "depth")
        share(self, "dropout")

    @property
    def takes_rectangles(self) -> bool:
        return False

    @property
    def input_width(self) -> int:
        return self.embedding

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "HighwayModule":
        return HighwayModule(self, embed)

    def macs(self, source: AnyStack | None = None) -> MACs:
        inputs = self.embedding + (self.depth - 1) * self.width
        return MACs(self.width * ((GATES + 1) * inputs + GATES * self.depth * self.width))


class HighwayModule(StackModule):
    """Module of the stack: an embedding and highway LSTM layers."""

    def __init__(self, stack: HighwayStack, embed: AnyEmbedding):
        super().__init__()
        self.embed = embed.build(stack.input_width, stack.dropout)
        sizes = [stack.embedding, *[stack.width] * (stack.depth - 1)]
        self.blocks = nn.ModuleList(
            HighwayLSTM(size, stack.width, stack.dropout, backward=number % 2 == 1)
            for number, size in enumerate(sizes)
        )

    def forward(
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> EncoderOutput:
        """Compute a state for every token."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout, tape.under("embed")))
        x_TD = x_TD.to(next(self.blocks.parameters()).dtype)
        with without_autocast(x_TD):
            for number, layer in enumerate(self.blocks):
                x_TD = tape.under("blocks").under(number)("output", layer(x_TD, layout))
        return EncoderOutput(tape("output", x_TD), layout)


class HighwayLSTM(nn.Module):
    """LSTM layer in one direction, with a gated connection from its input to its output."""

    def __init__(self, inputs: int, width: int, dropout: float, *, backward: bool = False):
        super().__init__()
        self.width, self.backward, self.dropout = width, backward, Dropout(dropout)
        self.inputs = nn.Linear(inputs, (GATES + 1) * width)
        self.states = nn.Parameter(torch.empty(GATES * width, width))
        for weight_FD in (self.inputs.weight, self.states):
            for gate_DD in weight_FD.detach().split(width):
                nn.init.orthogonal_(gate_DD)
        nn.init.zeros_(self.inputs.bias)
        nn.init.ones_(self.inputs.bias.detach()[width : 2 * width])  # open forget gates

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:
        """States of all tokens, time by time, of all rows that have a token at that time."""
        time_major, width = layout.time_major, self.width
        inputs_TF = self.inputs(x_TD)
        if not time_major.rows:  # gradients still flow to the weights
            return inputs_TF[:, :width] * 0 + self.states.sum() * 0
        inputs_TF = time_major.from_packed(inputs_TF, backward=self.backward)
        h_RD = c_RD = x_TD.new_zeros(time_major.rows, width)
        mask_RD = self.dropout(torch.ones_like(h_RD))
        states, weight_DF = [], self.states.T
        for now_RF in inputs_TF.split(time_major.alive):
            alive = len(now_RF)
            gates_RF = torch.addmm(now_RF[:, : GATES * width], h_RD[:alive], weight_DF)
            write, keep, read, carry = gates_RF[:, : 4 * width].sigmoid().chunk(4, dim=1)
            c_RD = torch.addcmul(keep * c_RD[:alive], write, gates_RF[:, 4 * width :].tanh())
            h_RD = torch.lerp(now_RF[:, GATES * width :], read * c_RD.tanh(), carry)
            h_RD = h_RD * mask_RD[:alive]
            states.append(h_RD)
        return time_major.to_packed(torch.cat(states), backward=self.backward)


BASE = TrunkWithHeads(
    trunk=Trunk(PredicateTokens(vocab=400_000), HighwayStack(width=300, embedding=200))
)
LAPTOP = change(BASE, width=128, embedding=82, depth=4, indicator=32)

PAPER = Paper(
    name="He",
    year=2017,
    title="Deep Semantic Role Labeling: What Works and What's Next",
    authors="Luheng He, Kenton Lee, Mike Lewis, Luke Zettlemoyer",
    arxiv=None,
    report="ACL 2017",
    after="Ma",
    sizes={"base": BASE, "laptop": LAPTOP},
    tokenizer=WordTokenizer.name,
)
