"""A block for few rows on CUDA: five kernels for one token of each row, in place of about fourteen.

With few rows a step of decoding is limited by launches; see parts/kernels/few_rows.py.
"""

import copy
from typing import cast

from torch import Tensor, nn

from regard.decoding.state import Decodable
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.attend import Dot, causal, full
from regard.parts.attention import EncoderOutput
from regard.parts.block import Block
from regard.parts.kernels import few_rows
from regard.parts.kernels.call import AttentionCall
from regard.parts.static_kv_cache import StaticKVCache, StaticLayerKVCache


def for_few_rows(model: Decodable, cache: StaticKVCache) -> Decodable:
    """The model with fused blocks and output layer, its parameters shared; itself if one is unfit.

    ``cache`` is what it decodes with.
    """
    blocks = list(model.decoder.blocks) if model.decoder.attends else []
    if not (blocks and all(fits(block, cache) for block in blocks)):
        return model
    memo: dict[int, object] = {
        id(value): value for value in (*model.parameters(), *model.buffers())
    }
    memo |= {id(block): FusedBlock(block) for block in blocks}
    memo[id(model.output)] = FewRowsLinear(cast(nn.Linear, model.output))
    return copy.deepcopy(model, memo)


def fits(block: Block, cache: StaticKVCache) -> bool:
    """Norms first, no source, dot products, and all layers such as few rows need them."""
    attention, mlp = block.attention, block.mlp
    call = AttentionCall(attention.score, cache.queries, cache.keys, attention.mask, 0.0)
    layers = (attention.qkv, attention.o, mlp.up, mlp.down)
    return (
        not (block.training or block.decodes or block.attention_residual.post)
        and call.plain
        and call.mask in (full, causal)
        and mlp.activation in few_rows.NAMES
        and all(few_rows.fits(layer, cache.rows) for layer in layers)
    )


class FusedBlock(nn.Module):
    """What a pre-norm ``Block`` without a source computes, with its parameters."""

    def __init__(self, block: Block):
        super().__init__()
        self.block = block
        self.scale = cast(Dot, block.attention.score).scale(block.attention.heads.key)

    def forward(
        self,
        x_RD: Tensor,
        layout: Layout,
        *,
        cache: StaticLayerKVCache,
        source: EncoderOutput | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        attention, mlp, heads = self.block.attention, self.block.mlp, self.block.attention.heads
        norm = self.block.attention_residual.norm
        qkv_RF = few_rows.linear(x_RD, attention.qkv, norm=norm)
        q, k, v = heads.part(qkv_RF, heads.key, heads.key, heads.value)
        attended_RHK = cache.attend(q, k, v, self.scale)
        x_RD = few_rows.linear(attended_RHK.flatten(1), attention.o, residual_RF=x_RD)
        norm = self.block.mlp_residual.norm
        inner_RF = few_rows.linear(x_RD, mlp.up, norm=norm, activation=mlp.activation)
        return tape("output", few_rows.linear(inner_RF, mlp.down, residual_RF=x_RD))


class FewRowsLinear(nn.Module):
    """A linear layer for few rows, with the parameters of another."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.layer = layer
        self.out_features = layer.out_features

    def forward(self, x_RD: Tensor) -> Tensor:
        return few_rows.linear(x_RD, self.layer)
