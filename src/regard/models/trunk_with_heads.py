"""A trunk with a pool and heads: encoders, classifiers, language models."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, cast

from torch import Tensor, nn

from regard.core.batch import PackedTokens
from regard.core.device import draw_truncated
from regard.core.errors import BadFact, BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attend import Score
from regard.layers.attention import EncoderOutput
from regard.models.attention_site import AttentionSite
from regard.models.facts import NAMED, above_zero
from regard.models.features import LayerTape, ScalarMix
from regard.models.heads import AnyHead, NextTokenHead, read_rows
from regard.models.macs import FORWARD_AND_BACKWARD, RowLengths, vector_counts
from regard.models.pools import ANYWHERE, POOLS, AnyPool, Summaries
from regard.models.transformer import TransformerModule
from regard.models.trunk import StackModule, Trunk

ALL_TOKENS: Mapping[str, Tensor] = MappingProxyType({})
NEXT_TOKEN = "next_token"  # the head of language models and decoders
NO_POSITIONS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class TrunkWithHeads:
    """Trunk, the pool of its rows, and the heads that read tokens or pooled rows.

    With ``init_std``, all new weights are drawn from a normal distribution of that standard
    deviation, cut off at ``init_cutoff`` deviations; otherwise each layer has its own
    initialisation. With ``scaled_init``, layers whose output is added to the states, and dense
    layers of heads, have 1/√N of it, for N layers of the first kind (Radford et al., 2019, section
    2.3). With ``mix``, pool and heads read a learned mixture of the embedding and all layers
    (Peters et al., 2018, equation 1); with ``layer``, the states after that layer (0: the
    embedding).
    """

    sides: ClassVar[tuple[str, ...]] = ("trunk",)
    encoder_path: ClassVar[str] = "trunk"
    in_rectangles: ClassVar[bool] = False
    cross_attention: ClassVar[AttentionSite | None] = None  # there is no source
    trunk: Trunk
    pool: AnyPool | None = field(default=None, metadata={NAMED: POOLS})
    output_heads: tuple[AnyHead, ...] = ()
    init_std: float | None = None
    scaled_init: bool = False
    mix: bool = False
    layer: int | None = None
    init_cutoff: float | None = None

    def __post_init__(self) -> None:
        if self.mix and self.layer is not None:
            raise BadInput(
                "layer and mix cannot be used together: heads read one layer, or a mixture of all"
            )
        if self.mix and not self.trunk.stack.layers_alike:
            sizes = ", ".join(map(str, self.trunk.stack.state_widths))
            raise BadInput(f"embedding and layers must have the same size, not {sizes}", key="mix")
        if self._layers_read and self.trunk.width != self.trunk.stack.output_width:
            key = "mix" if self.mix else "layer"
            raise BadInput(f'{key} cannot be used with features at "output", which heads must read')
        above_zero(self, "init_cutoff")
        if self.init_cutoff is not None and self.init_std is None:
            raise BadFact("init_cutoff", "needs init_std, the deviation of the weights")
        if self.init_std is not None and self.trunk.stack.init == "fan-in":
            raise BadInput('init = "fan-in" cannot be used with init_std; set one of them')
        if self.scaled_init and (self.init_std is None or not self.trunk.stack.attends):
            raise BadFact("scaled_init", "needs Transformer layers and init_std")
        if self.trunk.stack.decodes:
            raise BadInput("cross = true is only for the target of an encoder-decoder")
        names = [head.name for head in self.output_heads]
        if len(set(names)) < len(names):
            raise BadInput(
                f"duplicate names in {', '.join(names)}; name each head once", key="output_heads"
            )
        if not self.trunk.embed.vocab and any(head.names_tokens for head in self.output_heads):
            raise BadInput(
                f"{', '.join(names)}: this trunk has no vocabulary to predict", key="output_heads"
            )
        per_row = ", ".join(head.name for head in self.output_heads if head.per_row)
        if self.pool is None and per_row:
            raise BadInput(f"the head {per_row} reads whole rows, and there is no pool", key="pool")

    @property
    def encoder(self) -> Trunk:
        """The side that reads the input."""
        return self.trunk

    @property
    def eager(self) -> bool:
        """Whether the model is neither compiled nor captured."""
        return self.trunk.eager or any(head.eager for head in self.output_heads)

    @property
    def writes(self) -> bool:
        """Whether it is a causal model with a next-token head."""
        return self.trunk.stack.causal and self.head(NextTokenHead.name) is not None

    @property
    def sizes(self) -> dict[str, int]:
        """The number of ids and labels, under the names that tokenizers use."""
        head = self.head("label") or self.head("token_label")
        return {**self.trunk.embed.sizes, "labels": head.outputs if head else 0}

    @property
    def summaries(self) -> Summaries:
        """Allowed places of the summary token in a row: those that the pool reads."""
        return ANYWHERE if self.pool is None else self.pool.summaries

    @property
    def attention_sites(self) -> tuple[AttentionSite, ...]:
        """The attention between the texts of a row, of the pool, and within the trunk."""
        pool = None if self.pool is None else self.pool.attention("trunk")
        stack = self.trunk.stack
        sites = (*stack.text_attention("trunk"), pool, stack.self_attention("trunk"))
        return tuple(site for site in sites if site is not None)

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the heads."""
        return tuple(head.name for head in self.output_heads)

    @property
    def layer_paths(self) -> dict[str, str]:
        """The tape path of every layer, pool and head."""
        pool = {} if self.pool is None else {"pooled": "pool.output"}
        named = (head.name for head in self.output_heads if not head.needs_positions)
        heads = {f"{name} logits": f"heads.{name}.logits" for name in named}
        return {**self.trunk.layer_paths("trunk"), **pool, **heads}

    def inputs(self, trunk: PackedTokens) -> PackedTokens:
        """The inputs of the module, from the tokens of each side."""
        return trunk

    def head(self, name: str) -> Any:
        """The head of that name, or None."""
        return next((head for head in self.output_heads if head.name == name), None)

    def with_heads(self, *heads: AnyHead) -> "TrunkWithHeads":
        """The model with these heads and no others."""
        return replace(self, output_heads=heads)

    def build(self) -> "TrunkWithHeadsModule":
        """The module with new weights."""
        prefix, read = self.trunk.embed.prefix_tokens, self.pool and self.pool.first_read
        if prefix is not None and (read or 0) > prefix:
            line = f"pool: it reads {read} tokens before the patches"
            raise BadInput(f'{line}, but prefix_tokens is {prefix}; pool = "mean" needs none')
        trunk = self.trunk.build()
        pool = None if self.pool is None else self.pool.build(self.width_read)
        heads = {
            head.name: head.build(self.trunk, trunk.embed.token, self._width_read(head))
            for head in self.output_heads
        }
        module = TrunkWithHeadsModule(self, trunk, pool, heads)
        self._draw(module)
        return module

    def _draw(self, module: "TrunkWithHeadsModule") -> None:
        """Draw the weights of the module from a normal distribution, if it has ``init_std``."""
        std, cutoff, scaled = self.init_std, self.init_cutoff, self.scaled_init
        if std is None:
            return
        for part in module.modules():
            _draw(part, std, cutoff)
        if scaled:
            residual = cast(TransformerModule, module.trunk).residual_outputs
            dense = (part for name, part in module.heads.named_modules() if name.endswith(".dense"))
            for part in (*residual, *dense):
                _draw(part, std / math.sqrt(2 * self.trunk.stack.depth), cutoff)
        for head in self.output_heads:
            if (own := head.output_std(self._width_read(head))) is not None:
                _draw(module.heads.get_submodule(f"{head.name}.out"), own, cutoff)

    @property
    def pooled_width(self) -> int:
        """The size of the pooled state of a row."""
        return self.width_read if self.pool is None else self.pool.output_width(self.width_read)

    @property
    def width_read(self) -> int:
        """The size of the states that pool and heads read."""
        widths = self.trunk.stack.state_widths
        return next((widths[number] for number in self._layers_read), self.trunk.width)

    def _width_read(self, head: AnyHead) -> int:
        return self.pooled_width if head.per_row else self.width_read

    @property
    def _layers_read(self) -> dict[int, str]:
        """Tape paths of the layers that pool and heads read, by number; empty: the last states."""
        numbers = range(self.trunk.stack.depth + 1) if self.mix else ()
        chosen = numbers if self.layer in (None, -1) else (self.layer,)
        return {number: self.trunk.state_path("", number).removeprefix(".") for number in chosen}

    def models(self, module: nn.Module) -> dict[str, tuple["TrunkWithHeads", nn.Module]]:
        """The models to save of a trained module, by folder."""
        return {"model": (self, module)}

    @property
    def _first_read(self) -> int | None:
        """The number n if pool and heads read only the first n tokens of a row; else None."""
        tokens_read = any(head.read is not read_rows for head in self.output_heads)
        return None if tokens_read or self._layers_read or not self.pool else self.pool.first_read

    def training_flops(
        self, lengths: RowLengths, positions: Mapping[str, int] = NO_POSITIONS
    ) -> float:
        """Floating-point operations of one training step over rows of these lengths.

        ``positions``: the number of tokens that a head reads, if not all.
        """
        sizes_N, trunk = vector_counts(lengths, self.trunk.embed.vectors), self.trunk.macs()
        rows, tokens, squares = len(sizes_N), int(sizes_N.sum()), int(sizes_N @ sizes_N)
        pairs = squares / (2 if self.trunk.stack.causal else 1)
        forward = trunk.token * tokens + trunk.own_pair * pairs
        if self.pool is not None:
            pool = self.pool.macs(self.width_read)
            forward += pool.token * tokens + pool.row * rows
        for head in self.output_heads:
            count = rows if head.per_row else positions.get(head.name, tokens)
            forward += count * head.macs(self.trunk, self._width_read(head))
            if head.reads_queries and head.name in positions:
                queries = self.trunk.stack.query_macs()
                pairs = count / max(1, tokens) * squares
                forward += queries.token * count + queries.own_pair * pairs
        return FORWARD_AND_BACKWARD * forward


