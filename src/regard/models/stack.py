"""The one stack: an embedding and N blocks, built from facts. Every Transformer stands on it."""

from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.facts import Embed, Facts, Stack
from regard.parts.attention import CrossAttention, EncoderOutput, Heads, SelfAttention
from regard.parts.block import Block
from regard.parts.embed import Embedding
from regard.parts.kv_cache import KVCache
from regard.parts.mlp import Mlp
from regard.parts.position import Position, Relative
from regard.parts.score import DistanceDot


class Trunk(nn.Module):
    """Tokens in, one state per token out."""

    def __init__(self, facts: Facts, source_width: int | None = None):
        super().__init__()
        stack = facts.stack
        if not isinstance(stack, Stack):
            raise ValueError(
                "both sides of a Transformer are stacks of attention; for another encoder choose "
                "the paper it comes from, and the Transformer as its decoder (model.target)"
            )
        self.embed = embedding(facts.embed, stack.width, stack.dropout, stack.eps)
        self.blocks = nn.ModuleList(
            block(stack, source_width, facts.embed.position) for _ in range(stack.depth)
        )
        self.norm = nn.LayerNorm(stack.width, eps=stack.eps) if stack.final_norm else nn.Identity()

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        source: EncoderOutput | None = None,
        cache: KVCache | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
        blocks_tape = tape.under("blocks")
        for number, one in enumerate(self.blocks):
            x_TD = one(
                x_TD,
                layout,
                source=source,
                cache=None if cache is None else cache.under(number),
                tape=blocks_tape.under(number),
            )
        if cache is not None:
            cache.advance(layout)
        return tape("output", self.norm(x_TD))


def embedding(facts: Embed, width: int, dropout: float, eps: float = 1e-5) -> Embedding:
    """The embedding these facts describe."""
    return Embedding(
        facts.vocab,
        width,
        position=facts.position.build(width) if facts.position else None,
        segments=facts.segments,
        scaled=facts.scaled,
        norm=eps if facts.normed else None,
        dropout=dropout,
    )


def block(facts: Stack, source_width: int | None = None, position: Position | None = None) -> Block:
    """One block these facts describe."""
    heads = Heads.of(facts.width, facts.heads, facts.key, facts.value)
    score = DistanceDot(position.farthest, heads.key) if isinstance(position, Relative) else None
    return Block(
        facts.width,
        SelfAttention(
            facts.width,
            heads,
            score=score,
            mask=facts.mask,
            dropout=facts.attention_dropout,
        ),
        Mlp(facts.width, facts.inner, activation=facts.activation, dropout=facts.inner_dropout),
        cross=CrossAttention(
            facts.width, heads, source_width=source_width, dropout=facts.attention_dropout
        )
        if facts.cross
        else None,
        norm=facts.norm,
        eps=facts.eps,
        dropout=facts.dropout,
    )
