"""Multi-head attention, projected and joined by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naive import attend as naive_attend
from naive import scaled_dot
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.layers.attend import Additive, causal
from regard.layers.attention import (
    CrossAttention,
    EncoderOutput,
    Heads,
    SelfAttention,
    fused_linear,
)
from regard.layers.relative_score import RelativeDot
from regard.models.edits import without_head

LENGTHS, SOURCES = [3, 0, 1, 4], [2, 3, 0, 1]
HEADS = [
    Heads(2, 3, 3, 2),
    Heads(3, 2, 5, 3),
    Heads(1, 4, 1, 1),
    Heads(4, 3, 2, 2),
    Heads(3, 2, 2, 1),
]
SIZES = pytest.mark.parametrize("heads", HEADS, ids=str)


def per_head(x_TD: Tensor, weight: Tensor, bias: Tensor, heads: int, group: int = 1) -> Tensor:
    """x·W_h + b_h for each head, (T, H, size); a ``group`` of heads shares one."""
    size = len(weight) * group // heads
    each = [slice(h // group * size, (h // group + 1) * size) for h in range(heads)]
    return torch.stack([x_TD @ weight[part].T + bias[part] for part in each], dim=1)


def shuffled(module: nn.Module) -> nn.Module:
    """The module in double precision, with biases that are not zero."""
    for one in module.parameters():
        nn.init.normal_(one, std=0.5)
    return module.double()


@SIZES
def test_self_attention_with_free_key_and_value_sizes(heads):
    module = shuffled(SelfAttention(6, heads, mask=causal))
    x_TD = torch.randn(sum(LENGTHS), 6, dtype=torch.float64)
    sizes = [heads.count * heads.key, heads.kv * heads.key, heads.kv * heads.value]
    weights, biases = module.qkv.weight.split(sizes), module.qkv.bias.split(sizes)
    groups = 1, heads.count // heads.kv, heads.count // heads.kv
    q, k, v = (
        per_head(x_TD, w, b, heads.count, group)
        for w, b, group in zip(weights, biases, groups, strict=True)
    )
    seen = naive_attend(scaled_dot, q, k, v, LENGTHS, LENGTHS, lambda row, i, j: j <= i)
    wanted = seen.flatten(1) @ module.o.weight.T + module.o.bias
    assert module.o.weight.shape == (6, heads.count * heads.value)
    torch.testing.assert_close(module(x_TD, Layout.ragged(LENGTHS)), wanted)


@SIZES
def test_cross_attention_to_a_source_of_another_width(heads):
    module = shuffled(CrossAttention(6, heads, source_width=9))
    x_TD = torch.randn(sum(LENGTHS), 6, dtype=torch.float64)
    states_TD = torch.randn(sum(SOURCES), 9, dtype=torch.float64)
    sizes, group = [heads.kv * heads.key, heads.kv * heads.value], heads.count // heads.kv
    weights, biases = module.kv.weight.split(sizes), module.kv.bias.split(sizes)
    q = per_head(x_TD, module.q.weight, module.q.bias, heads.count)
    pairs = zip(weights, biases, strict=True)
    k, v = (per_head(states_TD, w, b, heads.count, group) for w, b in pairs)
    seen = naive_attend(scaled_dot, q, k, v, LENGTHS, SOURCES)
    wanted = seen.flatten(1) @ module.o.weight.T + module.o.bias
    source = EncoderOutput(states_TD, Layout.ragged(SOURCES))
    torch.testing.assert_close(module(x_TD, Layout.ragged(LENGTHS), source), wanted)


def test_heads_share_the_width_unless_they_are_given_sizes():
    assert Heads.of(512, 8) == Heads(8, 64, 64, 8)
    assert Heads.of(10, 3, key=4) == Heads(3, 4, 4, 3)
    assert Heads.of(10, 3, key=4, value=7) == Heads(3, 4, 7, 3)
    assert Heads.of(12, 3, value=7) == Heads(3, 4, 7, 3)
    assert Heads.of(12, 6, kv=2) == Heads(6, 2, 2, 2)
    with pytest.raises(ValueError, match="is not divisible by 3 heads"):
        Heads.of(10, 3)


@pytest.mark.parametrize("score", [Additive(3, 3, 4, 2), RelativeDot(6, 2, 3)])
def test_any_score_can_be_chosen(score):
    module = SelfAttention(6, Heads(2, 3, 3, 2), score=score)
    x_TD, layout = torch.randn(8, 6), Layout.ragged(LENGTHS)
    assert module.score is score
    assert not torch.allclose(module(x_TD, layout), with_dot(module)(x_TD, layout))


def with_dot(module: SelfAttention) -> SelfAttention:
    plain = SelfAttention(6, module.heads)
    plain.load_state_dict(module.state_dict(), strict=False)
    return plain


@pytest.mark.parametrize("kind", [SelfAttention, CrossAttention])
def test_weights_are_dropped_in_training_only(kind):
    module = kind(6, Heads(2, 3, 3, 2), dropout=1.0, bias=False)
    x_TD, layout = torch.randn(8, 6), Layout.ragged(LENGTHS)
    rest = () if kind is SelfAttention else (EncoderOutput(x_TD, layout),)
    tape = Tape("weights")  # the definition, where all may be dropped
    assert (module(x_TD, layout, *rest, tape=tape) == 0).all()
    assert module.eval()(x_TD, layout, *rest, tape=tape).any()


@pytest.mark.parametrize("kind", [SelfAttention, CrossAttention])
def test_a_head_switched_off_is_a_head_whose_columns_of_w_o_are_zero(kind):
    module = kind(6, Heads(3, 2, 4, 3))
    x_TD, layout = torch.randn(8, 6), Layout.ragged(LENGTHS)
    rest = () if kind is SelfAttention else (EncoderOutput(x_TD, layout),)
    edited = module(x_TD, layout, *rest, tape=Tape(edits={"weights": without_head(1)}))
    whole = module(x_TD, layout, *rest)
    with torch.no_grad():
        module.o.weight[:, 4:8] = 0
    torch.testing.assert_close(edited, module(x_TD, layout, *rest))
    assert not torch.allclose(edited, whole)


def test_joined_projections_begin_as_if_each_stood_alone():
    linear = fused_linear(300, [100, 900], bias=True)
    assert linear.weight.shape == (1000, 300)
    for part, outputs in zip(linear.weight.split([100, 900]), (100, 900), strict=True):
        bound = math.sqrt(6 / (300 + outputs))
        assert 0.99 * bound < part.abs().max() <= bound
        assert part.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert (linear.bias == 0).all()
    assert fused_linear(3, [2], bias=False).bias is None


def test_without_biases_a_projection_is_its_matrix():
    module = CrossAttention(6, Heads(2, 3, 3, 2), bias=False)
    assert [name for name, _ in module.named_parameters()] == ["q.weight", "kv.weight", "o.weight"]
    x_TD, one = torch.randn(1, 6), Layout.ragged([1])
    value = F.linear(x_TD, module.kv.weight[6:])  # one key only: its value is what is seen
    torch.testing.assert_close(
        module(x_TD, one, EncoderOutput(x_TD, one)), value @ module.o.weight.T
    )
