"""Facts of stacks: what every stack of layers answers, and the Transformer's."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from regard.ground.errors import BadInput
from regard.models.build.transformer import TransformerModule
from regard.models.facts.checks import at_least, one_of, share
from regard.models.facts.embedding import AnyEmbedding
from regard.models.facts.flops import Products
from regard.models.facts.positions import Position
from regard.models.sites import AttentionSite
from regard.parts.activation import ACTIVATIONS
from regard.parts.attend import Mask, causal, full
from regard.parts.attention import CrossAttention, Heads, SelfAttention
from regard.parts.block import Block, Mlp

MOST_SHARED = 1_000  # layers that share weights: no file limits their number


class AnyStack:
    """What every kind of stack can be asked, and the answers most of them give.

    An ``eager`` stack is neither compiled nor captured, and its batches have free shapes on every
    device; in an encoder-decoder it is captured if it ``takes_rectangles``. Relative positions need
    a stack that ``attends``; one that ``has_queries`` has a second stream of states, of predicted
    tokens; one that ``carries_state`` goes on from row to row of a text (``new_state`` of its
    module); ``joins_features`` between its layers, if it can. ``activation`` and ``eps`` are those
    of heads built on the stack.
    """

    eager: ClassVar[bool] = False
    attends: ClassVar[bool] = False
    has_queries: ClassVar[bool] = False
    carries_state: ClassVar[bool] = False
    joins_features: ClassVar[bool] = False
    two_directions: ClassVar[bool] = False  # that do not see each other
    segments: ClassVar[int] = 0  # how many it tells apart without vectors of the embedding
    width: int
    depth: int
    dropout: float
    activation: str = "gelu"
    eps: float = 1e-5
    final_norm: bool = False

    @property
    def takes_rectangles(self) -> bool:
        """Whether it reads padded rows of which only the device knows the lengths."""
        return True

    @property
    def blocks(self) -> int:
        """How many layers have weights of their own."""
        return self.depth

    @property
    def input_width(self) -> int:
        """The size of the vector of a token."""
        return self.width

    @property
    def output_width(self) -> int:
        """The size of the state of a token."""
        return self.width

    @property
    def state_widths(self) -> tuple[int, ...]:
        """The sizes of the vector of a token, and of its state after each layer."""
        return (self.input_width, *[self.output_width] * self.depth)

    @property
    def layers_alike(self) -> bool:
        """Whether the embedding has the size of the states of every layer."""
        return len({*self.state_widths}) == 1

    @property
    def causal(self) -> bool:
        """Whether a token attends to no later one."""
        return False

    @property
    def decodes(self) -> bool:
        """Whether it is a decoder over a source."""
        return False

    @property
    def final_states(self) -> int:
        """How many layers leave a final state of their own in a direction: recurrent ones do."""
        return 0

    @property
    def bidirectional(self) -> bool:
        """Whether the final states are those of two directions."""
        return False

    def build(self, embed: AnyEmbedding, source: "AnyStack | None" = None) -> nn.Module:
        """The module of these facts; a decoder's depends on the source it attends to."""
        raise NotImplementedError

    def products(self, source: "AnyStack | None" = None) -> Products:
        """Products of a forward pass."""
        raise NotImplementedError

    def joined_products(self, size: int) -> int:
        """Products of features that join the input of a layer, if it ``joins_features``."""
        raise NotImplementedError

    def query_products(self) -> Products:
        """Products of the states of predicted tokens, if it ``has_queries``."""
        raise NotImplementedError

    def self_attention(self, side: str) -> AttentionSite | None:
        """Its self-attention, as that side of a model."""
        return None

    def cross_attention(self, side: str) -> AttentionSite | None:
        """Its attention to the source, as that side of a model."""
        return None


