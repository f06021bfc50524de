"""The trunk of ELMo: words, and layers that read them in both directions."""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.attention import EncoderOutput
from regard.parts.dropout import Dropout
from regard.parts.recurrent.projected_lstm import ProjectedBiLSTM, State
from regard.parts.recurrent.rnn import without_autocast


class BiLMModule(nn.Module):
    """A forward and a backward language model over the same word vectors.

    A state is [forward; backward]; that of layer 0 is the word vector twice. With ``residual``,
    layers from the second on add to their input. Dropout falls on the input of every layer and on
    the last states.

    Where tokens come in pairs, (T, 2, …), the directions read a text each, from its beginning: the
    second is the text of the backward one, in the order in which it reads.
    """

    attends = capturable = False

    def __init__(
        self,
        embed: nn.Module,
        layers: Iterable[ProjectedBiLSTM],
        *,
        residual: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embed: Any = embed
        self.blocks = nn.ModuleList(layers)
        self.residual = residual
        self.dropout = Dropout(dropout)

    def new_state(self, rows: int) -> tuple[State, ...]:
        """The state of rows of which nothing is read."""
        return tuple(cast(ProjectedBiLSTM, layer).new_state(rows) for layer in self.blocks)

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        state: tuple[State, ...] | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> EncoderOutput:
        """A state for every word; ``state`` is that after the rows before these."""
        in_pairs = tokens_T.ndim == 2 + len(self.embed.ids_per_token)
        x_TD = tape("embed.output", self._vectors(tokens_T, layout, in_pairs=in_pairs))
        ends = []
        with without_autocast(x_TD):
            for number, layer in enumerate(self.blocks):
                given_TD = self.dropout(x_TD)
                before = None if state is None else state[number]
                states_TD, end = layer(given_TD, layout, before, in_reading_order=in_pairs)
                x_TD = given_TD + states_TD if number and self.residual else states_TD
                x_TD = tape.under("blocks").under(number)("output", x_TD)
                ends.append(end)
        states_TD = tape("output", self.dropout(x_TD))
        return EncoderOutput(states_TD, layout, state=tuple(ends))

    def _vectors(self, tokens_T: Tensor, layout: Layout, *, in_pairs: bool) -> Tensor:
        """The word vector that each direction reads, side by side."""
        vectors_TD = self.embed(tokens_T.flatten(0, 1) if in_pairs else tokens_T, layout)
        vectors_TD = vectors_TD.to(next(self.blocks.parameters()).dtype)
        if in_pairs:
            return vectors_TD.view(len(tokens_T), -1)
        return torch.cat([vectors_TD, vectors_TD], dim=-1)
