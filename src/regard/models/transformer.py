"""The Transformer stack: N blocks over an embedding. Every Transformer is built on it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from regard.core.errors import BadFact, BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.activation import ACTIVATIONS
from regard.layers.attend import Dot, Mask, ScaledDot, Score, WindowMask, causal, full
from regard.layers.attention import INITS, CrossAttention, EncoderOutput, Heads, SelfAttention
from regard.layers.block import NORMS, Block, Mlp, Norm, Residual
from regard.layers.dropout import Dropout
from regard.layers.kv_cache import KVCache
from regard.layers.static_kv_cache import StaticKVCache
from regard.models.attention_site import AttentionSite
from regard.models.embedding import AnyEmbedding, AnyPosition
from regard.models.facts import at_least, one_of, share
from regard.models.macs import MACs
from regard.models.trunk import AnyStack, StackModule

MOST_SHARED = 1_000  # layers that share weights: no file limits their number


@dataclass(frozen=True)
class Stack(AnyStack):
    """N Transformer layers. ``key`` and ``value`` are sizes per head, default width / heads.

    With ``kv_heads``, several heads of queries share keys and values (Ainslie et al., 2023). A
    ``gated`` feed-forward layer has two input projections (Shazeer, 2020). ``norm`` is the place of
    norms, ``norm_kind`` one of ``NORMS``; without ``first_norm``, the input of the first layer is
    not normed. ``qkv_bias``, ``output_bias`` (of attention) and ``mlp_bias``: which linear layers
    have a bias. Without ``scaled_scores``, q·k is not divided by √key (T5).

    ``windows`` limit the distance of keys in each layer, repeated over the layers; 0: no limit. A
    token of a causal stack attends to that many tokens, its own included; other tokens to that many
    on either side.

    ``dropout`` is applied to embeddings and to the output of each sublayer (Vaswani et al., 2017);
    ``attention_output_dropout``, if set, replaces it on the output of attention (DistilBERT: 0).
    ``attention_dropout`` is applied to attention weights, ``inner_dropout`` inside the feed-forward
    layer. With ``drop_path``, the output of a sublayer is dropped for whole rows, at a rate that
    rises from 0 in the first layer to this in the last (Huang et al., 2016). With ``layer_scale``,
    it is multiplied by learned numbers of that initial value (Touvron et al., 2021).

    With ``shared_groups``, layers share weights (Lan et al., 2019, section 3.1): there are
    ``shared_groups`` groups of successive layers, and each repeats its ``group_depth`` blocks.

    ``heads_by_layer`` and ``cross_heads_by_layer`` are the numbers of heads in each layer, of
    self-attention and of cross-attention, if some were removed; a head has the size that it has
    among all ``heads``. Attention without heads adds its output bias only.

    ``init``, one of ``INITS``, is the initialisation of the linear layers: "xavier", or "fan-in", a
    normal distribution of standard deviation 1/√inputs, which the biases of scores also have (T5).
    """

    attends: ClassVar[bool] = True
    traceable: ClassVar[bool] = True
    width: int
    depth: int
    heads: int
    inner: int
    key: int | None = None
    value: int | None = None
    kv_heads: int | None = None
    gated: bool = False
    qkv_bias: bool = True
    output_bias: bool = True
    mlp_bias: bool = True
    scaled_scores: bool = True
    norm: str = "post"
    norm_kind: str = "layer"
    first_norm: bool = True
    final_norm: bool = False
    activation: str = "relu"
    eps: float = 1e-5
    dropout: float = 0.1
    attention_dropout: float = 0.0
    attention_output_dropout: float | None = None
    inner_dropout: float = 0.0
    final_dropout: float = 0.0
    drop_path: float = 0.0
    layer_scale: float | None = None
    mask: Mask = full
    windows: tuple[int, ...] = ()
    cross: bool = False
    shared_groups: int | None = None
    group_depth: int = 1
    heads_by_layer: tuple[int, ...] = ()
    cross_heads_by_layer: tuple[int, ...] = ()
    init: str = "xavier"

    def __post_init__(self) -> None:
        at_least(1, self, "width", "depth", "heads", "inner", "key", "value", "kv_heads")
        at_least(1, self, "shared_groups", "group_depth")
        at_least(0, self, "windows", "heads_by_layer", "cross_heads_by_layer")
        share(self, "dropout", "attention_dropout", "attention_output_dropout", "inner_dropout")
        share(self, "final_dropout", "drop_path")
        one_of(ACTIVATIONS, "activation", self.activation)
        one_of(("post", "pre"), "norm", self.norm)
        one_of(NORMS, "norm_kind", self.norm_kind)
        one_of(INITS, "init", self.init)
        if self.windows and not any(self.windows):
            raise BadInput("all are 0, which is no limit; leave them out", key="windows")
        if self.heads % (self.kv_heads or 1):
            raise BadFact("kv_heads", f"must divide the {self.heads} heads, not {self.kv_heads}")
        if self.layer_scale is not None and (self.cross or self.causal):
            raise BadFact("layer_scale", "is supported only in encoders, not with cross or causal")
        if self.shared_groups is None:
            if self.group_depth > 1:
                raise BadFact("group_depth", "needs shared_groups: set it as well")
        elif self.depth % self.group_depth or self.shared_groups > self._rounds:
            groups = f"{self.shared_groups} groups of {self.group_depth}"
            fault = f"a depth of {self.depth} cannot be divided into {groups}"
            raise BadInput(fault, key="shared_groups")
        elif self.depth > MOST_SHARED:
            limit = f"{MOST_SHARED} if layers share weights (shared_groups)"
            raise BadFact("depth", f"must be at most {limit}")
        self._check_heads("heads_by_layer", self.heads_by_layer)
        self._check_heads("cross_heads_by_layer", self.cross_heads_by_layer)
        if self.cross_heads_by_layer and not self.cross:
            fault = "this stack has no cross-attention; leave it out"
            raise BadInput(fault, key="cross_heads_by_layer")

    def _check_heads(self, name: str, counts: tuple[int, ...]) -> None:
        """Raise BadInput if layers cannot have these numbers of heads."""
        if not counts:
            return
        if self.kv_heads not in (None, self.heads):
            fault = "heads that share keys (kv_heads) cannot be removed one by one"
            raise BadInput(fault, key=name)
        if self.shared_groups is not None:
            fault = "layers that share weights (shared_groups) have the same heads"
            raise BadInput(fault, key=name)
        if len(counts) != self.depth or max(counts) > self.heads:
            limit = f"{self.depth} numbers of at most {self.heads}, one for each layer"
            raise BadFact(name, f"must be {limit}, not {list(counts)}")

    @property
    def _rounds(self) -> int:
        """The number of runs of groups in total: ``depth`` / ``group_depth``."""
        return self.depth // self.group_depth

    @property
    def block_numbers(self) -> tuple[int, ...]:
        size = self._rounds / (self.shared_groups or self._rounds)  # rounded as transformers does
        groups = [int(number / size) for number in range(self._rounds)]
        inner = range(self.group_depth)
        return tuple(group * self.group_depth + number for group in groups for number in inner)

    @property
    def blocks(self) -> int:
        return self.group_depth * (self.shared_groups or self.depth)

    @property
    def causal(self) -> bool:
        return self.mask == causal

    @property
    def decodes(self) -> bool:
        return self.cross

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "TransformerModule":
        return TransformerModule(self, embed, source)

    @property
    def masks(self) -> list[Mask]:
        """The mask of self-attention in each block."""
        sizes = (self.windows or (0,)) * self.blocks
        return [self._window(size) if size else self.mask for size in sizes[: self.blocks]]

    def _window(self, size: int) -> Mask:
        return WindowMask(size - 1, 0) if self.causal else WindowMask(size, size)

    @property
    def norm_settings(self) -> Norm:
        return Norm(self.norm_kind, self.eps)

    @property
    def cache_heads(self) -> Heads:
        """Heads of the keys and values that a KV cache stores, in every layer."""
        return Heads.of(self.width, self.heads, self.key, self.value, self.kv_heads)

    def heads_of_layers(self, counts: tuple[int, ...]) -> list[Heads]:
        """Heads of each layer; ``counts`` are their numbers, if some were removed."""
        whole = self.cache_heads
        return [replace(whole, count=n, kv=n) for n in counts] or [whole] * self.depth

    def macs(self, source: AnyStack | None = None) -> MACs:
        ends, pair = _sizes(self.heads_of_layers(self.heads_by_layer))
        own = self.width * (ends + pair) + self.depth * (2 + self.gated) * self.width * self.inner
        if not self.cross or source is None:
            return MACs(own, own_pair=ends)
        cross_ends, cross_pair = _sizes(self.heads_of_layers(self.cross_heads_by_layer))
        return MACs(
            token=own + self.width * cross_ends,
            source_token=source.output_width * cross_pair,
            own_pair=ends,
            cross_pair=cross_ends,
        )

    def self_attention(self, side: str) -> AttentionSite:
        heads = self.heads_by_layer or (self.heads,) * self.depth
        path = f"{side}.blocks.{{layer}}.attention"
        return AttentionSite(side, "self", heads, path, self.causal)

    def cross_attention(self, side: str) -> AttentionSite | None:
        heads = self.cross_heads_by_layer or (self.heads,) * self.depth
        site = AttentionSite(side, "cross", heads, f"{side}.blocks.{{layer}}.cross")
        return site if self.cross else None


def _sizes(heads: list[Heads]) -> tuple[int, int]:
    """Sizes of queries and outputs, and of keys and values, of all layers together."""
    ends = sum(layer.count * (layer.key + layer.value) for layer in heads)
    return ends, sum(layer.keys + layer.values for layer in heads)


class BlockBuilder:
    """Builder of the blocks of a stack, which attend to states of ``source_width``, if any."""

    def __init__(self, stack: Stack, source_width: int | None):
        self.stack, self.source_width = stack, source_width

    def build(self, position: AnyPosition | None) -> list[Block]:
        """Build all blocks; self-attention has the scores of the ``position``, if it has any."""
        stack = self.stack
        masks, last = stack.masks, max(1, stack.blocks - 1)
        scores: Iterable[Score | None] = [None] * stack.blocks
        if position is not None:
            scores = self._drawn(position.scores(stack.cache_heads, masks))
        heads = stack.heads_of_layers(stack.heads_by_layer)[: stack.blocks]
        cross_heads = stack.heads_of_layers(stack.cross_heads_by_layer)[: stack.blocks]
        return [
            self._build_block(
                self._build_attention(own, score, mask),
                cross,
                drop_path=stack.drop_path * number / last,
                first_norm=stack.first_norm or number > 0,
            )
            for number, (own, cross, score, mask) in enumerate(
                zip(heads, cross_heads, scores, masks, strict=True)
            )
        ]

    def _drawn(self, scores: Iterable[Score | None]) -> Iterator[Score | None]:
        """Scores with the initialisation of the layers; layers may share a score."""
        drawn: Score | None = None
        for score in scores:
            if score is not None and score is not drawn and self.stack.init == "fan-in":
                score.draw_vectors(self.stack.width**-0.5)
            yield (drawn := score)

    def _build_attention(self, heads: Heads, score: Score | None, mask: Mask) -> SelfAttention:
        stack = self.stack
        score = self._build_score() if score is None else score
        if score.scaled != stack.scaled_scores:
            scaled = str(score.scaled).lower()
            raise BadFact("scaled_scores", f"must be {scaled}: scores of these positions are fixed")
        return SelfAttention(
            stack.width,
            heads,
            score=score,
            mask=mask,
            dropout=stack.attention_dropout,
            bias=stack.qkv_bias,
            output_bias=stack.output_bias,
            init=stack.init,
        )

    def _build_cross(self, heads: Heads) -> CrossAttention:
        stack = self.stack
        return CrossAttention(
            stack.width,
            heads,
            source_width=self.source_width,
            score=self._build_score(),
            dropout=stack.attention_dropout,
            bias=stack.qkv_bias,
            output_bias=stack.output_bias,
            init=stack.init,
        )

    def _build_score(self) -> Dot:
        return ScaledDot() if self.stack.scaled_scores else Dot()

    def _build_block(
        self, attention: SelfAttention, cross_heads: Heads, *, drop_path: float, first_norm: bool
    ) -> Block:
        stack = self.stack
        mlp = Mlp(
            stack.width,
            stack.inner,
            activation=stack.activation,
            gated=stack.gated,
            bias=stack.mlp_bias,
            dropout=stack.inner_dropout,
            init=stack.init,
        )
        residual = partial(
            Residual,
            stack.width,
            stack.norm_settings,
            post=stack.norm == "post",
            drop_path=drop_path,
            layer_scale=stack.layer_scale,
        )
        return Block(
            attention,
            mlp,
            residual,
            cross=self._build_cross(cross_heads) if stack.cross else None,
            dropout=stack.dropout,
            attention_output_dropout=stack.attention_output_dropout,
            first_norm=first_norm,
        )


class TransformerModule(StackModule):
    """Transformer over an embedding: tokens in, one state per token out."""

    attends = capturable = True

    def __init__(self, stack: Stack, embed: AnyEmbedding, source: AnyStack | None):
        super().__init__()
        source_width = None if source is None else source.output_width
        self.embed = embed.build(stack.input_width, stack.dropout, stack.norm_settings)
        self.blocks = nn.ModuleList(BlockBuilder(stack, source_width).build(embed.position))
        self.norm = stack.norm_settings.build(stack.width) if stack.final_norm else nn.Identity()
        self.dropout = Dropout(stack.final_dropout)
        self.order = stack.block_numbers

    @property
    def layers(self) -> list[Block]:
        """The block of each layer, from the first to the last."""
        return [cast(Block, self.blocks[number]) for number in self.order]

    @property
    def residual_outputs(self) -> list[nn.Linear]:
        """The linear layers whose outputs are added to the states."""
        return [layer for block in self.blocks for layer in cast(Block, block).residual_outputs]

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        """A KV cache for decoding step by step."""
        return KVCache(rows, capacity, len(self.order))

    def new_static_cache(
        self, sentences: int, copies: int, capacity: int, source_longest: int, device: torch.device
    ) -> StaticKVCache:
        """A KV cache in fixed buffers, for steps that are captured."""
        sizes = sentences, copies, capacity, source_longest
        return StaticKVCache(*sizes, len(self.order), device)

    def start(self, cache: StaticKVCache, source: EncoderOutput | None) -> None:
        """Fill a cache with the keys and values of the source, if there is one, and no tokens."""
        if source is not None:
            layers = (block.cross.source_key_values(source, None) for block in self.layers)
            cache.write_source(((k, v) for k, v, _ in layers), source.layout.lengths_B)
        cache.start()

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        source: EncoderOutput | None = None,
        cache: KVCache | None = None,
        first: int | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> EncoderOutput:
        """Compute the state of every token.

        With ``first``, if all rows are full, only of the first ``first`` tokens of each row.
        """
        layout = self.embed.layout_of(tokens_T, layout)
        x_TD = tape("embed.output", self.embed(tokens_T, layout, tape.under("embed")))
        blocks, layers, last = tape.under("blocks"), self.layers, None
        if first is not None and layout.full:
            *layers, last = layers
        for number, block in enumerate(layers):
            past = None if cache is None else cache.under(number)
            x_TD = block(x_TD, layout, source=source, cache=past, tape=blocks.under(number))
        if last is not None and first is not None:
            x_TD, layout = last.first_tokens(x_TD, layout, first)
        if cache is not None:
            cache.advance(layout)
        return EncoderOutput(tape("output", self.dropout(self.norm(x_TD))), layout)
