"""Models of two texts: encode each, attend from each to the other, compose and pool both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.core.errors import BadFact
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attend import Dot, Score, attend, other_text
from regard.layers.attention import EncoderOutput
from regard.layers.batch_norm import RowBatchNorm
from regard.layers.dropout import Dropout
from regard.layers.recurrent.bridge import mean_state
from regard.layers.recurrent.rnn import KERNELS, NOTHING, RNNLayer, without_autocast
from regard.layers.recurrent.rnn_attention import Maxout
from regard.models.attention_site import AttentionSite
from regard.models.characters import Highway
from regard.models.embedding import AnyEmbedding
from regard.models.facts import at_least, one_of, share
from regard.models.macs import MACs
from regard.models.pools import AnyPool, max_state
from regard.models.rnn import GATES
from regard.models.trunk import AnyStack, StackModule

Comparison = Callable[[Tensor, Tensor], Tensor]
COMPARISONS: dict[str, Comparison] = {
    "state": lambda state_TD, context_TD: state_TD,
    "context": lambda state_TD, context_TD: context_TD,
    "difference": lambda state_TD, context_TD: state_TD - context_TD,
    "product": lambda state_TD, context_TD: state_TD * context_TD,
}
"""Functions of the state of a token and of its context, the mean of the states it attends to."""
INPUT_LAYERS = ("none", "dense", "highway")
HIGHWAYS = 2


@dataclass(frozen=True)
class TextPairStack(AnyStack):
    """Bidirectional recurrent layers over two texts, with attention from each to the other.

    The first layer encodes each text of a row. Each token attends to the tokens of the other text
    (in a row of one text: to that text), and ``comparison`` names the functions of its state and of
    its context, among ``COMPARISONS``, whose results are concatenated. The layers above compose the
    comparisons of each text, after a ReLU layer of size ``width`` if ``projected``. The
    ``input_layer`` between token vectors and the first layer is "none", "dense" (a ReLU layer of
    size ``width``) or "highway" (two of them). ``dropout`` is applied to token vectors and to the
    input of every other layer.
    """

    eager: ClassVar[bool] = True
    joins_features: ClassVar[bool] = True
    segments: ClassVar[int] = 2
    width: int
    embedding: int
    depth: int = 2
    cell: str = "lstm"
    input_layer: str = "none"
    comparison: tuple[str, ...] = tuple(COMPARISONS)
    projected: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least(1, self, "width", "embedding")
        at_least(2, self, "depth")
        share(self, "dropout")
        one_of(KERNELS, "cell", self.cell)
        one_of(INPUT_LAYERS, "input_layer", self.input_layer)
        for name in self.comparison:
            one_of(COMPARISONS, "comparison", name)
        if not self.comparison:
            raise BadFact("comparison", "is empty: name at least one function of state and context")

    @property
    def takes_rectangles(self) -> bool:
        return False

    @property
    def input_width(self) -> int:
        return self.embedding

    @property
    def output_width(self) -> int:
        return 2 * self.width

    @property
    def state_widths(self) -> tuple[int, ...]:
        return (self.embedding, *[2 * self.width] * (self.depth - 1), self.output_width)

    @property
    def projected_width(self) -> int:
        """The size of the ReLU layer over comparisons, if there is one."""
        return self.width

    def compared_width(self, joined: int = 0) -> int:
        """The size of all comparisons of a token; ``joined``: of features beside its state."""
        return len(self.comparison) * (2 * self.width + joined)

    def layer_inputs(self, joined: Mapping[int, int] = NOTHING) -> list[int]:
        """The size of the input of each layer, with features ``joined`` after some of them."""
        encoded = self.width if self.input_layer == "dense" else self.embedding
        compared = self.compared_width(joined.get(1, 0))
        composed = self.projected_width if self.projected else compared
        above = (2 * self.width + joined.get(number, 0) for number in range(2, self.depth))
        return [encoded, composed, *above]

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "TextPairModule":
        return TextPairModule(self, embed)

    def macs(self, source: AnyStack | None = None) -> MACs:
        sizes = self.layer_inputs()
        layers = sum(2 * GATES[self.cell] * self.width * (size + self.width) for size in sizes)
        dense = self.embedding * self.width if self.input_layer == "dense" else 0
        highways = HIGHWAYS * 2 * self.embedding**2 if self.input_layer == "highway" else 0
        projection = self.compared_width() * self.projected_width if self.projected else 0
        return MACs(layers + dense + highways + projection, own_pair=4 * self.width)

    def joined_macs(self, size: int) -> int:
        outputs = self.projected_width if self.projected else 2 * GATES[self.cell] * self.width
        return len(self.comparison) * size * outputs

    def text_attention(self, side: str) -> tuple[AttentionSite, ...]:
        return (AttentionSite(side, "alignment", (1,), f"{side}.alignment"),)


class TextPairModule(StackModule):
    """Embedding and recurrent layers over two texts, with attention after the first layer."""

    def __init__(self, facts: TextPairStack, embed: AnyEmbedding):
        super().__init__()
        self.embed = embed.build(facts.embedding, facts.dropout)
        self.input_layer = _build_input_layer(facts)
        self.layers = nn.ModuleList(
            RNNLayer(facts.cell, size, facts.width, reads="both")
            for size in facts.layer_inputs(embed.joined)
        )
        self.score: Score = Dot()
        self.comparison = [COMPARISONS[name] for name in facts.comparison]
        compared = facts.compared_width(embed.joined.get(1, 0))
        dense = nn.Sequential(nn.Linear(compared, facts.projected_width), nn.ReLU())
        self.projection = dense if facts.projected else nn.Identity()
        self.dropout = Dropout(facts.dropout)

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        joined: Mapping[int, Tensor] = NOTHING,
        tape: NullTape = NULL_TAPE,
    ) -> EncoderOutput:
        """Compute a state for every token; features may be ``joined`` to states of a layer."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout, tape.under("embed")))
        states_TD = self.run_layer(0, self.input_layer(x_TD), layout, joined, tape)
        compared_TD = tape("comparison", self.compare(states_TD, layout, tape))
        states_TD = self.compose(compared_TD, layout, joined, tape)
        return EncoderOutput(tape("output", states_TD), layout)

    def run_layer(
        self,
        number: int,
        x_TD: Tensor,
        layout: Layout,
        joined: Mapping[int, Tensor],
        tape: NullTape,
    ) -> Tensor:
        """States of both texts after a layer, with the features that join them there."""
        layer = self.layers[number]
        x_TD = (self.dropout(x_TD) if number else x_TD).to(next(layer.parameters()).dtype)
        with without_autocast(x_TD):
            inner = tape.under("blocks").under(number)
            states_TD, _ = layer(x_TD, layout.texts, tape=inner)
        states_TD = inner("output", states_TD)
        if (features_TD := joined.get(number + 1)) is None:
            return states_TD
        return torch.cat([states_TD, features_TD.to(states_TD.dtype)], dim=-1)

    def compare(self, states_TD: Tensor, layout: Layout, tape: NullTape) -> Tensor:
        """Comparisons of each token with the other text."""
        context_TD = self.align(self.score, states_TD, layout, tape)
        return torch.cat([compare(states_TD, context_TD) for compare in self.comparison], dim=-1)

    def align(
        self, score: Callable[..., Tensor], states_TD: Tensor, layout: Layout, tape: NullTape
    ) -> Tensor:
        """Context of each token: the mean of the states of the other text, by attention."""
        x_THK, tape = states_TD[:, None], tape.under("alignment")
        run = partial(attend, queries=layout, keys=layout, mask=other_text, tape=tape)
        return run(score, x_THK, x_THK, x_THK)[:, 0]

    def compose(
        self, compared_TD: Tensor, layout: Layout, joined: Mapping[int, Tensor], tape: NullTape
    ) -> Tensor:
        """States of both texts after all layers, from the comparisons."""
        x_TD = self.projection(compared_TD)
        for number in range(1, len(self.layers)):
            x_TD = self.run_layer(number, x_TD, layout, joined, tape)
        return x_TD


