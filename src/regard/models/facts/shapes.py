"""The two shapes of models: a trunk with heads, and an encoder with a decoder."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar

from torch import nn

from regard.ground.batch import PackedTokens, SourceTarget
from regard.ground.errors import BadInput
from regard.models.build.encoder_decoder import EncoderDecoderModule
from regard.models.build.trunk_with_heads import TrunkWithHeadsModule
from regard.models.facts.checks import one_of
from regard.models.facts.flops import FORWARD_AND_BACKWARD
from regard.models.facts.heads import AnyHead, NextTokenHead
from regard.models.facts.pools import ANYWHERE, AnyPool, Summaries
from regard.models.facts.trunk import Trunk
from regard.models.sites import AttentionSite
from regard.parts.relative_score import RelativeDot
from regard.parts.scalar_mix import ScalarMix

TIES = ("all", "target", "none")
NO_POSITIONS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class TrunkWithHeads:
    """One trunk, the pool of its rows, and the heads that read tokens or pooled rows.

    With ``init_std``, all new weights are drawn from a normal distribution of that standard
    deviation; otherwise each layer draws its own. With ``scaled_init``, layers whose output is
    added to the states have 1/√N of it, for N such layers (Radford et al., 2019, section 2.3).
    With ``mix``, pool and heads read a learned mixture of the embedding and all layers (Peters et
    al., 2018, equation 1); with ``layer``, the states after that layer (0: the embedding).
    """

    sides: ClassVar[tuple[str, ...]] = ("trunk",)
    encoder_path: ClassVar[str] = "trunk"
    in_rectangles: ClassVar[bool] = False
    trunk: Trunk
    pool: AnyPool | None = None
    output_heads: tuple[AnyHead, ...] = ()
    init_std: float | None = None
    scaled_init: bool = False
    mix: bool = False
    layer: int | None = None

    def __post_init__(self) -> None:
        if self.mix and self.layer is not None:
            raise BadInput("layer: heads read one layer, or a mixture of all (mix)")
        if self.mix and not self.trunk.stack.layers_alike:
            sizes = ", ".join(map(str, self.trunk.stack.state_widths))
            raise BadInput(f"mix: embedding and layers differ in size ({sizes}): they do not mix")
        if self._layers_read and self.trunk.width != self.trunk.stack.output_width:
            key = "mix" if self.mix else "layer"
            raise BadInput(f"{key}: features beside the last states need heads that read these")
        if self.scaled_init and (self.init_std is None or not self.trunk.stack.attends):
            raise BadInput("scaled_init: only Transformer layers with init_std are scaled")
        if self.trunk.stack.decodes:
            raise BadInput("cross: only the target of an encoder-decoder attends to a source")
        names = [head.name for head in self.output_heads]
        if len(set(names)) < len(names):
            raise BadInput(f"output_heads: {', '.join(names)}: give each head once")
        if not self.trunk.embed.vocab and any(head.names_tokens for head in self.output_heads):
            raise BadInput(f"output_heads: {', '.join(names)}: this trunk reads no tokens to name")
        per_row = ", ".join(head.name for head in self.output_heads if head.per_row)
        if self.pool is None and per_row:
            raise BadInput(f"pool: the head {per_row} reads whole rows, and there is no pool")

    @property
    def encoder(self) -> Trunk:
        """The side that reads the input."""
        return self.trunk

    @property
    def eager(self) -> bool:
        """Whether it is neither compiled nor captured."""
        return self.trunk.eager or any(head.eager for head in self.output_heads)

    @property
    def writes(self) -> bool:
        """Whether it predicts the next token from those before it."""
        return self.trunk.stack.causal and self.head(NextTokenHead.name) is not None

    @property
    def sizes(self) -> dict[str, int]:
        """How many ids and labels it knows, under the names that tokenizers use."""
        heads = [head for head in map(self.head, ("label", "token_label")) if head is not None]
        labels = heads[0].outputs if heads else 0
        return {**self.trunk.embed.sizes, "labels": labels}

    @property
    def summaries(self) -> Summaries:
        """Where the summary token of its rows may stand: where the pool reads it."""
        return ANYWHERE if self.pool is None else self.pool.summaries

    @property
    def attention_sites(self) -> tuple[AttentionSite, ...]:
        """Its attention: that of the pool, and that of the trunk."""
        pool = None if self.pool is None else self.pool.attention("trunk")
        own = self.trunk.stack.self_attention("trunk")
        return tuple(site for site in (pool, own) if site is not None)

    @property
    def cross_attention(self) -> AttentionSite | None:
        """It has no source to attend to."""
        return None

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of its heads."""
        return tuple(head.name for head in self.output_heads)

    @property
    def layer_paths(self) -> dict[str, str]:
        """The tape path of every layer, pool and head."""
        pool = {} if self.pool is None else {"pooled": "pool.output"}
        named = (head.name for head in self.output_heads if not head.reads_spans)
        heads = {f"{name} logits": f"heads.{name}.logits" for name in named}
        return {**self.trunk.layer_paths("trunk"), **pool, **heads}

    def inputs(self, trunk: PackedTokens) -> PackedTokens:
        """What the module reads, from the tokens of its sides."""
        return trunk

    def head(self, name: str) -> Any:
        """The head of that name, if it has one."""
        return next((head for head in self.output_heads if head.name == name), None)

    def with_heads(self, *heads: AnyHead) -> "TrunkWithHeads":
        """The same trunk with these heads and no others."""
        return replace(self, output_heads=heads)

    def build(self) -> TrunkWithHeadsModule:
        """The module of these facts, with new weights."""
        prefix, read = self.trunk.embed.prefix_tokens, self.pool and self.pool.first_read
        if prefix is not None and (read or 0) > prefix:
            line = f"pool: it reads {read} of the tokens before the patches"
            raise BadInput(f'{line}, and prefix_tokens is {prefix}; pool = "mean" needs none')
        trunk: Any = self.trunk.build()
        module = TrunkWithHeadsModule(
            trunk,
            None if self.pool is None else self.pool.build(self.width_read),
            {
                head.name: head.build(self.trunk, trunk.embed.token, self._width_read(head))
                for head in self.output_heads
            },
            frozenset(head.name for head in self.output_heads if head.per_row),
            frozenset(head.name for head in self.output_heads if head.reads_spans),
            frozenset(head.name for head in self.output_heads if head.reads_queries),
            frozenset(head.name for head in self.output_heads if head.reads_layout),
            frozenset(head.name for head in self.output_heads if head.averages),
            ScalarMix(self.trunk.stack.depth + 1) if self.mix else None,
            self._layers_read,
            self._first_read,
        )
        if self.init_std is not None:
            for part in module.modules():
                _draw(part, self.init_std)
        if self.scaled_init and self.init_std is not None:
            std = self.init_std / math.sqrt(2 * self.trunk.stack.depth)
            for layer in trunk.residual_outputs:
                _draw(layer, std)
        return module

    @property
    def pooled_width(self) -> int:
        """The size of the pooled state of a row."""
        return self.width_read if self.pool is None else self.pool.output_width(self.width_read)

    @property
    def width_read(self) -> int:
        """The size of the states that pool and heads read."""
        read = [*self._numbers_read]
        return self.trunk.stack.state_widths[read[0]] if read else self.trunk.width

    def _width_read(self, head: AnyHead) -> int:
        return self.pooled_width if head.per_row else self.width_read

    @property
    def _layers_read(self) -> list[str]:
        """The paths in the trunk of the layers that pool and heads read, if not the last states."""
        paths = (self.trunk.state_path("", number) for number in self._numbers_read)
        return [path.removeprefix(".") for path in paths]

    @property
    def _numbers_read(self) -> Sequence[int]:
        """Their numbers."""
        if self.layer is None or self.layer == -1:
            return range(self.trunk.stack.depth + 1) if self.mix else ()
        return (self.layer,)

    def models(self, module: nn.Module) -> dict[str, tuple["TrunkWithHeads", nn.Module]]:
        """What is saved of a trained module, by folder."""
        return {"model": (self, module)}

    @property
    def _first_read(self) -> int | None:
        """How many first tokens of a row pool and heads read; None: others as well."""
        alone = all(head.per_row and not head.reads_layout for head in self.output_heads)
        if self.pool is None or self._layers_read or not alone:
            return None
        return self.pool.first_read

    def training_flops(
        self, lengths: Sequence[tuple[int, ...]], positions: Mapping[str, int] = NO_POSITIONS
    ) -> float:
        """Operations of one step over examples with rows of these lengths.

        ``positions``: how many tokens a head reads, where that is not all of them.
        """
        alike = Counter(chain.from_iterable(lengths))
        sizes = [(self.trunk.embed.vectors(length), count) for length, count in alike.items()]
        rows, tokens = alike.total(), sum(size * count for size, count in sizes)
        squares, reads = sum(size**2 * count for size, count in sizes), self.trunk.products()
        pairs = squares / (2 if self.trunk.stack.causal else 1)
        forward = reads.token * tokens + reads.own_pair * pairs
        if self.pool is not None:
            pool = self.pool.products(self.width_read)
            forward += pool.token * tokens + pool.row * rows
        for head in self.output_heads:
            count = rows if head.per_row else positions.get(head.name, tokens)
            forward += count * head.products(self.trunk, self._width_read(head))
            if head.reads_queries and head.name in positions:
                queries = self.trunk.stack.query_products()
                pairs = count / max(1, tokens) * squares
                forward += queries.token * count + queries.own_pair * pairs
        return FORWARD_AND_BACKWARD * forward


