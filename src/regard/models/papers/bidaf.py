"""BiDAF (Seo et al., 2016, arXiv:1611.01603): attention flow between a question and its context.

Vectors of words and of their characters go through two highway layers and a bidirectional LSTM.
s(h, u) = w·[h; u; h ⊙ u] (equation 1); a word h attends to the words u of the question (ũ), and
h̃ is the mean of the context weighted by the softmax of its largest scores. Two further layers read
g = [h; ũ; h ⊙ ũ; h ⊙ h̃] with states m, and a last layer reads m with states m². A linear layer over
[g; m; m²] has the logits of the span; in the paper the first word is scored without m² and the last
without m. The paper computes states of the context alone; here the question has states as well,
because a span task scores "no answer" at the first token of a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attend import Score, other_text
from regard.layers.recurrent.rnn import NOTHING, RNNLayer, without_autocast
from regard.models.attention_site import AttentionSite
from regard.models.characters import Characters
from regard.models.embedding import AnyEmbedding
from regard.models.facts import change
from regard.models.heads import PaperHead
from regard.models.label_heads import DropoutSpanHead
from regard.models.macs import MACs
from regard.models.paper import Paper
from regard.models.rnn import GATES
from regard.models.text_pairs import TextPairModule, TextPairStack, attend_to_texts
from regard.models.tokens import Tokens
from regard.models.trunk import AnyStack, Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_level import WordTokenizer


@dataclass(frozen=True)
class AttentionFlow(TextPairStack):
    """Stack over two texts whose comparisons also read a summary of the token's own text.

    The first layer encodes, a last one is added above the others, and a state is [g; m; m²].
    """

    joins_features: ClassVar[bool] = False
    comparison: tuple[str, ...] = ("state", "context", "product")
    projected: bool = False

    @property
    def output_width(self) -> int:
        return self.compared_width() + 4 * self.width

    @property
    def last_input(self) -> int:
        """The size of the input of the last layer."""
        return 2 * self.width

    def compared_width(self, joined: int = 0) -> int:
        return super().compared_width(joined) + 2 * self.width + joined

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "AttentionFlowModule":
        return AttentionFlowModule(self, embed)

    def macs(self, source: AnyStack | None = None) -> MACs:
        below = super().macs(source)
        last = 2 * GATES[self.cell] * self.width * (self.last_input + self.width)
        score_and_summary = 2 * 2 * self.width + 2 * 2 * self.width  # two heads of the summary
        return below._replace(token=below.token + last + score_and_summary)

    def text_attention(self, side: str) -> tuple[AttentionSite, ...]:
        summary = AttentionSite(side, "summary", (2,), f"{side}.summary")
        return (*super().text_attention(side), summary)


class Trilinear(Score):
    """Score w·[q; k; q ⊙ k] of queries and keys of the same size (Seo et al., 2016, equation 1)."""

    def __init__(self, size: int):
        super().__init__()
        self.query, self.key = (nn.Linear(size, 1, bias=False) for _ in range(2))
        self.product = nn.Parameter(torch.empty(size).uniform_(-(size**-0.5), size**-0.5))

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        products = torch.einsum("blhk,bshk->bhls", q_BLHK * self.product, k_BSHK)
        from_query = self.query(q_BLHK).permute(0, 2, 1, 3)
        return products + from_query + self.key(k_BSHK).permute(0, 2, 3, 1)


class AttentionFlowModule(TextPairModule):
    """Module of attention flow: context, summary, and states of three kinds."""

    def __init__(self, facts: AttentionFlow, embed: AnyEmbedding):
        super().__init__(facts, embed)
        self.score = Trilinear(2 * facts.width)
        self.last = RNNLayer(facts.cell, facts.last_input, facts.width, reads="both")

    def compare(self, states_TD: Tensor, layout: Layout, tape: NullTape = NULL_TAPE) -> Tensor:
        x_BLHK = layout.pad(states_TD)[:, :, None]
        scores_BHLS = self.score(x_BLHK, x_BLHK, layout, layout)
        allowed_BLS = other_text(layout, layout) & layout.real_BL[:, None]
        scores_BLS = scores_BHLS[:, 0].masked_fill(~allowed_BLS, -torch.inf)
        largest_BL = F.pad(scores_BLS, (0, 1), value=-torch.inf).amax(-1)  # also of no keys
        means_B2D = attend_to_texts(
            layout.pack(largest_BL), states_TD, layout, tape.under("summary")
        )
        summary_TD = means_B2D[layout.rows_T, layout.text_T]
        context_TD = self.align(lambda *inputs: scores_BHLS, states_TD, layout, tape)
        parts = [compare(states_TD, context_TD) for compare in self.comparison]
        return torch.cat([*parts, self.summarised(states_TD, context_TD) * summary_TD], dim=-1)

    def summarised(self, states_TD: Tensor, context_TD: Tensor) -> Tensor:
        """Vector of each token that is multiplied with the summary of its text."""
        return states_TD

    def compose(
        self,
        compared_TD: Tensor,
        layout: Layout,
        joined: Mapping[int, Tensor] = NOTHING,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        states_TD = super().compose(compared_TD, layout, joined, tape)
        with without_autocast(states_TD):
            last_TD, _ = self.last(self.dropout(states_TD), layout.texts)
        return torch.cat([compared_TD.to(states_TD.dtype), states_TD, last_TD], dim=-1)


CHARACTERS = Characters(
    filters=((5, 100),), longest=16, character_size=8, highways=0, projected=False
)
BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=100_000, position=None, characters=CHARACTERS),
        AttentionFlow(width=100, embedding=200, depth=3, input_layer="highway", dropout=0.2),
    )
)
LAPTOP = change(BASE, width=50, embedding=100, filters=((5, 50),))

PAPER = Paper(
    name="BiDAF",
    year=2016,
    title="Bidirectional Attention Flow for Machine Comprehension",
    authors="Minjoon Seo, Aniruddha Kembhavi, Ali Farhadi, Hannaneh Hajishirzi",
    arxiv="1611.01603",
    after="Bahdanau",
    sizes={"base": BASE, "laptop": LAPTOP},
    tokenizer=WordTokenizer.name,
    heads=(PaperHead(DropoutSpanHead(), from_stack={"dropout": "dropout"}),),
)
