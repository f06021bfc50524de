"""The Transformer (Vaswani et al., 2017, arXiv:1706.03762): a translator of attention alone.

An encoder that sees everyone, a decoder that sees what it has written and looks at the source.
"""

from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import SILENT, Silent
from regard.models.decoding import Decoding
from regard.models.facts import Embed, Facts, PairFacts, Stack, change
from regard.models.paper import Paper
from regard.models.room import House
from regard.models.stack import Trunk
from regard.parts.attention import Source
from regard.parts.held import HeldMemory
from regard.parts.memory import Memory
from regard.parts.position import Sinusoid
from regard.parts.sight import causal

EMBED = Embed(vocab=37_000, position=Sinusoid(), scaled=True)
ENCODER = Stack(width=512, depth=6, heads=8, inner=2_048, dropout=0.1)
DECODER = change(ENCODER, sight=causal, cross=True)

BASE = PairFacts(source=Facts(EMBED, ENCODER), target=Facts(EMBED, DECODER), tie="all")
BIG = change(BASE, width=1_024, inner=4_096, heads=16, dropout=0.3)
LAPTOP = change(BASE, width=256, inner=1_024, heads=4, depth=3, norm="pre", final_norm=True)


class Transformer(nn.Module):
    """Source and target trunks and the map to words, tied as the facts say."""

    def __init__(self, facts: PairFacts):
        super().__init__()
        if facts.tie not in ("all", "target", "none"):
            raise ValueError(f"tie is 'all', 'target' or 'none', not {facts.tie!r}")
        width, vocab = facts.target.stack.width, facts.target.embed.vocab
        self.source = Trunk(facts.source)
        self.target = Trunk(facts.target, source_width=facts.source.stack.width)
        self.head = nn.Linear(width, vocab, bias=facts.head_bias)
        if facts.head_bias:
            nn.init.zeros_(self.head.bias)
        if facts.tie == "all":
            if facts.source.embed.vocab != vocab or facts.source.stack.width != width:
                raise ValueError("source and target share embeddings only if their shapes agree")
            self.target.embed.token.weight = self.source.embed.token.weight
        if facts.tie != "none":
            self.head.weight = self.target.embed.token.weight

    def forward(
        self,
        source_T: Tensor,
        source: Layout,
        target_T: Tensor,
        target: Layout,
        *,
        tape: Silent = SILENT,
    ) -> Tensor:
        """Logits over the next token at every place of the target."""
        return self.decode(target_T, target, self.encode(source_T, source, tape=tape), tape=tape)

    def encode(self, tokens_T: Tensor, layout: Layout, *, tape: Silent = SILENT) -> Source:
        """The source as the decoder sees it."""
        return Source(self.source(tokens_T, layout, tape=tape.under("source")), layout)

    def decode(
        self,
        tokens_T: Tensor,
        layout: Layout,
        source: Source | None,
        *,
        memory: Memory | HeldMemory | None = None,
        tape: Silent = SILENT,
    ) -> Tensor:
        """Logits over the next token, given the source and what was written (or its memory)."""
        states_TD = self.target(
            tokens_T, layout, source=source, memory=memory, tape=tape.under("target")
        )
        return tape("logits", self.head(states_TD))

    def open(
        self,
        tokens_T: Tensor,
        layout: Layout,
        capacity: int,
        *,
        watch: bool = False,
        house: House | None = None,
    ) -> Decoding:
        """A state for search: one row per source sentence, room for ``capacity`` tokens.

        Given a ``house``, a search that can will run in one of its rooms.
        """
        memory = Memory(layout.rows, capacity, len(self.target.blocks))
        return Decoding(self, tokens_T, layout, memory, watch=watch, house=house)


PAPER = Paper(
    name="Transformer",
    year=2017,
    title="Attention Is All You Need",
    arxiv="1706.03762",
    after=None,
    sizes={"base": BASE, "big": BIG, "laptop": LAPTOP},
    published={"base": 65_000_000, "big": 213_000_000},
    build=Transformer,
)
