"""The Transformer stack: N blocks over an embedding. Every Transformer is built on it."""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.attention_site import AttentionSite
from regard.models.embedding import AnyEmbedding, AnyPosition
from regard.models.facts import at_least, one_of, share
from regard.models.macs import MACs
from regard.models.trunk import AnyStack, StackModule
from regard.parts.activation import ACTIVATIONS
from regard.parts.attend import Mask, causal, full
from regard.parts.attention import CrossAttention, EncoderOutput, Heads, SelfAttention
from regard.parts.block import Block, Mlp
from regard.parts.kv_cache import KVCache
from regard.parts.static_kv_cache import StaticKVCache

MOST_SHARED = 1_000  # layers that share weights: no file limits their number


@dataclass(frozen=True)
class Stack(AnyStack):
    """N equal Transformer layers. ``key`` and ``value`` are sizes per head, default width / heads.

    ``dropout`` is applied to embeddings and to the output of each sublayer (Vaswani et al., 2017);
    ``attention_output_dropout``, if set, replaces it on the output of attention (DistilBERT: 0).
    ``attention_dropout`` is applied to attention weights, ``inner_dropout`` inside the feed-forward
    layer. With ``drop_path``, the output of a sublayer is dropped for whole rows, at a rate that
    rises from 0 in the first layer to this in the last (Huang et al., 2016). With ``layer_scale``,
    it is multiplied by learned numbers of that initial value (Touvron et al., 2021).

    With ``shared_groups``, layers share weights (Lan et al., 2019, section 3.1): there are
    ``shared_groups`` groups of successive layers, and each repeats its ``group_depth`` blocks.
    """

    attends: ClassVar[bool] = True
    width: int
    depth: int
    heads: int
    inner: int
    key: int | None = None
    value: int | None = None
    norm: str = "post"
    final_norm: bool = False
    activation: str = "relu"
    eps: float = 1e-5
    dropout: float = 0.1
    attention_dropout: float = 0.0
    attention_output_dropout: float | None = None
    inner_dropout: float = 0.0
    drop_path: float = 0.0
    layer_scale: float | None = None
    mask: Mask = full
    cross: bool = False
    shared_groups: int | None = None
    group_depth: int = 1

    def __post_init__(self) -> None:
        at_least(1, self, "width", "depth", "heads", "inner", "key", "value")
        at_least(1, self, "shared_groups", "group_depth")
        share(self, "dropout", "attention_dropout", "attention_output_dropout", "inner_dropout")
        share(self, "drop_path")
        one_of(ACTIVATIONS, "activation", self.activation)
        one_of(("post", "pre"), "norm", self.norm)
        if self.layer_scale is not None and (self.cross or self.causal):
            raise BadInput("layer_scale is supported only in encoders, not with cross or causal")
        if self.shared_groups is None:
            if self.group_depth > 1:
                raise BadInput("group_depth needs shared_groups: set it as well")
        elif self.depth % self.group_depth or self.shared_groups > self._rounds:
            groups = f"{self.shared_groups} groups of {self.group_depth}"
            raise BadInput(
                f"shared_groups: a depth of {self.depth} cannot be divided into {groups}"
            )
        elif self.depth > MOST_SHARED:
            raise BadInput(
                f"depth must be at most {MOST_SHARED} if layers share weights (shared_groups)"
            )

    @property
    def _rounds(self) -> int:
        """The number of runs of groups in total: ``depth`` / ``group_depth``."""
        return self.depth // self.group_depth

    @property
    def block_numbers(self) -> tuple[int, ...]:
        """The index of the block of each layer."""
        share = self._rounds / (self.shared_groups or self._rounds)  # rounded as transformers does
        groups = [int(number / share) for number in range(self._rounds)]
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
    def drop_paths(self) -> list[float]:
        """The drop-path rate of each block."""
        last = max(1, self.blocks - 1)
        return [self.drop_path * number / last for number in range(self.blocks)]

    def build_block(
        self, position: AnyPosition | None, source_width: int | None, drop_path: float
    ) -> Block:
        """One layer; ``source_width`` is the width of the states that it attends to, if any."""
        width, rate, cross = self.width, self.attention_dropout, None
        heads = Heads.of(width, self.heads, self.key, self.value)
        score = None if position is None else position.score(heads.key)
        attention = SelfAttention(width, heads, score=score, mask=self.mask, dropout=rate)
        mlp = Mlp(width, self.inner, activation=self.activation, dropout=self.inner_dropout)
        if self.cross:
            cross = CrossAttention(width, heads, source_width=source_width, dropout=rate)
        return Block(
            width,
            attention,
            mlp,
            cross=cross,
            norm=self.norm,
            eps=self.eps,
            dropout=self.dropout,
            attention_output_dropout=self.attention_output_dropout,
            drop_path=drop_path,
            layer_scale=self.layer_scale,
        )

    def macs(self, source: AnyStack | None = None) -> MACs:
        key = self.width // self.heads if self.key is None else self.key
        both = self.heads * (key + (key if self.value is None else self.value))
        own = 2 * self.width * both + 2 * self.width * self.inner
        if not self.cross or source is None:
            return MACs(self.depth * own, own_pair=self.depth * both)
        return MACs(
            token=self.depth * (own + self.width * both),
            source_token=self.depth * source.output_width * both,
            own_pair=self.depth * both,
            cross_pair=self.depth * both,
        )

    def self_attention(self, side: str) -> AttentionSite:
        heads = (self.heads,) * self.depth
        path = f"{side}.blocks.{{layer}}.attention"
        return AttentionSite(side, "self", heads, path, self.causal)

    def cross_attention(self, side: str) -> AttentionSite | None:
        heads = (self.heads,) * self.depth
        site = AttentionSite(side, "cross", heads, f"{side}.blocks.{{layer}}.cross")
        return site if self.cross else None


class TransformerModule(StackModule):
    """Transformer over an embedding: tokens in, one state per token out."""

    attends = capturable = True

    def __init__(self, stack: Stack, embed: AnyEmbedding, source: AnyStack | None):
        super().__init__()
        source_width = None if source is None else source.output_width
        self.embed = embed.build(stack.input_width, stack.dropout, stack.eps)
        self.blocks = nn.ModuleList(
            stack.build_block(embed.position, source_width, rate) for rate in stack.drop_paths
        )
        self.norm = nn.LayerNorm(stack.width, eps=stack.eps) if stack.final_norm else nn.Identity()
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
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
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
        return EncoderOutput(tape("output", self.norm(x_TD)), layout)
