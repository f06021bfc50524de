"""Stacks of layers: the base class, where they attend, and what a forward pass costs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import nn

from regard.ground.errors import BadInput
from regard.models.embedding import AnyEmbedding

MAP_NAMES = {("self", False): "encoder", ("self", True): "decoder"}  # by kind and ``causal``


@dataclass(frozen=True)
class AttentionSite:
    """The attention layers of one ``kind`` ("self", "cross" or "pool") on one ``side`` of a model.

    The side is "trunk", "source" or "target"; queries are its tokens (a pool has one query for each
    row). Keys are tokens of the same side, or of the source for cross-attention. ``heads`` has the
    number of heads of each layer. ``tape_path`` has "{layer}" in place of the number of a layer. In
    ``causal`` attention no key is later than the query.
    """

    side: str
    kind: str
    heads: tuple[int, ...]
    tape_path: str
    causal: bool = False

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.heads)

    @property
    def name(self) -> str:
        """What its attention map is called: "encoder", "decoder", "cross" or "pool"."""
        return MAP_NAMES.get((self.kind, self.causal), self.kind)

    @property
    def query_side(self) -> str:
        """The side whose tokens are the queries; "pool" for the query of a pool."""
        return {"pool": "pool"}.get(self.kind, self.side)

    @property
    def key_side(self) -> str:
        """The side whose tokens are the keys."""
        return {"cross": "source"}.get(self.kind, self.side)

    @property
    def within(self) -> bool:
        """Whether queries and keys are the same tokens: self-attention."""
        return self.query_side == self.key_side

    @property
    def weights(self) -> tuple[str, ...]:
        """The tape name of the weights of each layer, of shape (rows, heads, queries, keys)."""
        paths = (self.tape_path.format(layer=number) for number in range(self.layers))
        return tuple(f"{path}.weights" for path in paths)


def require_causal(sites: Iterable[AttentionSite]) -> AttentionSite:
    """The self-attention of a causal model; BadInput if there is none."""
    known = [*sites]
    for site in known:
        if site.causal and site.side == "trunk":
            return site
    if not known:
        raise BadInput("this model has no attention to show")
    raise BadInput("this is no causal model: its attention is not only to earlier tokens")


def require_cross_attention(site: AttentionSite | None) -> AttentionSite:
    """The cross-attention of a model; BadInput if it has none."""
    if site is None:
        raise BadInput("this model has no attention to a source")
    return site


FORWARD_AND_BACKWARD = 6.0  # per product: multiply and add, once forward and twice backward


class Products(NamedTuple):
    """Products of one side of a model, by what they are made for.

    ``token``: each of its tokens; ``source_token``: each token of its source; ``row``: each row;
    ``own_pair``: each pair of its own tokens; ``cross_pair``: each of its tokens with each token of
    its source.
    """

    token: int
    source_token: int = 0
    row: int = 0
    own_pair: int = 0
    cross_pair: int = 0


def score_products(
    score: str, query: int, key: int, inner: int, positions: int
) -> tuple[int, int, int]:
    """The products of a score, from its sizes: for each query, each key, and each pair of them."""
    return {
        "additive": (query * inner, key * inner, inner),
        "concat": (query * inner, key * inner, inner),
        "general": (0, key * query, query),
        "bilinear": (0, key * query, query),
        "location": (query * positions, 0, 0),
    }.get(score, (0, 0, key))


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
