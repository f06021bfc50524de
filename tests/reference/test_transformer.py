"""C1: equal to torch.nn's attention and Transformer with copied weights, values and gradients."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from regard.core.batch import PackedTokens, SourceTarget, pack
from regard.core.layout import Layout
from regard.layers.attend import causal
from regard.layers.attention import CrossAttention, EncoderOutput, Heads, SelfAttention
from regard.layers.block import Block
from regard.models.encoder_decoder import EncoderDecoderModule
from regard.models.facts import change
from regard.models.papers.transformer import BASE
from regard.models.transformer import TransformerModule

WIDTH, HEADS, INNER, DEPTH, VOCAB = 16, 4, 24, 2, 19
FACTS = change(BASE, width=WIDTH, heads=HEADS, inner=INNER, depth=DEPTH, vocab=VOCAB, dropout=0.0)
SOURCES = [[1, 2, 3, 4, 5], [6], [7, 8, 9]]
TARGETS = [[1, 2], [3, 4, 5, 6], [7]]

# Our tensors, one below the other, are one of torch's.
Same = Iterator[tuple[list[Tensor], Tensor]]


def same_linear(ours: nn.Module, theirs: nn.Module) -> Same:
    for name, one in ours.named_parameters():
        yield [one], theirs.get_parameter(name)


def same_attention(ours: SelfAttention | CrossAttention, theirs: nn.MultiheadAttention) -> Same:
    projections = [ours.qkv] if isinstance(ours, SelfAttention) else [ours.q, ours.kv]
    yield [one.weight for one in projections], theirs.in_proj_weight
    yield [one.bias for one in projections], theirs.in_proj_bias
    yield from same_linear(ours.o, theirs.out_proj)


def same_layer(ours: Block, theirs: nn.Module) -> Same:
    yield from same_attention(ours.attention, theirs.self_attn)
    yield from same_linear(ours.attention_residual.norm, theirs.norm1)
    last = theirs.norm2
    if ours.decodes:
        yield from same_attention(ours.cross, theirs.multihead_attn)
        yield from same_linear(ours.cross_residual.norm, theirs.norm2)
        last = theirs.norm3
    yield from same_linear(ours.mlp.up, theirs.linear1)
    yield from same_linear(ours.mlp.down, theirs.linear2)
    yield from same_linear(ours.mlp_residual.norm, last)


def same_stack(ours: TransformerModule, theirs: nn.Module) -> Same:
    for one, other in zip(ours.blocks, theirs.layers, strict=True):
        yield from same_layer(one, other)
    if theirs.norm is not None:
        yield from same_linear(ours.norm, theirs.norm)


def same(ours: EncoderDecoderModule, theirs: nn.Transformer) -> Same:
    yield from same_stack(ours.source, theirs.encoder)
    yield from same_stack(ours.target, theirs.decoder)


def copy(module: nn.Module, same: Same) -> None:
    """Random weights everywhere (zeros and ones would hide a mistake), the same on both sides."""
    with torch.no_grad():
        for one in module.parameters():
            one.normal_(std=0.3)
        for ours, theirs in same:
            theirs.copy_(torch.cat(ours))


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def gradients_close(same: Same) -> None:
    for ours, theirs in same:
        assert theirs.grad is not None
        close(torch.cat([one.grad for one in ours]), theirs.grad)


def padded(packed: PackedTokens) -> tuple[Tensor, Tensor]:
    """Tokens (B, L) and torch's padding mask, true where there is none."""
    return packed.layout.pad(packed.tokens_T), ~packed.layout.real_BL


