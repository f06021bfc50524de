"""ELMo (Peters et al., 2018, arXiv:1802.05365): contextual word vectors of a bidirectional language
model. Word vectors are computed from characters; a forward and a backward LSTM language model of
two layers share word vectors and softmax, and are trained jointly. The embedding and both
layers, mixed by learned weights, are features for other models.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.layers.dropout import Dropout
from regard.layers.recurrent.projected_lstm import ProjectedBiLSTM, State
from regard.layers.recurrent.rnn import without_autocast
from regard.models.characters import Characters
from regard.models.embedding import AnyEmbedding
from regard.models.facts import above_zero, at_least, change, share
from regard.models.heads import AnyHead, VocabularyLinear
from regard.models.macs import MACs
from regard.models.paper import Paper
from regard.models.trunk import AnyStack, StackModule, Trunk
from regard.models.trunk_with_heads import TrunkWithHeads


@dataclass(frozen=True)
class BiLMStack(AnyStack):
    """Stack of N LSTM layers per direction, with ``cells`` and states projected to ``width``.

    Both directions read the same word vectors, and the state of a word is [forward; backward]
    (Peters et al., 2018). Memory cells and projections are clipped to ±``cell_clip`` and
    ±``projection_clip``; None does not clip. ``residual``: from the second layer on. ``dropout`` is
    applied to the input of every layer and to the last states. ``state_dropout`` is the probability
    that a row of a training batch starts anew, and not from the state that is carried to it (Melis
    et al., 2018): without it, the beginning of a text is hardly ever trained.
    """

    eager: ClassVar[bool] = True
    carries_state: ClassVar[bool] = True
    two_directions: ClassVar[bool] = True
    width: int
    cells: int
    depth: int = 2
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    residual: bool = True
    dropout: float = 0.1
    state_dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least(1, self, "width", "cells", "depth")
        above_zero(self, "cell_clip", "projection_clip")
        share(self, "dropout", "state_dropout")

    @property
    def output_width(self) -> int:
        return 2 * self.width

    @property
    def state_widths(self) -> tuple[int, ...]:
        return (self.output_width,) * (1 + self.depth)

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "BiLMModule":
        return BiLMModule(self, embed)

    def macs(self, source: AnyStack | None = None) -> MACs:
        layer = 2 * self.width * 4 * self.cells + self.cells * self.width
        return MACs(2 * self.depth * layer)


class BiLMModule(StackModule):
    """A forward and a backward language model over the same word vectors.

    A state is [forward; backward]; layer 0 is the word vector twice. With ``residual``, layers from
    the second on add to their input. Dropout is applied to the input of every layer and to the last
    states.

    If tokens come in pairs, (T, 2, …), each direction reads its own text from the beginning: the
    second token is the backward model's, in its reading order.
    """

    def __init__(self, stack: BiLMStack, embed: AnyEmbedding):
        super().__init__()
        clips = {"cell_clip": stack.cell_clip, "projection_clip": stack.projection_clip}
        layers = [
            ProjectedBiLSTM(stack.width, stack.width, stack.cells, **clips)
            for _ in range(stack.depth)
        ]
        self.embed = embed.build(stack.input_width, 0.0)
        self.blocks = nn.ModuleList(layers)
        self.residual, self.dropout = stack.residual, Dropout(stack.dropout)
        self.state_dropout = stack.state_dropout

    def new_state(self, rows: int) -> tuple[State, ...]:
        """Initial state of rows, before any word."""
        return tuple(cast(ProjectedBiLSTM, layer).new_state(rows) for layer in self.blocks)

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        state: tuple[State, ...] | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> EncoderOutput:
        """A state for every word; ``state`` is the state after the preceding rows."""
        in_pairs = tokens_T.ndim == 2 + len(self.embed.ids_per_token)
        x_TD = tape("embed.output", self._vectors(tokens_T, layout, in_pairs, tape.under("embed")))
        ends, begins = [], None if state is None else self._with_restarts(state)
        with without_autocast(x_TD):
            for number, layer in enumerate(self.blocks):
                given_TD = self.dropout(x_TD)
                begin = None if begins is None else begins[number]
                inner = tape.under("blocks").under(number)
                states_TD, end = layer(given_TD, layout, begin, flipped=in_pairs, tape=inner)
                x_TD = given_TD + states_TD if number and self.residual else states_TD
                x_TD = inner("output", x_TD)
                ends.append(end)
        states_TD = tape("output", self.dropout(x_TD))
        return EncoderOutput(states_TD, layout, state=tuple(ends))

    def _with_restarts(self, state: tuple[State, ...]) -> tuple[State, ...]:
        """In training, the carried state with zeros for rows drawn by ``state_dropout``."""
        if not self.training or not self.state_dropout:
            return state
        h_B2D = state[0][0]
        keeps_B11 = torch.rand(len(h_B2D), 1, 1, device=h_B2D.device) >= self.state_dropout
        return tuple((h * keeps_B11, c * keeps_B11) for h, c in state)

    def _vectors(self, tokens_T: Tensor, layout: Layout, in_pairs: bool, tape: NullTape) -> Tensor:
        """The word vectors that the two directions read, concatenated."""
        vectors_TD = self.embed(tokens_T.flatten(0, 1) if in_pairs else tokens_T, layout, tape)
        vectors_TD = vectors_TD.to(next(self.blocks.parameters()).dtype)
        if in_pairs:
            return vectors_TD.view(len(tokens_T), -1)
        return torch.cat([vectors_TD, vectors_TD], dim=-1)


@dataclass(frozen=True)
class BiLMHead(AnyHead):
    """Head that predicts the next word from forward states, the previous word from backward states.

    Both directions share the vectors of ``words`` words (Peters et al., 2018).
    """

    name: ClassVar[str] = "bilm"
    words: int = 793_471

    def __post_init__(self) -> None:
        at_least(1, self, "words")

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "BiLMHeadModule":
        return BiLMHeadModule(self, width // 2)

    def macs(self, trunk: Trunk, width: int) -> int:
        return width * self.words


class BiLMHeadModule(nn.Module):
    """Module of the biLM head: logits (T, 2, words) of both directions, one vector per word."""

    def __init__(self, head: BiLMHead, width: int):
        super().__init__()
        self.out = VocabularyLinear(width, head.words)
        nn.init.normal_(self.out.weight, std=width**-0.5)
        nn.init.zeros_(self.out.bias)

    def forward(self, states_TD: Tensor) -> Tensor:
        return self.out(states_TD.unflatten(-1, (2, -1)))


FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1_024))
ORIGINAL = TrunkWithHeads(
    trunk=Trunk(Characters(filters=FILTERS, highways=2), BiLMStack(width=512, cells=4_096))
)
MEDIUM = change(ORIGINAL, width=256, cells=2_048, highways=1)
SMALL = change(ORIGINAL, width=128, cells=1_024, highways=1)
PAPER = Paper(
    name="ELMo",
    year=2018,
    title="Deep contextualized word representations",
    authors=(
        "Matthew E. Peters, Mark Neumann, Mohit Iyyer, Matt Gardner, Christopher Clark, "
        "Kenton Lee, Luke Zettlemoyer"
    ),
    arxiv="1802.05365",
    after="TagLM",
    sizes={"small": SMALL, "medium": MEDIUM, "original": ORIGINAL},
    published={"small": 13_600_000, "medium": 28_000_000, "original": 93_600_000},
    tokenizer="characters",
    pretraining={"bilm": {}},
)