@dataclass(frozen=True)
class Stack(AnyStack):
    """N equal Transformer layers. ``key`` and ``value`` are sizes per head, default width / heads.

    ``dropout`` falls on embeddings and on the output of each sublayer, as in Vaswani et al., except
    where ``attention_output_dropout`` is the rate on that of attention (DistilBERT's is 0);
    ``attention_dropout`` on attention weights and ``inner_dropout`` inside the feed-forward layer
    came with later code. With ``shared_groups``, layers share weights (Lan et al., 2019, section
    3.1): successive layers are so many groups, and each group repeats ``group_depth`` blocks.

    With ``drop_path``, what a layer adds to a row is dropped as a whole, at a rate that rises from
    0 in the first to this in the last layer (Huang et al., 2016). With ``layer_scale``, it is
    multiplied by learned numbers that begin with that value (Touvron et al., 2021).
    """

    attends: ClassVar[bool] = True
    width: int
    depth: int
    heads: int
    inner: int
    key: int | None = None
    value: int | None = None
    norm: str = "post"
    final_norm: bool = False
    activation: str = "relu"
    eps: float = 1e-5
    dropout: float = 0.1
    attention_dropout: float = 0.0
    attention_output_dropout: float | None = None
    inner_dropout: float = 0.0
    drop_path: float = 0.0
    layer_scale: float | None = None
    mask: Mask = full
    cross: bool = False
    shared_groups: int | None = None
    group_depth: int = 1

    def __post_init__(self) -> None:
        for name in ("width", "depth", "heads", "inner", "key", "value"):
            at_least(1, name, getattr(self, name))
        for name in ("dropout", "attention_dropout", "inner_dropout", "drop_path"):
            share(name, getattr(self, name))
        share("attention_output_dropout", self.attention_output_dropout or 0.0)
        one_of(ACTIVATIONS, "activation", self.activation)
        if self.layer_scale is not None and (self.cross or self.causal):
            raise BadInput("layer_scale: only the layers of encoders are scaled")
        for name in ("shared_groups", "group_depth"):
            at_least(1, name, getattr(self, name))
        if self.shared_groups is None:
            if self.group_depth > 1:
                raise BadInput("group_depth: layers form groups only with shared_groups")
        elif self.depth % self.group_depth or self.shared_groups > self._rounds:
            groups = f"{self.shared_groups} groups of {self.group_depth}"
            raise BadInput(f"shared_groups: {self.depth} layers are not {groups}, each repeated")
        elif self.depth > MOST_SHARED:
            raise BadInput(f"depth must be at most {MOST_SHARED} where layers share weights")

    @property
    def _rounds(self) -> int:
        """How often a group is run, over all groups."""
        return self.depth // self.group_depth

    @property
    def block_numbers(self) -> tuple[int, ...]:
        """The number of the block of each layer."""
        share = self._rounds / (self.shared_groups or self._rounds)  # rounded as transformers does
        groups = [int(number / share) for number in range(self._rounds)]
        inner = range(self.group_depth)
        return tuple(group * self.group_depth + number for group in groups for number in inner)

    @property
    def blocks(self) -> int:
        return self.group_depth * (self.shared_groups or self.depth)

    @property
    def causal(self) -> bool:
        return self.mask == causal

    @property
    def decodes(self) -> bool:
        return self.cross

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> TransformerModule:
        """The blocks over that embedding."""
        source_width = None if source is None else source.output_width
        return TransformerModule(
            embed.build(self.input_width, self.dropout, self.eps),
            [self._block(embed.position, source_width, rate) for rate in self._drop_paths],
            nn.LayerNorm(self.width, eps=self.eps) if self.final_norm else nn.Identity(),
            self.block_numbers,
        )

    @property
    def _drop_paths(self) -> list[float]:
        """The rate of each block."""
        last = max(1, self.blocks - 1)
        return [self.drop_path * number / last for number in range(self.blocks)]

    def _block(
        self, position: Position | None, source_width: int | None, drop_path: float
    ) -> Block:
        heads = Heads.of(self.width, self.heads, self.key, self.value)
        attention = SelfAttention(
            self.width,
            heads,
            score=None if position is None else position.score(heads.key),
            mask=self.mask,
            dropout=self.attention_dropout,
        )
        mlp = Mlp(self.width, self.inner, activation=self.activation, dropout=self.inner_dropout)
        cross = None
        if self.cross:
            cross = CrossAttention(
                self.width, heads, source_width=source_width, dropout=self.attention_dropout
            )
        return Block(
            self.width,
            attention,
            mlp,
            cross=cross,
            norm=self.norm,
            eps=self.eps,
            dropout=self.dropout,
            attention_output_dropout=self.attention_output_dropout,
            drop_path=drop_path,
            layer_scale=self.layer_scale,
        )

    def products(self, source: AnyStack | None = None) -> Products:
        """Projections, scores, weighted sums and feed-forward sublayers of all layers."""
        key = self.width // self.heads if self.key is None else self.key
        both = self.heads * (key + (key if self.value is None else self.value))
        own = 2 * self.width * both + 2 * self.width * self.inner
        if not self.cross or source is None:
            return Products(self.depth * own, own_pair=self.depth * both)
        return Products(
            token=self.depth * (own + self.width * both),
            source_token=self.depth * source.output_width * both,
            own_pair=self.depth * both,
            cross_pair=self.depth * both,
        )

    def self_attention(self, side: str) -> AttentionSite:
        """In every block."""
        heads = (self.heads,) * self.depth
        path = f"{side}.blocks.{{layer}}.attention"
        return AttentionSite(side, "self", heads, path, self.causal)

    def cross_attention(self, side: str) -> AttentionSite | None:
        """In every block, if it is a decoder."""
        heads = (self.heads,) * self.depth
        site = AttentionSite(side, "cross", heads, f"{side}.blocks.{{layer}}.cross")
        return site if self.cross else None
