"""An encoder and a decoder of any kind, joined by a bridge, by attention, or by both.

Cho, Sutskever, Bahdanau, Luong and the Transformer are values of these facts; so is a recurrent
encoder under a Transformer's decoder, and the reverse.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from regard.ground.batch import PackedTokens, SourceTarget
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.build.trunk_with_heads import ALL_TOKENS, Outputs
from regard.models.decoding import Decoding
from regard.models.native import Native, NativeDecoding
from regard.models.room import House
from regard.models.sites import AttentionSite, require_cross_attention
from regard.parts.attention import EncoderOutput

HEAD = "next_token"


class EncoderDecoderModule(nn.Module):
    """Source and target sides, and the layer of logits, tied as ``tie`` says.

    An ``eager`` one is neither compiled nor captured, and its batches have free shapes on every
    device.
    """

    def __init__(
        self,
        source: nn.Module,
        target: nn.Module,
        head: nn.Linear,
        *,
        tie: str,
        eager: bool,
        cross_attention: AttentionSite | None,
    ):
        super().__init__()
        self.eager, self.cross_attention = eager, cross_attention
        self.source: Any = source
        self.target: Any = target
        self.head = head
        if head.bias is not None:
            nn.init.zeros_(head.bias)
        sides: tuple[Any, Any] = (source, target)
        read, written = (side.embed.token for side in sides)
        if tie == "all":
            if read.weight.shape != written.weight.shape:
                raise ValueError("source and target share embeddings only if their shapes agree")
            written.weight = read.weight
        if tie != "none":
            if head.weight.shape != written.weight.shape:
                raise ValueError("output and target embeddings are tied only if their shapes agree")
            head.weight = written.weight

    @property
    def encoder(self) -> Any:
        """The side that reads the input."""
        return self.source

    def forward(
        self,
        inputs: SourceTarget,
        *,
        positions: Mapping[str, Tensor] = ALL_TOKENS,
        tape: NullTape = NULL_TAPE,
    ) -> Outputs:
        """States of the target, and logits over the next token at its ``positions``."""
        target = inputs.target
        encoded = self.encode(inputs.source, tape=tape)
        states_TD = self._decoded(target.tokens_T, target.layout, encoded, tape=tape)
        read = states_TD[positions[HEAD]] if HEAD in positions else states_TD
        return Outputs(states_TD, None, {HEAD: tape("logits", self.head(read))})

    def encode(self, inputs: PackedTokens, *, tape: NullTape = NULL_TAPE) -> EncoderOutput:
        """The source as the decoder sees it."""
        return self.source(inputs.tokens_T, inputs.layout, tape=tape.under("source"))

    def decode(
        self,
        tokens_T: Tensor,
        layout: Layout,
        source: EncoderOutput | None,
        *,
        cache: Any = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        """Logits over the next token, given the source and the target so far (or its cache)."""
        states_TD = self._decoded(tokens_T, layout, source, cache=cache, tape=tape)
        return tape("logits", self.head(states_TD))

    def _decoded(
        self,
        tokens_T: Tensor,
        layout: Layout,
        source: EncoderOutput | None,
        *,
        cache: Any = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        side = tape.under("target")
        return self.target(tokens_T, layout, source=source, cache=cache, tape=side).states_TD

    @property
    def takes_native_steps(self) -> bool:
        """Whether its steps can be compiled code, or captured."""
        return self.source.attends and self.target.attends

    @property
    def watched(self) -> str:
        """The tape name of the cross-attention weights of its last layer."""
        return require_cross_attention(self.cross_attention).weights[-1]

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
        house = house if self.takes_native_steps else None
        if isinstance(house, Native):
            if not watch:
                encoded = self.encode(PackedTokens(tokens_T, layout))
                return house.open(self, encoded, capacity)
            house = None
        cache = self.target.new_memory(layout.rows, capacity)
        return Decoding(self, tokens_T, layout, cache, watch=watch, house=house)
