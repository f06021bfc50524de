"""A model that reads a source and writes a target: two sides, and the map to words."""

from typing import Any

from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.facts import PairFacts
from regard.parts.attention import EncoderOutput


class Pair(nn.Module):
    """Source and target sides and the map to words, tied as the facts say.

    A side has ``embed``, and answers tokens and a layout with states. ``eager`` models are neither
    compiled nor captured, and their batches have free shapes on every device.
    """

    eager = False

    def __init__(self, facts: PairFacts, source: nn.Module, target: nn.Module):
        super().__init__()
        if facts.tie not in ("all", "target", "none"):
            raise ValueError(f"tie is 'all', 'target' or 'none', not {facts.tie!r}")
        self.source: Any = source
        self.target: Any = target
        vocab = facts.target.embed.vocab
        self.head = nn.Linear(facts.target.stack.states, vocab, bias=facts.head_bias)
        if facts.head_bias:
            nn.init.zeros_(self.head.bias)
        sides: tuple[Any, Any] = (source, target)
        read, written = (side.embed.token for side in sides)
        if facts.tie == "all":
            if read.weight.shape != written.weight.shape:
                raise ValueError("source and target share embeddings only if their shapes agree")
            written.weight = read.weight
        if facts.tie != "none":
            if self.head.weight.shape != written.weight.shape:
                raise ValueError("words share target embeddings only if their shapes agree")
            self.head.weight = written.weight

    def forward(
        self,
        source_T: Tensor,
        source: Layout,
        target_T: Tensor,
        target: Layout,
        *,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        """Logits over the next token at every place of the target."""
        return self.decode(target_T, target, self.encode(source_T, source, tape=tape), tape=tape)

    def encode(
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> EncoderOutput:
        """The source as the decoder sees it."""
        return EncoderOutput(self.source(tokens_T, layout, tape=tape.under("source")), layout)

    def decode(
        self,
        tokens_T: Tensor,
        layout: Layout,
        source: EncoderOutput | None,
        *,
        cache: Any = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        """Logits over the next token, given the source and what was written (or its memory)."""
        states_TD = self.target(
            tokens_T, layout, source=source, cache=cache, tape=tape.under("target")
        )
        return tape("logits", self.head(states_TD))
