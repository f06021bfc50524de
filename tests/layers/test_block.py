"""Feed-forward, residual and block, against their formulas written out."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.generation.cpp import TRAITS
from regard.generation.cuda_graph import FUSED
from regard.layers.attend import ScaledDot
from regard.layers.attention import CrossAttention, EncoderOutput, Heads, SelfAttention
from regard.layers.block import NORMS, Block, Mlp, Norm, Residual, RMSNorm, unsupported

WIDTH = 6
LAYOUT, SOURCE_LAYOUT = Layout.ragged([3, 0, 1]), Layout.ragged([2, 1, 0])


def block(norm: str, *, decodes: bool, dropout: float = 0.0) -> Block:
    heads = Heads(2, 3, 3, 2)
    cross = CrossAttention(WIDTH, heads) if decodes else None
    residual = partial(Residual, WIDTH, Norm(eps=0.1), post=norm == "post")
    attention, mlp = SelfAttention(WIDTH, heads), Mlp(WIDTH, 8)
    made = Block(attention, mlp, residual, cross=cross, dropout=dropout)
    for one in made.parameters():
        nn.init.normal_(one)
    return made


@pytest.mark.parametrize(
    ("name", "act"), [("relu", lambda x: x.clamp(min=0)), ("gelu", lambda x: x * normal(x))]
)
def test_feed_forward(name, act):
    mlp = Mlp(WIDTH, 8, activation=name)
    x_TD = torch.randn(5, WIDTH)
    inner = act(x_TD @ mlp.up.weight.T + mlp.up.bias)
    torch.testing.assert_close(mlp(x_TD), inner @ mlp.down.weight.T + mlp.down.bias)


@pytest.mark.parametrize("bias", [True, False])
def test_gated_feed_forward(bias):
    mlp = Mlp(WIDTH, 8, activation="swish", gated=True, bias=bias)
    x_TD = torch.randn(5, WIDTH)
    assert (mlp.up.bias is not None) == (mlp.down.bias is not None) == bias
    (gate, up), zeros = mlp.up.weight.split(8), torch.zeros(8)
    gate_bias, up_bias = mlp.up.bias.split(8) if bias else (zeros, zeros)
    gate_TF, up_TF = x_TD @ gate.T + gate_bias, x_TD @ up.T + up_bias
    inner_TF = gate_TF * torch.sigmoid(gate_TF) * up_TF
    wanted = inner_TF @ mlp.down.weight.T + (mlp.down.bias if bias else 0)
    torch.testing.assert_close(mlp(x_TD), wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rms_norm(dtype):
    norm, x_TD = RMSNorm(WIDTH, eps=0.1), torch.randn(5, WIDTH).to(dtype)
    nn.init.normal_(norm.weight)
    precise = x_TD.double()
    wanted = precise / (precise.square().mean(-1, keepdim=True) + 0.1).sqrt() * norm.weight
    loose = (
        {"rtol": 0.02, "atol": 0.01} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-6}
    )
    torch.testing.assert_close(norm(x_TD), wanted.to(dtype), **loose)


def test_norms_have_biases_or_not():
    biases = {name: getattr(Norm(name).build(4), "bias", None) is not None for name in NORMS}
    assert biases == {"layer": True, "layer-no-bias": False, "rms": False}


def test_an_engine_supports_the_traits_that_it_names_and_no_others():
    made = block("pre", decodes=True)
    assert not list(unsupported(made, made.traits))
    for name in made.traits:
        rest = {key: values for key, values in made.traits.items() if key != name}
        assert [line.split(":")[0] for line in unsupported(made, rest)] == [name]
    made.mlp_residual.norm = nn.GroupNorm(1, WIDTH)
    assert "norm: GroupNorm" in list(unsupported(made, block("pre", decodes=True).traits))


@pytest.mark.parametrize("supported", [TRAITS, FUSED], ids=["cpp", "cuda-graph"])
def test_another_score_or_norm_of_a_known_name_is_not_taken_for_it(supported):
    made = block("pre", decodes=False)
    plain = {*unsupported(made, supported)}
    made.attention.score.__class__ = type("ScaledDot", (ScaledDot,), {})
    made.mlp_residual.norm.__class__ = type("layer", (nn.LayerNorm,), {})
    assert {*unsupported(made, supported)} - plain == {"score: ScaledDot", "norm: layer"}


def normal(x: Tensor) -> Tensor:
    """The standard normal distribution's Φ."""
    return (1 + torch.erf(x / 2**0.5)) / 2


