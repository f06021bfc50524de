"""A trunk with a pool and heads: one forward pass for encoders, classifiers and language models."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.ground.batch import PackedTokens
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, LayerTape, NullTape
from regard.parts.attention import EncoderOutput
from regard.parts.scalar_mix import ScalarMix

ALL_TOKENS: Mapping[str, Tensor] = MappingProxyType({})
NEXT_TOKEN = "next_token"  # the head of language models and decoders


class Outputs(NamedTuple):
    """States of tokens, pooled states of rows if there is a pool, and the logits of each head.

    ``tokens_T`` are the tokens that were read, where a generator replaced those of the inputs;
    ``teacher`` are the outputs of a teacher for the same inputs, in distillation. ``state`` is what
    a trunk that was given one carries on to the next tokens of the same rows. ``undropped_TD`` are
    the states before the last dropout, where a trunk tells them. ``before_mean`` has, by head, the
    logits (count, N, V) whose mean is in ``by_head``.
    """

    states_TD: Tensor
    pooled_BD: Tensor | None
    by_head: dict[str, Tensor]
    tokens_T: Tensor | None = None
    teacher: Any = None
    state: Any = None
    undropped_TD: Tensor | None = None
    before_mean: Mapping[str, Tensor] = MappingProxyType({})


class TrunkWithHeadsModule(nn.Module):
    """A trunk, a pool of its rows, and heads; those ``per_row`` read the pooled state.

    Heads of ``spans`` read states around the tokens at their positions, and nothing without these;
    heads of ``queries`` read the query stream of the trunk at their positions; those of ``layouts``
    are given the layout of the rows as well; those of ``averaged`` give several logits, whose mean
    is predicted. Pool and heads read the last states, or those of ``layers``, by their paths in the
    trunk: one, or several with a ``mix``. Where both read only the ``first`` tokens of a row, it
    says how many.
    """

    cross_attention = None

    def __init__(
        self,
        trunk: nn.Module,
        pool: nn.Module | None,
        heads: Mapping[str, nn.Module],
        per_row: frozenset[str],
        spans: frozenset[str] = frozenset(),
        queries: frozenset[str] = frozenset(),
        layouts: frozenset[str] = frozenset(),
        averaged: frozenset[str] = frozenset(),
        mix: ScalarMix | None = None,
        layers: Sequence[str] = (),
        first: int | None = None,
    ):
        super().__init__()
        self.per_row, self.spans, self.queries, self.layouts = per_row, spans, queries, layouts
        self.averaged = averaged
        self.trunk: Any = trunk
        self.pool = pool
        self.heads = nn.ModuleDict(heads)
        self.mix, self.layers, self.first = mix, tuple(layers), first

    @property
    def main(self) -> "TrunkWithHeadsModule":
        """The model that is trained: itself."""
        return self

    @property
    def encoder(self) -> Any:
        """The side that reads the input."""
        return self.trunk

    @property
    def decoder(self) -> Any:
        """The side that writes."""
        return self.trunk

    @property
    def output(self) -> nn.Module:
        """The layer of logits over the next token."""
        return self.heads[NEXT_TOKEN]

    @property
    def attends(self) -> bool:
        """Whether the trunk is blocks of attention."""
        return self.trunk.attends

    @property
    def capturable(self) -> bool:
        """Whether decoding with it can be captured."""
        return self.trunk.capturable

    @property
    def reads_last_layer(self) -> bool:
        """Whether pool and heads read the last states, and no others."""
        return not self.layers

    def forward(
        self,
        inputs: PackedTokens,
        *,
        positions: Mapping[str, Tensor] = ALL_TOKENS,
        state: Any = None,
        only_read: bool = False,
        tape: NullTape = NULL_TAPE,
    ) -> Outputs:
        """All outputs; a head of tokens reads those at its ``positions``, default all of them.

        ``state`` is what the trunk carries on from earlier tokens of the same rows. With
        ``only_read``, a trunk over images may leave out states that neither pool nor heads read.
        """
        predicted = [positions[name] for name in self.queries if name in positions]
        more: dict[str, Any] = {"predicted_N": predicted[0]} if predicted else {}
        more |= {} if state is None else {"state": state}
        more |= {"first": self.first} if only_read and not tape.live else {}
        encoded = self.encode(inputs, tape=tape, **more)
        pooled_BD = self.pooled(encoded, tape=tape)
        by_head: dict[str, Tensor] = {}
        before_mean: dict[str, Tensor] = {}
        for name, head in self.heads.items():
            read: list[Any] = [pooled_BD if name in self.per_row else encoded.states_TD]
            if name in self.spans:
                if name not in positions:
                    continue
                read.append(positions[name])
            elif name in positions and name in self.queries:
                read = [encoded.queries_ND]
            elif name in positions:
                read = [encoded.states_TD[positions[name]]]
            read += [encoded.layout] if name in self.layouts else []
            logits = head(*read)
            if name in self.averaged:
                before_mean[name], logits = logits, logits.mean(0)
            by_head[name] = tape(f"heads.{name}.logits", logits)
        return Outputs(
            encoded.states_TD,
            pooled_BD,
            by_head,
            state=encoded.state,
            undropped_TD=encoded.undropped_TD,
            before_mean=before_mean,
        )

    def encode(
        self, inputs: PackedTokens, *, tape: NullTape = NULL_TAPE, **more: Any
    ) -> EncoderOutput:
        """A state for every token; ``more`` is what only a trunk of that kind is given."""
        tape, given = tape.under("trunk"), (inputs.tokens_T, inputs.layout)
        if not self.layers:
            return self.trunk(*given, tape=tape, **more)
        layers = LayerTape(tape)
        encoded = self.trunk(*given, tape=layers, **more)
        states = [layers.outputs[path] for path in self.layers]
        read_TD = states[0] if self.mix is None else tape("mix.output", self.mix(states))
        return encoded._replace(states_TD=read_TD, ends=None, undropped_TD=None)

    def pooled(self, encoded: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor | None:
        """One state for every row, if there is a pool."""
        if self.pool is None:
            return None
        return tape("pool.output", self.pool(encoded, tape=tape.under("pool")))

    def decode(
        self,
        tokens_T: Tensor,
        layout: Layout,
        source: EncoderOutput | None = None,
        *,
        cache: Any = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        """Logits over the next token, given the tokens so far (or their cache); has no source."""
        cached = {} if cache is None else {"cache": cache}  # other trunks than attention have none
        encoded = self.encode(PackedTokens(tokens_T, layout), tape=tape, **cached)
        return tape(f"heads.{NEXT_TOKEN}.logits", self.output(encoded.states_TD))
