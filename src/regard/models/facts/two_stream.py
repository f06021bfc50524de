"""Facts of XLNet's stack: two streams of states with relative positions and segments."""

from dataclasses import dataclass
from typing import ClassVar

from regard.models.build.two_stream import TwoStreamAttention, TwoStreamBlock, TwoStreamModule
from regard.models.facts.checks import at_least, one_of, share
from regard.models.facts.embedding import AnyEmbedding
from regard.models.facts.flops import Products
from regard.models.facts.stack import AnyStack
from regard.models.sites import AttentionSite
from regard.parts.activation import ACTIVATIONS
from regard.parts.attention import Heads
from regard.parts.block import Mlp


@dataclass(frozen=True)
class TwoStreamStack(AnyStack):
    """N equal layers over a content stream and, where tokens are predicted, a query stream.

    Attention scores distances and segments, and projections have no biases (Yang et al., 2019).
    ``dropout`` falls on all but attention weights: embeddings, sinusoids of distances, both
    sublayers and their inside, and the last states. All rows of a batch share the mask of the
    sinusoids, as in Transformer-XL; the authors' code draws one for each row.
    """

    attends: ClassVar[bool] = True
    has_queries: ClassVar[bool] = True
    segments: ClassVar[int] = 3  # two texts and the class token
    width: int
    depth: int
    heads: int
    inner: int
    activation: str = "gelu"
    eps: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("width", "depth", "heads", "inner"):
            at_least(1, name, getattr(self, name))
        for name in ("dropout", "attention_dropout"):
            share(name, getattr(self, name))
        one_of(ACTIVATIONS, "activation", self.activation)

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> TwoStreamModule:
        """The blocks over that embedding."""
        vectors = embed.build(self.input_width, self.dropout, self.eps)
        return TwoStreamModule(vectors, [self._block() for _ in range(self.depth)], self.dropout)

    def _block(self) -> TwoStreamBlock:
        heads = Heads.of(self.width, self.heads)
        return TwoStreamBlock(
            self.width,
            TwoStreamAttention(self.width, heads, self.attention_dropout),
            Mlp(self.width, self.inner, activation=self.activation, dropout=self.dropout),
            eps=self.eps,
            dropout=self.dropout,
        )

    def products(self, source: AnyStack | None = None) -> Products:
        """Those of the content stream; a pair of tokens is scored by content and by distance."""
        own = 4 * self.width * self.width + 2 * self.width * self.inner
        return Products(self.depth * own, own_pair=self.depth * 4 * self.width)

    def query_products(self) -> Products:
        """As many, but for keys and values."""
        whole = self.products()
        return whole._replace(token=whole.token - self.depth * 2 * self.width * self.width)

    def self_attention(self, side: str) -> AttentionSite:
        """That of the content stream, in every block."""
        heads = (self.heads,) * self.depth
        return AttentionSite(side, "self", heads, f"{side}.blocks.{{layer}}.attention")
