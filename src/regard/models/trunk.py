"""A trunk: an embedding and a stack of layers over it; the base class of stacks."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.ground.checks import check_whole
from regard.ground.errors import BadInput
from regard.models.attention_site import AttentionSite
from regard.models.embedding import AnyEmbedding
from regard.models.macs import MACs


class AnyStack:
    """Base class of stacks of layers, with defaults.

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
        """Whether the final states come from two directions."""
        return False

    def build(self, embed: AnyEmbedding, source: "AnyStack | None" = None) -> nn.Module:
        """The module of these facts; a decoder's depends on the source it attends to."""
        raise NotImplementedError

    def macs(self, source: "AnyStack | None" = None) -> MACs:
        """MACs of a forward pass."""
        raise NotImplementedError

    def joined_macs(self, size: int) -> int:
        """MACs of features that join the input of a layer, if it ``joins_features``."""
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


class ScalarMix(nn.Module):
    """γ Σ_j softmax(w)_j h_j over the states of ``layers`` layers; at first their mean."""

    def __init__(self, layers: int):
        super().__init__()
        self.layers = layers
        self.logits = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """The mixture of states of the same size."""
        shares = torch.softmax(self.logits.float(), dim=0)
        mixed = sum(
            (share * states for share, states in zip(shares, layers, strict=True)),
            start=layers[0].new_zeros(()),
        )
        return (self.scale * mixed).to(layers[0].dtype)


@dataclass(frozen=True)
class AnyFeatures:
    """Base class of features of words: layers of a frozen ``model`` beside those of a trunk.

    They stand beside the vectors of words ("input"), beside the last states ("output"), or are
    ``joined`` to the input of layers above the first: how many numbers, by the layer's number.
    """

    model: "Trunk"

    @property
    def joined(self) -> Mapping[int, int]:
        """How many numbers they add to the input of a layer above the first, by its number."""
        raise NotImplementedError

    @property
    def ids_per_word(self) -> int:
        """The number of ids of a word that the model reads: ids of characters, or of pieces."""
        raise NotImplementedError

    def width_at(self, place: str) -> int:
        """How many numbers they add to a vector at that place."""
        raise NotImplementedError

    def build(self, embed: AnyEmbedding, stack: AnyStack) -> nn.Module:
        """The module of a trunk with these features."""
        raise NotImplementedError


@dataclass(frozen=True)
class Trunk:
    """Tokens in, one state per token out: a whole encoder, or one side of a translator.

    With ``features``, tokens are words, and a frozen model adds to their vectors or states.
    """

    embed: AnyEmbedding
    stack: AnyStack
    features: AnyFeatures | None = None

    def __post_init__(self) -> None:
        position = self.embed.position
        if position is not None and position.by_distance and not self.stack.attends:
            raise BadInput("position: relative positions need self-attention layers")
        characters = self.embed.characters_per_word
        if self.features is not None and characters not in (0, self.features.ids_per_word):
            raise BadInput(
                f"features: their model reads {self.features.ids_per_word} ids of a word, and the "
                f"words {characters} characters: these must be the same"
            )
        for layer in () if self.features is None else self.features.joined:
            if not self.stack.joins_features:
                raise BadInput("features: only recurrent encoders read them between layers")
            if not 1 <= layer < self.stack.depth:
                raise BadInput(
                    f"features_at: no layer is above layer {layer}; there are {self.stack.depth}"
                )

    @property
    def width(self) -> int:
        """The size of the state of a token."""
        more = 0 if self.features is None else self.features.width_at("output")
        return self.stack.output_width + more

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        """The shape of the ids of a token; with features, a word and its characters, or pieces."""
        if self.features is None:
            return self.embed.ids_per_token
        return (1 + self.features.ids_per_word,)

    @property
    def spelling_vocab(self) -> int:
        """How many ids characters, or pieces, of words have, where they stand beside a word's."""
        return (
            self.embed.spelling_vocab if self.features is None else self.features.model.embed.vocab
        )

    @property
    def eager(self) -> bool:
        """Whether it is neither compiled nor captured; features are those of recurrent layers."""
        return self.stack.eager or self.features is not None

    @property
    def token_width(self) -> int:
        """The size of token vectors by which a head names tokens."""
        return self.embed.embedding_size or self.width

    @property
    def segments(self) -> int:
        """How many segments of a row it tells apart; 0 if it knows none."""
        return self.embed.segments or self.stack.segments

    def macs(self, source: "Trunk | None" = None) -> MACs:
        """MACs of a forward pass: of the stack, and of the projection of the embedding."""
        stack = self.stack.macs(None if source is None else source.stack)
        token = stack.token + self.embed.macs(self.stack.input_width)
        if self.features is not None:  # which have no backward pass
            token += self.features.model.macs().token // 3
            token += sum(map(self.stack.joined_macs, self.features.joined.values()))
        return stack._replace(token=token)

    def layer_paths(self, path: str, prefix: str = "") -> dict[str, str]:
        """The tape path of the output of each layer, for a trunk of that path."""
        blocks = {
            f"{prefix}block {i + 1}": f"{path}.blocks.{i}.output" for i in range(self.stack.depth)
        }
        norm = {f"{prefix}final norm": f"{path}.output"} if self.stack.final_norm else {}
        return {f"{prefix}embedding": f"{path}.embed.output", **blocks, **norm}

    def state_path(self, path: str, layer: int) -> str:
        """The tape path of the states after a layer, for a trunk of that path.

        0 is the embedding, -1 what heads and decoders see.
        """
        depth = self.stack.depth
        if not -1 <= check_whole("layer", layer, -sys.maxsize) <= depth:
            raise BadInput(f"layer {layer} asked for; there are 0 (embedding) to {depth}, and -1")
        names = {-1: "output", 0: "embed.output"}
        return f"{path}.{names.get(int(layer), f'blocks.{layer - 1}.output')}"

    def build(self, source: "Trunk | None" = None) -> nn.Module:
        """The module of these facts; a decoder's depends on its source."""
        if self.features is not None:
            return self.features.build(self.embed, self.stack)
        return self.stack.build(self.embed, None if source is None else source.stack)