def test_dropout_inside_the_feed_forward_layer_leaves_the_last_bias():
    mlp = Mlp(WIDTH, 8, dropout=1.0)
    nn.init.normal_(mlp.down.bias)
    x_TD = torch.randn(5, WIDTH)
    assert torch.equal(mlp(x_TD), mlp.down.bias.expand(5, WIDTH))
    assert not torch.allclose(mlp.eval()(x_TD), mlp.down.bias.expand(5, WIDTH))


def by_hand(norm: str, residual: Residual, x_TD: Tensor, part) -> Tensor:
    mean, spread = residual.norm.weight, residual.norm.bias
    if norm == "post":
        return F.layer_norm(x_TD + part(x_TD), (WIDTH,), mean, spread, eps=0.1)
    return x_TD + part(F.layer_norm(x_TD, (WIDTH,), mean, spread, eps=0.1))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_encoder_block(norm):
    made, x_TD = block(norm, decodes=False), torch.randn(4, WIDTH)
    y_TD = by_hand(norm, made.attention_residual, x_TD, lambda x: made.attention(x, LAYOUT))
    wanted = by_hand(norm, made.mlp_residual, y_TD, made.mlp)
    torch.testing.assert_close(made(x_TD, LAYOUT), wanted)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_block_looks_at_the_source_between_the_two(norm):
    made, x_TD = block(norm, decodes=True), torch.randn(4, WIDTH)
    source = EncoderOutput(torch.randn(3, WIDTH), SOURCE_LAYOUT)
    y_TD = by_hand(norm, made.attention_residual, x_TD, lambda x: made.attention(x, LAYOUT))
    z_TD = by_hand(norm, made.cross_residual, y_TD, lambda x: made.cross(x, LAYOUT, source))
    wanted = by_hand(norm, made.mlp_residual, z_TD, made.mlp)
    torch.testing.assert_close(made(x_TD, LAYOUT, source=source), wanted)


def test_a_decoder_block_does_not_go_without_its_source():
    with pytest.raises(AssertionError):
        block("post", decodes=True)(torch.randn(4, WIDTH), LAYOUT)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_falls_on_what_each_part_adds(norm):
    made, x_TD = block(norm, decodes=False, dropout=1.0), torch.randn(4, WIDTH)
    nothing = [made.attention_residual, made.mlp_residual]
    wanted = x_TD
    for residual in nothing:
        wanted = by_hand(norm, residual, wanted, torch.zeros_like)
    torch.testing.assert_close(made(x_TD, LAYOUT), wanted)
    assert not torch.allclose(made.eval()(x_TD, LAYOUT), wanted)


def test_what_a_block_adds_can_be_read_by_name():
    made, tape = block("pre", decodes=True), Tape("*")
    source = EncoderOutput(torch.randn(3, WIDTH), SOURCE_LAYOUT)
    x_TD = torch.randn(4, WIDTH)
    out_TD = made(x_TD, LAYOUT, source=source, tape=tape)
    values = (
        "queries",
        "keys",
        "values",
        "scores",
        "mask",
        "weights",
        "head_outputs",
        "normed",
        "sum",
    )
    inside = {f"{part}.{what}" for part in ("attention", "cross") for what in values}
    added = ["attention.output", "cross.output", "mlp.output"]
    assert set(tape.records) == {*inside, *added, "mlp.normed", "mlp.inner", "output"}
    assert torch.equal(tape.records["output"], out_TD)
    torch.testing.assert_close(x_TD + sum(tape.records[name] for name in added), out_TD)


def test_first_tokens_of_rows_that_do_not_start_at_0():
    """The first tokens attend from their own positions, as in a forward pass over all tokens."""
    made, layout = block("pre", decodes=False), Layout.rectangle(2, 5, start=40)
    x_TD = torch.randn(layout.tokens, WIDTH)
    first_TD, first = made.first_tokens(x_TD, layout, 2)
    assert torch.equal(first.positions_T, torch.tensor([40, 41, 40, 41]))
    expected_BLD = layout.pad(made(x_TD, layout))[:, :2]
    assert_close(first.pad(first_TD), expected_BLD)