def _build_input_layer(facts: TextPairStack) -> nn.Module:
    if facts.input_layer == "dense":
        return nn.Sequential(nn.Linear(facts.embedding, facts.width), nn.ReLU())
    highways = HIGHWAYS if facts.input_layer == "highway" else 0
    return nn.Sequential(*(Highway(facts.embedding) for _ in range(highways)))


def attend_to_texts(
    scores_T: Tensor, values_TD: Tensor, layout: Layout, tape: NullTape = NULL_TAPE
) -> Tensor:
    """Mean of the values of each text of a row, (B, 2, D), by attention with these scores.

    A row has one query, with a head for each text; an empty text gets zeros.
    """
    queries = Layout.rectangle(layout.rows, 1, values_TD.device)
    text_BS, scores_BS = layout.pad(layout.text_T), layout.pad(scores_T)
    elsewhere_BHS = text_BS[:, None] != torch.arange(2, device=text_BS.device)[:, None]
    scores_BHLS = scores_BS[:, None].masked_fill(elsewhere_BHS, -torch.inf)[:, :, None]
    q_THK, v_THK = values_TD.new_zeros(layout.rows, 2, 1), values_TD[:, None]

    def computed(*inputs: object) -> Tensor:
        return scores_BHLS

    return attend(computed, q_THK, v_THK[..., :1], v_THK, queries=queries, keys=layout, tape=tape)


