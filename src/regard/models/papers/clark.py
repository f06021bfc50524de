"""Clark & Gardner (2017, arXiv:1710.10723): BiDAF's attention flow, then self-attention.

Vectors of words and of their characters go through a bidirectional GRU. A word h attends to the
question as in BiDAF (ũ), with the same summary h̃ of the context, and a ReLU layer reads
g = [h; ũ; h ⊙ ũ; ũ ⊙ h̃]. A second GRU has states s over its output x; each attends to the other
words of its text by a trilinear score (c), and a ReLU layer over [s; c; s ⊙ c] is added to x. A
third GRU reads the sum with states m, and a last one reads both with states m². A linear layer over
[m; m²] has the logits of the span; in the paper the first word is scored by m and the last by m².

Left out is what the paper has for documents of many paragraphs: a row is one paragraph, and its
scores are normalised alone. As in ``bidaf``, the question has states as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attend import attend, position_gaps
from regard.layers.recurrent.rnn import NOTHING, RNNLayer, without_autocast
from regard.models.attention_site import AttentionSite
from regard.models.embedding import AnyEmbedding
from regard.models.facts import change
from regard.models.heads import PaperHead
from regard.models.label_heads import DropoutSpanHead
from regard.models.macs import MACs
from regard.models.paper import Paper
from regard.models.papers.bidaf import CHARACTERS, AttentionFlow, AttentionFlowModule, Trilinear
from regard.models.rnn import GATES
from regard.models.tokens import Tokens
from regard.models.trunk import AnyStack, Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_level import WordTokenizer


@dataclass(frozen=True)
class SelfAttentiveFlow(AttentionFlow):
    """Attention flow whose layers above the first attend to their own text; a state is [m; m²]."""

    cell: str = "gru"
    projected: bool = True

    @property
    def output_width(self) -> int:
        return 4 * self.width

    @property
    def projected_width(self) -> int:
        return 2 * self.width

    @property
    def last_input(self) -> int:
        return 4 * self.width

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "SelfAttentiveModule":
        return SelfAttentiveModule(self, embed)

    def macs(self, source: AnyStack | None = None) -> MACs:
        flow, states = super().macs(source), 2 * self.width
        third = 2 * GATES[self.cell] * self.width * (states + self.width)
        score, projection = 2 * states, 3 * states * states
        token = flow.token + third + score + projection
        return flow._replace(token=token, own_pair=flow.own_pair + 2 * states)

    def text_attention(self, side: str) -> tuple[AttentionSite, ...]:
        own = AttentionSite(side, "self", (1,), f"{side}.self_attention")
        return (*super().text_attention(side), own)


def other_words(queries: Layout, keys: Layout) -> Tensor:
    """Mask of the other tokens of the text of a query, (B, L, S)."""
    text_BLS = queries.pad(queries.text_T)[:, :, None] == keys.pad(keys.text_T)[:, None]
    return text_BLS & (position_gaps(queries, keys) != 0)


class SelfAttentiveModule(AttentionFlowModule):
    """Module of attention flow with self-attention."""

    def __init__(self, facts: SelfAttentiveFlow, embed: AnyEmbedding):
        super().__init__(facts, embed)
        states = 2 * facts.width
        self.self_score = Trilinear(states)
        self.self_projection = nn.Sequential(nn.Linear(3 * states, states), nn.ReLU())
        self.third = RNNLayer(facts.cell, states, facts.width, reads="both")

    def summarised(self, states_TD: Tensor, context_TD: Tensor) -> Tensor:
        return context_TD

    def compose(
        self,
        compared_TD: Tensor,
        layout: Layout,
        joined: Mapping[int, Tensor] = NOTHING,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        x_TD = states_TD = self.projection(compared_TD)
        for number in range(1, len(self.layers)):
            states_TD = self.run_layer(number, states_TD, layout, joined, tape)
        x_TD = (x_TD + self._attend_to_text(states_TD, layout, tape)).to(states_TD.dtype)
        with without_autocast(x_TD):
            third_TD, _ = self.third(self.dropout(x_TD), layout.texts)
            last_TD, _ = self.last(self.dropout(torch.cat([x_TD, third_TD], -1)), layout.texts)
        return torch.cat([third_TD, last_TD], dim=-1)

    def _attend_to_text(self, states_TD: Tensor, layout: Layout, tape: NullTape) -> Tensor:
        """ReLU layer over each state and the mean of the other states of its text."""
        x_THK = states_TD[:, None]
        context_THK = attend(
            self.self_score,
            x_THK,
            x_THK,
            x_THK,
            queries=layout,
            keys=layout,
            mask=other_words,
            tape=tape.under("self_attention"),
        )
        context_TD = context_THK[:, 0]
        return self.self_projection(torch.cat([states_TD, context_TD, states_TD * context_TD], -1))


BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=100_000, position=None, characters=CHARACTERS),
        SelfAttentiveFlow(width=100, embedding=200, depth=2, dropout=0.2),
    )
)
LAPTOP = change(BASE, width=50, embedding=100, filters=((5, 50),))

PAPER = Paper(
    name="Clark",
    year=2017,
    title="Simple and Effective Multi-Paragraph Reading Comprehension",
    authors="Christopher Clark, Matt Gardner",
    arxiv="1710.10723",
    after="BiDAF",
    sizes={"base": BASE, "laptop": LAPTOP},
    tokenizer=WordTokenizer.name,
    heads=(PaperHead(DropoutSpanHead(), from_stack={"dropout": "dropout"}),),
)