@dataclass(frozen=True)
class EncoderDecoder:
    """A model that reads a source and writes a target.

    ``tie``: "all" shares source, target and output embeddings, "target" the last two, "none" none.
    ``head_bias`` adds a number to the logit of every token.
    """

    sides: ClassVar[tuple[str, ...]] = ("source", "target")
    head_names: ClassVar[tuple[str, ...]] = (NextTokenHead.name,)
    encoder_path: ClassVar[str] = "source"
    writes: ClassVar[bool] = True
    source: Trunk
    target: Trunk
    tie: str = "all"
    head_bias: bool = False

    def __post_init__(self) -> None:
        one_of(TIES, "tie", self.tie)
        if self.source.stack.decodes or not self.target.stack.decodes:
            raise BadInput("cross: the target attends to a source, and only the target may")

    @property
    def encoder(self) -> Trunk:
        """The side that reads the input."""
        return self.source

    @property
    def eager(self) -> bool:
        """Whether it is neither compiled nor captured."""
        return self._recurrent and not self.in_rectangles

    @property
    def in_rectangles(self) -> bool:
        """Whether its batches on CUDA are padded rectangles, which are captured."""
        sides = self.source.stack, self.target.stack
        return self._recurrent and all(side.takes_rectangles for side in sides)

    @property
    def _recurrent(self) -> bool:
        return self.source.stack.eager or self.target.stack.eager

    @property
    def sizes(self) -> dict[str, int]:
        """How many ids it knows, under the names that tokenizers use."""
        return {
            "source tokens": self.source.embed.vocab,
            "target tokens": self.target.embed.vocab,
        }

    @property
    def summaries(self) -> Summaries:
        """It has no pool: anywhere."""
        return ANYWHERE

    @property
    def attention_sites(self) -> tuple[AttentionSite, ...]:
        """Its attention: cross-attention, that of the source, that of the target."""
        source = self.source.stack.self_attention("source")
        target = self.target.stack.self_attention("target")
        return tuple(site for site in (self.cross_attention, source, target) if site is not None)

    @property
    def cross_attention(self) -> AttentionSite | None:
        """The attention of the target to the source, if there is any."""
        return self.target.stack.cross_attention("target")

    @property
    def layer_paths(self) -> dict[str, str]:
        """The tape path of every layer and of the logits."""
        source = self.source.layer_paths("source", "encoder ")
        target = self.target.layer_paths("target", "decoder ")
        return {**source, **target, f"{self.head_names[0]} logits": "logits"}

    def inputs(self, source: PackedTokens, target: PackedTokens) -> SourceTarget:
        """What the module reads, from the tokens of its sides."""
        return SourceTarget(source, target)

    def build(self) -> EncoderDecoderModule:
        """The module of these facts, with new weights."""
        vocab = self.target.embed.vocab
        return EncoderDecoderModule(
            self.source.build(),
            self.target.build(self.source),
            nn.Linear(self.target.width, vocab, bias=self.head_bias),
            tie=self.tie,
            cross_attention=self.cross_attention,
        )

    def models(self, module: nn.Module) -> dict[str, tuple["EncoderDecoder", nn.Module]]:
        """What is saved of a trained module, by folder."""
        return {"model": (self, module)}

    def training_flops(
        self, lengths: Sequence[tuple[int, ...]], positions: Mapping[str, int] = NO_POSITIONS
    ) -> float:
        """Operations of one step over pairs of these lengths, (source, target)."""
        source_T, target_T = sum(s for s, _ in lengths), sum(t for _, t in lengths)
        reads = self.source.products()
        writes = self.target.products(self.source)
        forward = (
            reads.token * source_T
            + writes.token * target_T
            + writes.source_token * source_T
            + writes.row * len(lengths)
            + self.target.width * self.target.embed.vocab * target_T
            + reads.own_pair * sum(s * s for s, _ in lengths)
            + writes.own_pair * sum(t * t for _, t in lengths) / 2
            + writes.cross_pair * sum(s * t for s, t in lengths)
        )
        return FORWARD_AND_BACKWARD * forward


ModelFacts = TrunkWithHeads | EncoderDecoder


def _draw(module: nn.Module, std: float) -> None:
    """Weights from a normal distribution, and biases of zero, but for those of scores."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=std)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, RelativeDot):
        for vectors in module.parameters(recurse=False):
            nn.init.normal_(vectors, std=std)