def min_state(source: EncoderOutput) -> Tensor:
    """The minimum over the states of every row, by dimension; zeros for empty rows."""
    return -max_state(source._replace(states_TD=-source.states_TD))


ATTENTION = "attention"
PARTS: dict[str, Callable[[EncoderOutput], Tensor]] = {
    "mean": mean_state,
    "max": max_state,
    "min": min_state,
}


@dataclass(frozen=True)
class TextsPool(AnyPool):
    """Pool of each text of a row, concatenated; a row of one text counts as that text twice.

    A text is pooled by several ``parts``: "mean", "max", "min" and "attention", the mean weighted
    by the softmax of v·h with a learned v. Layers of ``hidden`` sizes follow, of kind "tanh" or
    "maxout", with ``pool_dropout`` on the input of each, after batch norm if ``normed``.
    """

    parts: tuple[str, ...] = ("mean", "max")
    hidden: tuple[int, ...] = ()
    hidden_kind: str = "tanh"
    normed: bool = False
    pool_dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least(1, self, "hidden")
        share(self, "pool_dropout")
        one_of(HIDDEN_KINDS, "hidden_kind", self.hidden_kind)
        for name in self.parts:
            one_of([*PARTS, ATTENTION], "part of a pool", name)
        if not self.parts:
            raise BadFact("parts", "is empty: a pool needs at least one part")

    def sizes(self, width: int) -> tuple[int, ...]:
        """The sizes of the joined parts of both texts, and of the output of each hidden layer."""
        return (2 * len(self.parts) * width, *self.hidden)

    def build(self, width: int) -> "TextsPoolModule":
        return TextsPoolModule(self, width)

    def output_width(self, width: int) -> int:
        return self.sizes(width)[-1]

    def macs(self, width: int) -> MACs:
        score = 3 * width if ATTENTION in self.parts else 0  # two heads take a mean
        pieces = 2 if self.hidden_kind == "maxout" else 1
        hidden = sum(pieces * one * other for one, other in pairwise(self.sizes(width)))
        return MACs(score, row=hidden)

    def attention(self, side: str) -> AttentionSite | None:
        return AttentionSite(side, "pool", (2,), "pool") if ATTENTION in self.parts else None


class TextsPoolModule(nn.Module):
    """Module of the pool of each text."""

    def __init__(self, pool: TextsPool, width: int):
        super().__init__()
        self.parts = pool.parts
        self.score = nn.Linear(width, 1, bias=False) if ATTENTION in pool.parts else None
        self.hidden = nn.ModuleList(HiddenLayer(pool, *s) for s in pairwise(pool.sizes(width)))

    def forward(self, encoded: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor:
        """Return the pooled states, (B, D); meaningless, but finite, for empty rows."""
        pooled_B2D = torch.cat([self._pool(name, encoded, tape) for name in self.parts], dim=-1)
        first_BD, second_BD = pooled_B2D.unbind(1)
        single_B = encoded.layout.texts.empty_B[1::2]
        second_BD = torch.where(single_B[:, None], first_BD, second_BD)
        x_BD = tape("parts", torch.cat([first_BD, second_BD], dim=-1))
        for layer in self.hidden:
            x_BD = layer(x_BD, encoded.layout)
        return x_BD

    def _pool(self, name: str, encoded: EncoderOutput, tape: NullTape) -> Tensor:
        """One part of both texts of each row, (B, 2, D)."""
        states_TD, layout = encoded.states_TD, encoded.layout
        if self.score is not None and name == ATTENTION:
            return attend_to_texts(self.score(states_TD)[:, 0], states_TD, layout, tape)
        return PARTS[name](EncoderOutput(states_TD, layout.texts)).unflatten(0, (-1, 2))


class HiddenLayer(nn.Module):
    """Hidden layer of a pool, after batch norm of its input if the pool has it, and dropout."""

    def __init__(self, pool: TextsPool, inputs: int, size: int):
        super().__init__()
        self.norm = RowBatchNorm(inputs) if pool.normed else None
        self.dropout = Dropout(pool.pool_dropout)
        self.dense = HIDDEN_KINDS[pool.hidden_kind](inputs, size)

    def forward(self, x_BD: Tensor, layout: Layout) -> Tensor:
        x_BD = x_BD if self.norm is None else self.norm(x_BD, layout)
        return self.dense(self.dropout(x_BD))


def _tanh_layer(inputs: int, size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, size), nn.Tanh())


HIDDEN_KINDS: dict[str, Callable[[int, int], nn.Module]] = {"tanh": _tanh_layer, "maxout": Maxout}
"""Hidden layers of pools, by kind, built from the sizes of input and output."""
