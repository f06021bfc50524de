"""Encoder and decoder of any kind, joined by a bridge, by attention, or by both.

Cho, Sutskever, Bahdanau and Luong are values of these facts; so is a recurrent encoder under a
Transformer's decoder, and the reverse.
"""

from torch import Tensor, nn

from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.decoding import Decoding
from regard.models.facts import Facts, PairFacts
from regard.models.pair import Pair
from regard.models.readers import reader
from regard.models.room import House
from regard.models.sides import Reader, Side, Writer
from regard.models.stack import Trunk
from regard.models.writer import RecurrentWriter
from regard.parts.attention import EncoderOutput
from regard.parts.kv_cache import KVCache, RNNState


class Seq2Seq(Pair):
    """An encoder that is recurrent, convolutional or a trunk; a recurrent decoder or a trunk."""

    def __init__(self, facts: PairFacts):
        super().__init__(facts, reader(facts.source), writer(facts.target, facts.source.stack))
        self.recurrent = isinstance(facts.target.stack, Writer)
        self.looks = facts.target.stack.looks[0]
        self.eager = self.recurrent or isinstance(facts.source.stack, Reader)

    def encode(
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> EncoderOutput:
        """The source as the decoder sees it."""
        return self.source(tokens_T, layout, tape=tape.under("source"))

    @property
    def watched(self) -> str:
        """The cross-attention of its last layer."""
        if not self.looks:
            raise BadInput("this model has no attention: it never looks back at its source")
        if self.recurrent:
            return "target.cross.weights"
        return f"target.blocks.{self.looks - 1}.cross.weights"

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

        A ``house`` is for models whose steps can be captured, and stays unused.
        """
        cache: KVCache = (
            RNNState(layout.rows, capacity)
            if self.recurrent
            else KVCache(layout.rows, capacity, self.looks)
        )
        return Decoding(self, tokens_T, layout, cache, watch=watch)


def writer(facts: Facts, source: Side) -> nn.Module:
    """The decoder these facts describe, over a source of that kind."""
    stack = facts.stack
    if not isinstance(stack, Writer):
        return Trunk(facts, source_width=source.states)
    if stack.bridge == "backward" and getattr(source, "reads", None) != "both":
        raise ValueError("bridge 'backward' needs an encoder that reads both ways")
    if stack.bridge == "copy":
        if source.states != stack.width:
            raise ValueError(
                f"bridge 'copy' needs states of one size, not {source.states} and {stack.width}"
            )
        if isinstance(source, Reader) and source.depth != stack.depth:
            raise ValueError(
                f"bridge 'copy' needs as many layers, not {source.depth} and {stack.depth}"
            )
    return RecurrentWriter(facts, stack, source.states)
