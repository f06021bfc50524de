"""The one Transformer stack: an embedding and N layers. Every Transformer is built on it."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.attention import EncoderOutput
from regard.parts.block import Block
from regard.parts.embeddings.embed import Embedding
from regard.parts.kv_cache import KVCache
from regard.parts.static_kv_cache import StaticKVCache


class TransformerModule(nn.Module):
    """Tokens in, one state per token out.

    ``order``: the number of the block of each layer, where layers share blocks; by default each
    layer has its own.
    """

    attends = capturable = True

    def __init__(
        self,
        embed: Embedding,
        blocks: Iterable[Block],
        norm: nn.Module,
        order: Sequence[int] | None = None,
    ):
        super().__init__()
        self.embed = embed
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.order = tuple(range(len(self.blocks)) if order is None else order)

    @property
    def layers(self) -> list[Any]:
        """The block of each layer, the first one first."""
        return [self.blocks[number] for number in self.order]

    @property
    def residual_outputs(self) -> list[nn.Linear]:
        """The layers whose outputs are added to the states."""
        return [layer for block in self.blocks for layer in cast(Block, block).residual_outputs]

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        """For the keys and values of earlier tokens."""
        return KVCache(rows, capacity, len(self.order))

    def new_static_cache(
        self, sentences: int, copies: int, capacity: int, source_longest: int, device: torch.device
    ) -> StaticKVCache:
        """The same in fixed buffers, for steps that are captured."""
        sizes = sentences, copies, capacity, source_longest
        return StaticKVCache(*sizes, len(self.order), device)

    def start(self, cache: StaticKVCache, source: EncoderOutput | None) -> None:
        """Rows without tokens, and the keys and values of a source if there is one."""
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
        """A state for every token; of full rows perhaps only for the ``first`` ones of each."""
        layout = self.embed.layout_of(tokens_T, layout)
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
        blocks_tape, layers, last = tape.under("blocks"), self.layers, None
        if first is not None and layout.full:
            *layers, last = layers
        for number, block in enumerate(layers):
            x_TD = block(
                x_TD,
                layout,
                source=source,
                cache=None if cache is None else cache.under(number),
                tape=blocks_tape.under(number),
            )
        if last is not None and first is not None:
            x_TD, layout = last.first_tokens(x_TD, layout, first)
        if cache is not None:
            cache.advance(layout)
        return EncoderOutput(tape("output", self.norm(x_TD)), layout)