def torch_transformer(norm_first: bool, final_norm: bool) -> nn.Transformer:
    settings = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    encoder_layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, **settings)
    decoder_layer = nn.TransformerDecoderLayer(WIDTH, HEADS, INNER, **settings)
    norms = [nn.LayerNorm(WIDTH) if final_norm else None for _ in range(2)]
    encoder = nn.TransformerEncoder(encoder_layer, DEPTH, norms[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder_layer, DEPTH, norms[1])
    given = {"custom_encoder": encoder, "custom_decoder": decoder}
    return nn.Transformer(WIDTH, HEADS, batch_first=True, **given)


def embedded(table: Tensor, tokens_BL: Tensor) -> Tensor:
    """Token × √d + sinusoid: the paper's sections 3.4 and 3.5."""
    angles = torch.tensor(
        [
            [place / 10_000 ** (2 * (i // 2) / WIDTH) + (i % 2) * math.pi / 2 for i in range(WIDTH)]
            for place in range(tokens_BL.shape[1])
        ]
    )
    return table[tokens_BL] * math.sqrt(WIDTH) + angles.sin()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("final_norm", [False, True], ids=["", "final norm"])
def test_the_transformer(norm, final_norm):
    ours = change(FACTS, norm=norm, final_norm=final_norm).build()
    theirs = torch_transformer(norm == "pre", final_norm)
    copy(ours, same(ours, theirs))
    table = ours.head.weight.detach().clone().requires_grad_()

    source, target = pack(SOURCES), pack(TARGETS)
    logits_TV = ours(SourceTarget(source, target)).by_head["next_token"]
    (source_BL, no_source), (target_BL, no_target) = padded(source), padded(target)
    states_BLD = theirs(
        embedded(table, source_BL),
        embedded(table, target_BL),
        tgt_mask=torch.ones(4, 4, dtype=torch.bool).triu(1),
        src_key_padding_mask=no_source,
        tgt_key_padding_mask=no_target,
        memory_key_padding_mask=no_source,
    )
    reference_TV = states_BLD[~no_target] @ table.T
    close(logits_TV, reference_TV)

    towards = torch.randn_like(logits_TV) / VOCAB
    (logits_TV * towards).sum().backward()
    (reference_TV * towards).sum().backward()
    gradients_close(same(ours, theirs))
    assert ours.head.weight.grad is not None and table.grad is not None
    close(ours.head.weight.grad, table.grad)


def test_every_weight_was_compared():
    ours = change(FACTS, final_norm=True).build()
    theirs = torch_transformer(norm_first=False, final_norm=True)
    compared = [id(one) for mine, _ in same(ours, theirs) for one in mine]
    rest = [name for name, one in ours.named_parameters() if id(one) not in compared]
    assert rest == ["source.embed.token.weight"]  # tied to the target's and the head's
    assert {id(one) for _, one in same(ours, theirs)} == {id(one) for one in theirs.parameters()}


@pytest.mark.parametrize("ahead", [True, False], ids=["everyone", "causal"])
def test_self_attention(ahead):
    lengths = [5, 1, 3]
    layout = Layout.ragged(lengths)
    heads = Heads.of(WIDTH, HEADS)
    ours = SelfAttention(WIDTH, heads) if ahead else SelfAttention(WIDTH, heads, mask=causal)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    copy(ours, same_attention(ours, theirs))
    x_TD = torch.randn(sum(lengths), WIDTH)
    x_BLD, nothing = layout.pad(x_TD), ~layout.real_BL
    mask = None if ahead else torch.ones(5, 5, dtype=torch.bool).triu(1)
    reference, _ = theirs(x_BLD, x_BLD, x_BLD, key_padding_mask=nothing, attn_mask=mask)
    found = ours(x_TD, layout)
    close(found, reference[~nothing])
    towards = torch.randn_like(found)
    (found * towards).sum().backward()
    (reference[~nothing] * towards).sum().backward()
    gradients_close(same_attention(ours, theirs))


def test_cross_attention_to_another_width():
    queries, keys = Layout.ragged([2, 4, 1]), Layout.ragged([3, 1, 5])
    ours = CrossAttention(WIDTH, Heads.of(WIDTH, HEADS), source_width=10)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, kdim=10, vdim=10)

    def pairs() -> Same:
        yield [ours.q.bias, ours.kv.bias], theirs.in_proj_bias
        yield [ours.q.weight], theirs.q_proj_weight
        yield from same_linear(ours.o, theirs.out_proj)

    copy(ours, pairs())
    with torch.no_grad():
        for mine, other in zip(
            ours.kv.weight.split(WIDTH), (theirs.k_proj_weight, theirs.v_proj_weight), strict=True
        ):
            other.copy_(mine)
    x_TD, y_TD = torch.randn(7, WIDTH), torch.randn(9, 10)
    y_BSD = keys.pad(y_TD)
    reference, _ = theirs(queries.pad(x_TD), y_BSD, y_BSD, key_padding_mask=~keys.real_BL)
    found = ours(x_TD, queries, EncoderOutput(y_TD, keys))
    close(found, reference[queries.real_BL])
    towards = torch.randn_like(found)
    (found * towards).sum().backward()
    (reference[queries.real_BL] * towards).sum().backward()
    gradients_close(pairs())
    assert ours.kv.weight.grad is not None
    close(ours.kv.weight.grad, torch.cat([theirs.k_proj_weight.grad, theirs.v_proj_weight.grad]))
