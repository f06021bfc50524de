"""The Transformer (Vaswani et al., 2017, arXiv:1706.03762): a translator of attention alone.

An encoder that sees everyone, a decoder that sees what it has written and looks at the source.
"""

from torch import Tensor

from regard.ground.layout import Layout
from regard.models.decoding import Decoding
from regard.models.facts import Embed, Facts, PairFacts, Stack, change
from regard.models.native import Native, NativeDecoding
from regard.models.pair import Pair
from regard.models.paper import Paper
from regard.models.room import House
from regard.models.stack import Trunk
from regard.parts.kv_cache import KVCache
from regard.parts.mask import causal
from regard.parts.position import Sinusoid

EMBED = Embed(vocab=37_000, position=Sinusoid(), scaled=True)
ENCODER = Stack(width=512, depth=6, heads=8, inner=2_048, dropout=0.1)
DECODER = change(ENCODER, mask=causal, cross=True)

BASE = PairFacts(source=Facts(EMBED, ENCODER), target=Facts(EMBED, DECODER), tie="all")
BIG = change(BASE, width=1_024, inner=4_096, heads=16, dropout=0.3)
LAPTOP = change(BASE, width=256, inner=1_024, heads=4, depth=3, norm="pre", final_norm=True)


class Transformer(Pair):
    """Two trunks; the second looks at the first."""

    takes_native_steps = True

    def __init__(self, facts: PairFacts):
        width = facts.source.stack.states
        super().__init__(facts, Trunk(facts.source), Trunk(facts.target, source_width=width))

    @property
    def watched(self) -> str:
        """The cross-attention of its last layer."""
        return f"target.blocks.{len(self.target.blocks) - 1}.cross.weights"

    def open(
        self,
        tokens_T: Tensor,
        layout: Layout,
        capacity: int,
        *,
        watch: bool = False,
        house: House | Native | None = None,
    ) -> Decoding | NativeDecoding:
        """A state for search: one row per source sentence, room for ``capacity`` tokens.

        In a ``house`` with rooms a search that can will run in one of them; a native one makes
        every step compiled code.
        """
        if isinstance(house, Native):
            if not watch:
                return house.open(self, self.encode(tokens_T, layout), capacity)
            house = None
        cache = KVCache(layout.rows, capacity, len(self.target.blocks))
        return Decoding(self, tokens_T, layout, cache, watch=watch, house=house)


PAPER = Paper(
    name="Transformer",
    year=2017,
    title="Attention Is All You Need",
    arxiv="1706.03762",
    after="Luong",
    sizes={"base": BASE, "big": BIG, "laptop": LAPTOP},
    published={"base": 65_000_000, "big": 213_000_000},
    build=Transformer,
)
