"""Encoders that are no stacks of attention: they answer tokens with states, and know their end."""

from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.facts import Facts
from regard.models.sides import Convolved, Reader
from regard.models.stack import Trunk, embedding
from regard.parts.attention import EncoderOutput
from regard.parts.conv import Convolution
from regard.parts.rnn import RNNStack


class RecurrentReader(nn.Module):
    """Embeddings, and recurrent layers over them."""

    def __init__(self, facts: Facts, stack: Reader):
        super().__init__()
        self.embed = embedding(facts.embed, stack.embedding, stack.dropout)
        self.layers = RNNStack(
            stack.cell,
            stack.embedding,
            stack.width,
            stack.depth,
            reads=stack.reads,
            residual=stack.residual,
            dropout=stack.dropout,
        )

    def forward(
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> EncoderOutput:
        """A state for every token, and where every layer ended."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
        states_TD, ends = self.layers(x_TD, layout, tape=tape.under("blocks"))
        return EncoderOutput(tape("output", states_TD), layout, ends)


class ConvolvedReader(nn.Module):
    """Embeddings, and convolutions over them."""

    def __init__(self, facts: Facts, stack: Convolved):
        super().__init__()
        self.embed = embedding(facts.embed, stack.width, stack.dropout)
        self.layers = nn.ModuleList(
            Convolution(stack.width, stack.kernel, dropout=stack.dropout)
            for _ in range(stack.depth)
        )

    def forward(
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> EncoderOutput:
        """A state for every token."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
        for number, layer in enumerate(self.layers):
            x_TD = tape.under("blocks").under(number)("output", layer(x_TD, layout))
        return EncoderOutput(tape("output", x_TD), layout)


class TrunkReader(Trunk):
    """The Transformer's encoder."""

    def forward(  # type: ignore[override]
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> EncoderOutput:
        """A state for every token."""
        return EncoderOutput(super().forward(tokens_T, layout, tape=tape), layout)


def reader(facts: Facts) -> RecurrentReader | ConvolvedReader | TrunkReader:
    """The encoder these facts describe."""
    if isinstance(facts.stack, Reader):
        return RecurrentReader(facts, facts.stack)
    if isinstance(facts.stack, Convolved):
        return ConvolvedReader(facts, facts.stack)
    return TrunkReader(facts)
