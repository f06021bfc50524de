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
from regard.models.build.trunk_with_heads import ALL_TOKENS, NEXT_TOKEN, Outputs
from regard.models.sites import AttentionSite
from regard.parts.attention import EncoderOutput


class EncoderDecoderModule(nn.Module):
    """Source and target sides, and the layer of logits, tied as ``tie`` says."""

    pool = None  # it translates, and has no pooled state
    reads_last_layer = True

    def __init__(
        self,
        source: nn.Module,
        target: nn.Module,
        head: nn.Linear,
        *,
        tie: str,
        cross_attention: AttentionSite | None,
    ):
        super().__init__()
        self.cross_attention = cross_attention
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

    @property
    def decoder(self) -> Any:
        """The side that writes."""
        return self.target

    @property
    def output(self) -> nn.Linear:
        """The layer of logits over the next token."""
        return self.head

    @property
    def attends(self) -> bool:
        """Whether both sides are blocks of attention."""
        return self.source.attends and self.target.attends

    @property
    def capturable(self) -> bool:
        """Whether decoding can be captured: both sides have fixed shapes."""
        return self.source.capturable and self.target.capturable

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
        side = tape.under("target")
        states_TD = self.target(target.tokens_T, target.layout, source=encoded, tape=side).states_TD
        read = states_TD[positions[NEXT_TOKEN]] if NEXT_TOKEN in positions else states_TD
        return Outputs(states_TD, None, {NEXT_TOKEN: tape("logits", self.head(read))})

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
        side = tape.under("target")
        decoded = self.target(tokens_T, layout, source=source, cache=cache, tape=side)
        return tape("logits", self.head(decoded.states_TD))
