"""A trunk: an embedding and a stack of layers over it; the base class of stacks."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from regard.core.checks import check_whole
from regard.core.errors import BadFact, BadInput
from regard.layers.block import Norm
from regard.models.attention_site import AttentionSite
from regard.models.embedding import AnyEmbedding, EmbeddingModule
from regard.models.macs import MACs


class AnyStack:
    """Base class of stacks of layers, with defaults.

    An ``eager`` stack is neither compiled nor captured, and its batches have free shapes on every
    device; in an encoder-decoder it is captured if it ``takes_rectangles``. Relative positions need
    a stack that ``attends``. A stack that ``has_queries`` computes a second stream of states, of
    predicted tokens; one that ``carries_state`` goes on from row to row of a text (``new_state`` of
    its module); one that ``joins_features`` reads features between its layers. A ``traceable`` one
    can be exported to ONNX. Heads use ``activation`` and ``eps`` too.
    """

    eager: ClassVar[bool] = False
    attends: ClassVar[bool] = False
    traceable: ClassVar[bool] = False
    has_queries: ClassVar[bool] = False
    carries_state: ClassVar[bool] = False
    joins_features: ClassVar[bool] = False
    two_directions: ClassVar[bool] = False  # two language models that do not see each other
    segments: ClassVar[int] = 0  # segments that it distinguishes without embedding them
    width: int
    depth: int
    dropout: float
    activation: str = "gelu"
    init: str = ""  # of the linear layers; "": each has its own
    eps: float = 1e-5
    final_norm: bool = False
    heads_by_layer: tuple[int, ...] = ()

    @property
    def norm_settings(self) -> Norm:
        """The kind and the epsilon of norms."""
        return Norm(eps=self.eps)

    @property
    def takes_rectangles(self) -> bool:
        """Whether it reads padded rows whose lengths only the device knows."""
        return True

    @property
    def blocks(self) -> int:
        """The number of layers with weights of their own."""
        return self.depth

    @property
    def block_numbers(self) -> tuple[int, ...]:
        """The index of the block of each layer."""
        return tuple(range(self.depth))

    @property
    def input_width(self) -> int:
        """The size of a token vector."""
        return self.width

    @property
    def output_width(self) -> int:
        """The size of a last state."""
        return self.width

    @property
    def state_widths(self) -> tuple[int, ...]:
        """The sizes of a token vector and of its state after each layer."""
        return (self.input_width, *[self.output_width] * self.depth)

    @property
    def layers_alike(self) -> bool:
        """Whether token vectors and the states of all layers have one size."""
        return len({*self.state_widths}) == 1

    @property
    def causal(self) -> bool:
        """Whether a token depends on no later token."""
        return False

    @property
    def decodes(self) -> bool:
        """Whether it is a decoder over a source."""
        return False

    @property
    def final_states(self) -> int:
        """The number of layers with a final state: all layers if recurrent, else 0."""
        return 0

    @property
    def bidirectional(self) -> bool:
        """Whether the final states come from two directions."""
        return False

    def build(self, embed: AnyEmbedding, source: "AnyStack | None" = None) -> "StackModule":
        """The module of the stack over an embedding; a decoder attends to the ``source``."""
        raise NotImplementedError

    def macs(self, source: "AnyStack | None" = None) -> MACs:
        """MACs of a forward pass."""
        raise NotImplementedError

    def joined_macs(self, size: int) -> int:
        """MACs of features of that size at the input of a layer, if it ``joins_features``."""
        raise NotImplementedError

    def query_macs(self) -> MACs:
        """MACs of the states of predicted tokens, if it ``has_queries``."""
        raise NotImplementedError

    def self_attention(self, side: str) -> AttentionSite | None:
        """The self-attention of the stack as a side of a model."""
        return None

    def cross_attention(self, side: str) -> AttentionSite | None:
        """The attention of the stack to the source, as a side of a model."""
        return None

    def text_attention(self, side: str) -> tuple[AttentionSite, ...]:
        """The attention of the stack between the texts of a row, as a side of a model."""
        return ()


class StackModule(nn.Module):
    """Base class of the modules of stacks: an embedding, and layers over it."""

    attends: bool = False  # the layers are blocks of attention
    order: Sequence[int] = ()  # numbers of the blocks of all layers; without any, each runs once
    capturable: bool = False  # decoding can be captured in CUDA graphs
    edited: bool = False  # a tape edits its values in every run
    embed: EmbeddingModule

    def new_state(self, rows: int) -> object:
        """Initial state of rows, before any token, of a stack that ``carries_state``."""
        raise NotImplementedError


@dataclass(frozen=True)
class AnyFeatures:
    """Base class of features of words: the layers of a frozen ``model``, added to a trunk."""

    model: "Trunk"

    @property
    def joined(self) -> Mapping[int, int]:
        """The size of features that join the input of a layer above the first, by its number."""
        raise NotImplementedError

    @property
    def ids_per_word(self) -> int:
        """The number of ids of a word that the model reads: ids of characters, or of pieces."""
        raise NotImplementedError

    def width_at(self, place: str) -> int:
        """The size of features beside word vectors ("input") or beside last states ("output")."""
        raise NotImplementedError

    def build(self, embed: AnyEmbedding, stack: AnyStack) -> StackModule:
        """The module of a trunk with these features."""
        raise NotImplementedError


@dataclass(frozen=True)
class Trunk:
    """Embedding and stack: a whole encoder, or one side of an encoder-decoder.

    With ``features``, tokens are words, and a frozen model adds to their vectors or states.
    """

    embed: AnyEmbedding
    stack: AnyStack
    features: AnyFeatures | None = None

    def __post_init__(self) -> None:
        position = self.embed.position
        if position is not None and position.by_distance and not self.stack.attends:
            raise BadInput("relative positions need self-attention layers", key="position")
        if position is not None and position.by_head and self.stack.heads_by_layer:
            fault = "positions with a bias of each head need all heads"
            raise BadInput(fault, key="heads_by_layer")
        if position is not None:
            position.check(causal=self.stack.causal)
        characters = self.embed.characters_per_word
        if self.features is None:
            return
        if characters not in (0, self.features.ids_per_word):
            ids = f"their model reads {self.features.ids_per_word} ids per word"
            fault = f"{ids}, but this trunk {characters} characters; make them equal"
            raise BadInput(fault, key="features")
        for layer in self.features.joined:
            if not self.stack.joins_features:
                fault = "only recurrent encoders can read features between layers"
                raise BadInput(fault, key="features_at")
            if not 1 <= layer < (depth := self.stack.depth):
                limits = f"at least 1 and below the depth ({depth})"
                raise BadFact("features_at", f"must be {limits}, not {layer}")

    @property
    def width(self) -> int:
        """The size of a state, features included."""
        more = 0 if self.features is None else self.features.width_at("output")
        return self.stack.output_width + more

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        """The shape of the ids of a token; with features, a word id and the ids that they read."""
        if self.features is None:
            return self.embed.ids_per_token
        return (1 + self.features.ids_per_word,)

    @property
    def spelling_vocab(self) -> int:
        """The number of ids of characters, or pieces, that exist beside word ids."""
        features = self.features
        return self.embed.spelling_vocab if features is None else features.model.embed.vocab

    @property
    def eager(self) -> bool:
        """Whether it is neither compiled nor captured: recurrent layers, and features."""
        return self.stack.eager or self.features is not None

    @property
    def token_width(self) -> int:
        """The size of token vectors, which a tied output layer shares."""
        return self.embed.embedding_size or self.width

    @property
    def segments(self) -> int:
        """The number of segments that it distinguishes in a row; 0: none."""
        return self.embed.segments or self.stack.segments

    def macs(self, source: "Trunk | None" = None) -> MACs:
        """MACs of a forward pass of stack, embedding and features."""
        stack = self.stack.macs(None if source is None else source.stack)
        token = stack.token + self.embed.macs(self.stack.input_width)
        if self.features is not None:  # their model has no backward pass
            token += self.features.model.macs().token // 3
            token += sum(map(self.stack.joined_macs, self.features.joined.values()))
        return stack._replace(token=token)

    def layer_paths(self, path: str, prefix: str = "") -> dict[str, str]:
        """The tape path of the output of each layer; ``path`` is the path of the trunk."""
        layers = range(self.stack.depth)
        blocks = {f"{prefix}block {i + 1}": f"{path}.blocks.{i}.output" for i in layers}
        norm = {f"{prefix}final norm": f"{path}.output"} if self.stack.final_norm else {}
        return {f"{prefix}embedding": f"{path}.embed.output", **blocks, **norm}

    def state_path(self, path: str, layer: int) -> str:
        """The tape path of the states after a layer; ``path`` is the path of the trunk.

        Layer 0 is the embedding; -1 are the last states, which heads and decoders read.
        """
        depth = self.stack.depth
        if not -1 <= check_whole("layer", layer, -sys.maxsize) <= depth:
            layers = f"from 0 (embedding) to {depth}, or -1 (last states)"
            raise BadFact("layer", f"must be {layers}, not {layer}")
        names = {-1: "output", 0: "embed.output"}
        return f"{path}.{names.get(int(layer), f'blocks.{layer - 1}.output')}"

    def build(self, source: "Trunk | None" = None) -> StackModule:
        """The module of the trunk; a decoder attends to the ``source``."""
        if self.features is not None:
            return self.features.build(self.embed, self.stack)
        return self.stack.build(self.embed, None if source is None else source.stack)
