"""An encoder and a decoder of any kind, joined by a bridge, by attention, or by both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.core.batch import PackedTokens, SourceTarget
from regard.core.errors import BadFact
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.models.attention_site import AttentionSite
from regard.models.facts import above_zero, one_of
from regard.models.heads import AnyHead, NextTokenHead
from regard.models.macs import FORWARD_AND_BACKWARD, RowLengths, count_pairs
from regard.models.pools import ANYWHERE, Summaries
from regard.models.trunk import StackModule, Trunk
from regard.models.trunk_with_heads import (
    ALL_TOKENS,
    NEXT_TOKEN,
    NO_POSITIONS,
    Outputs,
    TrunkWithHeads,
    TrunkWithHeadsModule,
)

TIES = ("all", "sides", "target", "none")


@dataclass(frozen=True)
class EncoderDecoder:
    """A model that reads a source and generates a target.

    ``tie``: "all" shares source, target and output embeddings, "sides" the first two, "target" the
    last two, "none" none. ``head_bias`` adds a bias to the logit of every token; ``scaled_output``
    divides states by √width before the output layer (T5). New weights of an output layer that is
    not tied have a standard deviation of ``head_std``, default 1/√(3 width).
    """

    sides: ClassVar[tuple[str, ...]] = ("source", "target")
    output_heads: ClassVar[tuple[AnyHead, ...]] = (NextTokenHead(),)
    head_names: ClassVar[tuple[str, ...]] = (NextTokenHead.name,)
    encoder_path: ClassVar[str] = "source"
    writes: ClassVar[bool] = True
    source: Trunk
    target: Trunk
    tie: str = "all"
    head_bias: bool = False
    scaled_output: bool = False
    head_std: float | None = None

    def __post_init__(self) -> None:
        one_of(TIES, "tie", self.tie)
        above_zero(self, "head_std")
        if self.source.stack.decodes or not self.target.stack.decodes:
            raise BadFact(
                "cross", "must be true in the target stack, and false in the source stack"
            )

    @property
    def encoder(self) -> Trunk:
        """The side that reads the input."""
        return self.source

    @property
    def eager(self) -> bool:
        """Whether the model is neither compiled nor captured."""
        return self._recurrent and not self.in_rectangles

    @property
    def in_rectangles(self) -> bool:
        """Whether batches on CUDA are padded rectangles, which are captured."""
        sides = self.source.stack, self.target.stack
        return self._recurrent and all(side.takes_rectangles for side in sides)

    @property
    def _recurrent(self) -> bool:
        return self.source.stack.eager or self.target.stack.eager

    @property
    def sizes(self) -> dict[str, int]:
        """The number of ids of each side, under the names that tokenizers use."""
        return {"source tokens": self.source.embed.vocab, "target tokens": self.target.embed.vocab}

    @property
    def summaries(self) -> Summaries:
        """Allowed places of a summary token in a row: any, as there is no pool."""
        return ANYWHERE

    @property
    def attention_sites(self) -> tuple[AttentionSite, ...]:
        """Cross-attention, and the self-attention of the source and of the target."""
        source = self.source.stack.self_attention("source")
        target = self.target.stack.self_attention("target")
        return tuple(site for site in (self.cross_attention, source, target) if site is not None)

    @property
    def cross_attention(self) -> AttentionSite | None:
        """The attention of the target to the source, or None."""
        return self.target.stack.cross_attention("target")

    @property
    def layer_paths(self) -> dict[str, str]:
        """The tape path of every layer and of the logits."""
        source = self.source.layer_paths("source", "encoder ")
        target = self.target.layer_paths("target", "decoder ")
        return {**source, **target, f"{self.head_names[0]} logits": "logits"}

    def inputs(self, source: PackedTokens, target: PackedTokens) -> SourceTarget:
        """The inputs of the module, from the tokens of each side."""
        return SourceTarget(source, target)

    def build(self) -> "EncoderDecoderModule":
        """The module with new weights."""
        return EncoderDecoderModule(self)

    def models(self, module: nn.Module) -> dict[str, tuple["EncoderDecoder", nn.Module]]:
        """The models to save of a trained module, by folder."""
        return {"model": (self, module)}

    def training_flops(
        self, lengths: RowLengths, positions: Mapping[str, int] = NO_POSITIONS
    ) -> float:
        """Floating-point operations of one training step over (source, target) of these lengths."""
        (source_T, target_T), (source_pairs, cross_pairs, target_pairs) = count_pairs(lengths)
        reads = self.source.macs()
        writes = self.target.macs(self.source)
        forward = (
            reads.token * source_T
            + writes.token * target_T
            + writes.source_token * source_T
            + writes.row * len(lengths)
            + self.target.width * self.target.embed.vocab * target_T
            + reads.own_pair * source_pairs
            + writes.own_pair * target_pairs / 2
            + writes.cross_pair * cross_pairs
        )
        return FORWARD_AND_BACKWARD * forward


class EncoderDecoderModule(nn.Module):
    """Encoder-decoder: the modules of source and target, and the output layer."""

    pool = None
    reads_last_layer = True
    decoder_path = "target"  # on a tape

    def __init__(self, facts: EncoderDecoder):
        super().__init__()
        self.cross_attention = facts.cross_attention
        self.source, self.target = facts.source.build(), facts.target.build(facts.source)
        self.attends = self.source.attends and self.target.attends
        self.capturable = self.source.capturable and self.target.capturable
        vocab, tie = facts.target.embed.vocab, facts.tie
        self.head = head = nn.Linear(facts.target.width, vocab, bias=facts.head_bias)
        if facts.head_std is not None:
            nn.init.normal_(head.weight, std=facts.head_std)
        if head.bias is not None:
            nn.init.zeros_(head.bias)
        read, written = self.source.embed.token, self.target.embed.token
        self.output_scale = facts.target.width**-0.5 if facts.scaled_output else 1.0
        if tie in ("all", "sides"):
            if read.weight.shape != written.weight.shape:
                raise ValueError(
                    "tie: source and target share embeddings only if their shapes agree"
                )
            written.weight = read.weight
        if tie in ("all", "target"):
            if head.weight.shape != written.weight.shape:
                raise ValueError(
                    "tie: the output and target embeddings have other shapes; set 'none'"
                )
            head.weight = written.weight

    @property
    def encoder(self) -> StackModule:
        """The side that reads the input."""
        return self.source

    @property
    def decoder(self) -> Any:
        """The side that generates text."""
        return self.target

    @property
    def output(self) -> nn.Linear:
        """The output layer, with logits over the next token."""
        return self.head

    def forward(
        self,
        inputs: SourceTarget,
        *,
        positions: Mapping[str, Tensor] = ALL_TOKENS,
        tape: NullTape = NULL_TAPE,
    ) -> Outputs:
        """Compute the states of the target, and logits over the next token at its ``positions``."""
        target = inputs.target
        encoded = self.encode(inputs.source, tape=tape)
        side = tape.under("target")
        decoded = self.target(target.tokens_T, target.layout, source=encoded, tape=side)
        states_TD, at = decoded.states_TD, positions.get(NEXT_TOKEN)
        logits = tape("logits", self._logits(states_TD if at is None else states_TD[at]))
        return Outputs(decoded, None, {NEXT_TOKEN: logits})

    def encode(self, inputs: PackedTokens, *, tape: NullTape = NULL_TAPE) -> EncoderOutput:
        """Encode the source, for the decoder to read."""
        return self.source(inputs.tokens_T, inputs.layout, tape=tape.under("source"))

    def decode(
        self,
        tokens_T: Tensor,
        layout: Layout,
        source: EncoderOutput | None,
        *,
        cache: object = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        """Compute logits over the next token from source and target so far (or its cache)."""
        side = tape.under("target")
        decoded = self.target(tokens_T, layout, source=source, cache=cache, tape=side)
        return tape("logits", self._logits(decoded.states_TD))

    def _logits(self, states_ND: Tensor) -> Tensor:
        return self.head(states_ND if self.output_scale == 1 else states_ND * self.output_scale)


ModelFacts = TrunkWithHeads | EncoderDecoder
ModelModule = TrunkWithHeadsModule | EncoderDecoderModule
