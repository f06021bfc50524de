"""An encoder that sees both ways, and what is read off its states: words, pairs, labels."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.facts import EncoderFacts, Facts
from regard.models.stack import Trunk
from regard.parts.dropout import Dropout
from regard.parts.mlp import ACTIVATIONS


class Outputs(NamedTuple):
    """What an encoder says of a batch; ``None`` where it has no head for it."""

    states_TD: Tensor
    pooled_BD: Tensor | None
    words_NV: Tensor | None
    follows_BV: Tensor | None


class Words(nn.Module):
    """Which word stands at a place: a layer, a norm, and a vector for each word."""

    def __init__(self, facts: EncoderFacts, words: nn.Embedding):
        super().__init__()
        width, stack = facts.stack.width, facts.stack
        self.dense = nn.Linear(width, width)
        self.activation = ACTIVATIONS[stack.activation]
        self.norm = nn.LayerNorm(width, eps=stack.eps)
        self.out = nn.Linear(width, facts.embed.vocab)
        if facts.tied:
            self.out.weight = words.weight

    def forward(self, states_ND: Tensor) -> Tensor:
        return self.out(self.norm(self.activation(self.dense(states_ND))))


class Encoder(nn.Module):
    """The stack with the heads it was pre-trained with, if any."""

    def __init__(self, facts: EncoderFacts):
        super().__init__()
        width = facts.stack.width
        self.segments = facts.embed.segments
        self.trunk = Trunk(Facts(facts.embed, facts.stack))
        self.pool = nn.Linear(width, width) if facts.pooled else None
        self.words = Words(facts, self.trunk.embed.token) if facts.fills else None
        self.follows = nn.Linear(width, 2) if facts.follows else None
        self.apply(lambda module: _draw(module, facts.spread))

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        chosen_N: Tensor | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> Outputs:
        """Everything it can say; words at the ``chosen_N`` tokens, or at all of them."""
        states_TD = self.encode(tokens_T, layout, tape=tape)
        pooled_BD = self.pooled(states_TD, layout, tape)
        words_NV = follows_BV = None
        if self.words is not None:
            places_ND = states_TD if chosen_N is None else states_TD[chosen_N]
            words_NV = tape("words", self.words(places_ND))
        if self.follows is not None:
            follows_BV = tape("follows", self.follows(pooled_BD))
        return Outputs(states_TD, pooled_BD, words_NV, follows_BV)

    def encode(self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE) -> Tensor:
        """A state for every token."""
        return self.trunk(tokens_T, layout, tape=tape.under("trunk"))

    def pooled(
        self, states_TD: Tensor, layout: Layout, tape: NullTape = NULL_TAPE
    ) -> Tensor | None:
        """The first state of each row, taken through a layer; any for a row without tokens."""
        if self.pool is None:
            return None
        firsts_B = layout.offsets[:-1].long().clamp(max=states_TD.shape[0] - 1)
        return tape("pooled", torch.tanh(self.pool(states_TD[firsts_B])))


class Tuned(Encoder):
    """An encoder with a layer for a task: logits for each row, or for each token."""

    def __init__(self, facts: EncoderFacts):
        super().__init__(facts)
        assert facts.head is not None
        self.of_rows = facts.head.of_rows
        self.dropout = Dropout(facts.head.dropout)
        self.head = nn.Linear(facts.stack.width, facts.head.outputs)
        _draw(self.head, facts.spread)

    def forward(  # type: ignore[override]
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> Tensor:
        states_TD = self.encode(tokens_T, layout, tape=tape)
        read = self.pooled(states_TD, layout, tape) if self.of_rows else states_TD
        return tape("logits", self.head(self.dropout(read)))


def build(facts: EncoderFacts) -> Encoder:
    """The encoder of these facts."""
    return Encoder(facts) if facts.head is None else Tuned(facts)


def _draw(module: nn.Module, spread: float) -> None:
    """New weights as the field draws them: normal, and no bias."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=spread)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
