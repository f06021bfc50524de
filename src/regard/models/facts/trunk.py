"""A trunk: an embedding and a stack of layers over it."""

import sys
from dataclasses import dataclass

from torch import nn

from regard.ground.checks import check_whole
from regard.ground.errors import BadInput
from regard.models.facts.bilm import BiLMStack
from regard.models.facts.conv import ConvEncoderFacts
from regard.models.facts.embedding import Characters, Tokens
from regard.models.facts.flops import Products
from regard.models.facts.rnn import CausalRNNFacts, RNNDecoderFacts, RNNEncoderFacts
from regard.models.facts.stack import Stack
from regard.models.facts.two_stream import TwoStreamStack


@dataclass(frozen=True)
class Trunk:
    """Tokens in, one state per token out: a whole encoder, or one side of a translator."""

    embed: Tokens | Characters
    stack: (
        Stack
        | TwoStreamStack
        | RNNEncoderFacts
        | CausalRNNFacts
        | RNNDecoderFacts
        | ConvEncoderFacts
        | BiLMStack
    )

    def __post_init__(self) -> None:
        position = self.embed.position
        if position is not None and position.by_distance and not self.stack.attends:
            raise BadInput("position: relative positions need self-attention layers")

    @property
    def width(self) -> int:
        """The size of the state of a token."""
        return self.stack.output_width

    @property
    def token_width(self) -> int:
        """The size of token vectors by which a head names tokens."""
        return self.embed.embedding_size or self.width

    @property
    def segments(self) -> int:
        """How many segments of a row it tells apart; 0 if it knows none."""
        return self.embed.segments or self.stack.segments

    def products(self, source: "Trunk | None" = None) -> Products:
        """Products of a forward pass: of the stack, and of the projection of the embedding."""
        stack = self.stack.products(None if source is None else source.stack)
        projection = self.embed.products(self.stack.input_width)
        return stack._replace(token=stack.token + projection)

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
        return self.stack.build(self.embed, None if source is None else source.stack)
