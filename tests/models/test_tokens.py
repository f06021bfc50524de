from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.core.layout import Layout
from regard.layers.block import Norm
from regard.models.embedding import Learned
from regard.models.positions import Sinusoid
from regard.models.tokens import Tokens, _few

LAYOUT = replace(Layout.ragged([2, 0, 3]), segments_T=torch.tensor([0, 1, 0, 0, 1]))
TOKENS = torch.tensor([3, 1, 4, 1, 5])


def test_a_token_alone():
    embed = Tokens(7).build(4, 0.0)
    assert torch.equal(embed(TOKENS, LAYOUT), embed.token.weight[TOKENS])


def test_token_position_and_segment_are_added_then_normalised():
    tokens = Tokens(7, position=Learned(5), segments=2, scaled=True, normed=True)
    embed = tokens.build(4, 0.0, Norm(eps=0.1))
    assert embed.norm is not None and embed.segment is not None
    nn.init.normal_(embed.norm.weight)
    places = embed.position.weight[[0, 1, 0, 1, 2]]
    segments = embed.segment.weight[LAYOUT.segments_T]
    summed = embed.token.weight[TOKENS] * 2 + places + segments
    wanted = F.layer_norm(summed, (4,), embed.norm.weight, embed.norm.bias, eps=0.1)
    torch.testing.assert_close(embed(TOKENS, LAYOUT), wanted)


def test_scaled_tokens_stand_beside_sinusoids_of_their_size():
    embed = Tokens(5_000, scaled=True).build(64, 0.0)
    every = Layout.ragged([5_000])
    assert embed(torch.arange(5_000), every).std().item() == pytest.approx(1, rel=0.02)


def test_all_of_it_may_be_dropped():
    embed = Tokens(7, position=Sinusoid()).build(4, 1.0)
    assert (embed(TOKENS, LAYOUT) == 0).all()
    assert embed.eval()(TOKENS, LAYOUT).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_positions_do_not_change_the_precision(dtype):
    embed = Tokens(7, position=Sinusoid()).build(4, 0.0).to(dtype)
    assert embed(TOKENS, LAYOUT).dtype == dtype


def test_few_vectors_are_looked_up_as_many_are():
    vectors, numbers = torch.randn(3, 4, requires_grad=True), torch.tensor([0, 2, 2, 1, 0])
    one, other = _few(numbers, vectors), vectors[numbers]
    assert torch.equal(one, other)
    weights = torch.randn(5, 4)
    (mine,) = torch.autograd.grad((one * weights).sum(), vectors)
    (theirs,) = torch.autograd.grad((other * weights).sum(), vectors)
    torch.testing.assert_close(mine, theirs)