def _draw(module: nn.Module, std: float, cutoff: float | None) -> None:
    """Draw weights from a normal distribution, and set biases to zero, except in scores."""
    if isinstance(module, nn.Linear | nn.Embedding):
        if cutoff is None or not std:
            nn.init.normal_(module.weight, std=std)
        else:
            draw_truncated(module.weight, std, cutoff)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, Score):
        module.draw_vectors(std)


class Outputs(NamedTuple):
    """The output of the trunk, pooled states of rows if there is a pool, and logits by head."""

    encoded: EncoderOutput
    pooled_BD: Tensor | None
    by_head: dict[str, Tensor]


class TrunkWithHeadsModule(nn.Module):
    """Trunk, pool of its rows, and heads over the last states or over chosen layers."""

    cross_attention = None
    decoder_path = "trunk"  # on a tape
    output_scale = 1.0  # of states before the output layer

    def __init__(
        self,
        facts: TrunkWithHeads,
        trunk: StackModule,
        pool: nn.Module | None,
        heads: Mapping[str, nn.Module],
    ):
        super().__init__()
        self.head_facts = {head.name: head for head in facts.output_heads}
        self.queries = [head.name for head in facts.output_heads if head.reads_queries]
        self.trunk, self.pool = trunk, pool
        self.heads = nn.ModuleDict(heads)
        self.mix = ScalarMix(facts.trunk.stack.depth + 1) if facts.mix else None
        self.layers, self.first = [*facts._layers_read.values()], facts._first_read
        self.reads_last_layer = not self.layers
        self.attends, self.capturable = self.trunk.attends, self.trunk.capturable

    @property
    def encoder(self) -> StackModule:
        """The side that reads the input."""
        return self.trunk

    @property
    def decoder(self) -> Any:
        """The side that generates text."""
        return self.trunk

    @property
    def output(self) -> nn.Module:
        """The output layer, with logits over the next token."""
        return self.heads[NEXT_TOKEN]

    def forward(
        self,
        inputs: PackedTokens,
        *,
        positions: Mapping[str, Tensor] = ALL_TOKENS,
        state: object = None,
        only_read: bool = False,
        tape: NullTape = NULL_TAPE,
    ) -> Outputs:
        """Compute all outputs; a token head reads the tokens at its ``positions``, default all.

        ``state`` is the state of the trunk after earlier tokens of the same rows. With
        ``only_read``, a trunk over images may leave out states that neither pool nor heads read.
        """
        more: dict[str, object] = {} if state is None else {"state": state}
        for name in positions.keys() & {*self.queries}:
            more["predicted_N"] = positions[name]
        more |= {"first": self.first} if only_read and not tape.live else {}
        return self.read(self.encode(inputs, tape=tape, **more), positions, tape)

    def read(
        self, encoded: EncoderOutput, positions: Mapping[str, Tensor], tape: NullTape = NULL_TAPE
    ) -> Outputs:
        """Compute the outputs of pool and heads."""
        pooled_BD = self.pooled(encoded, tape=tape)
        by_head: dict[str, Tensor] = {}
        for name, module in self.heads.items():
            head = self.head_facts[name]
            inputs = head.read(encoded, pooled_BD, positions.get(name))
            if inputs is not None:
                by_head |= head.run(module, inputs, tape.under("heads").under(name))
        return Outputs(encoded, pooled_BD, by_head)

    def encode(
        self, inputs: PackedTokens, *, tape: NullTape = NULL_TAPE, **more: object
    ) -> EncoderOutput:
        """Compute a state for every token; ``more`` are arguments that only some trunks have."""
        tape, tokens = tape.under("trunk"), (inputs.tokens_T, inputs.layout)
        if not self.layers:
            return self.trunk(*tokens, tape=tape, **more)
        layers = LayerTape(tape)
        encoded = self.trunk(*tokens, tape=layers, **more)
        states = [layers.outputs[path] for path in self.layers]
        if self.mix is None:
            return EncoderOutput(states[0], encoded.layout, state=encoded.state)
        mixed_TD = tape("mix.output", self.mix(states, tape.under("mix")))
        return EncoderOutput(mixed_TD, encoded.layout, state=encoded.state)

    def pooled(self, encoded: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor | None:
        """Compute one state for every row, if there is a pool."""
        if self.pool is None:
            return None
        return tape("pool.output", self.pool(encoded, tape=tape.under("pool")))

    def decode(
        self,
        tokens_T: Tensor,
        layout: Layout,
        source: EncoderOutput | None = None,
        *,
        cache: object = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        """Compute logits over the next token from the tokens so far (or their cache)."""
        cached = {} if cache is None else {"cache": cache}  # not every trunk has one
        encoded = self.encode(PackedTokens(tokens_T, layout), tape=tape, **cached)
        return tape(f"heads.{NEXT_TOKEN}.logits", self.output(encoded.states_TD))
