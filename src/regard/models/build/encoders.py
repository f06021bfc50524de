"""Encoders that are no Transformers: recurrent and convolutional."""

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.attention import EncoderOutput
from regard.parts.conv import Convolution
from regard.parts.embeddings.embed import Embedding
from regard.parts.recurrent.fused_rnn import FROZEN
from regard.parts.recurrent.rnn import NOTHING, RNNStack


class RNNEncoderModule(nn.Module):
    """An embedding, and recurrent layers over it."""

    attends = False

    def __init__(self, embed: Embedding, layers: RNNStack):
        super().__init__()
        self.embed = embed
        self.layers = layers

    @property
    def capturable(self) -> bool:
        """Whether it reads padded rows of which only the device knows the lengths."""
        return self.layers.cell in FROZEN

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        joined: Mapping[int, Tensor] = NOTHING,
        tape: NullTape = NULL_TAPE,
    ) -> EncoderOutput:
        """A state for every token, and the final state of every layer.

        Features may be ``joined`` to the input of a layer above the first.
        """
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
        states_TD, ends = self.layers(x_TD, layout, joined=joined, tape=tape.under("blocks"))
        return EncoderOutput(tape("output", states_TD), layout, ends)


class ConvEncoderModule(nn.Module):
    """An embedding, and convolutions over it."""

    attends, capturable = False, True

    def __init__(self, embed: Embedding, layers: Iterable[Convolution]):
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)

    def forward(
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> EncoderOutput:
        """A state for every token."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
        for number, layer in enumerate(self.layers):
            x_TD = tape.under("blocks").under(number)("output", layer(x_TD, layout))
        return EncoderOutput(tape("output", x_TD), layout)
