"""XLNet's attention in tiles on CUDA, against the definition of attention."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE
from regard.layers.attend import earlier, earlier_or_itself, masked_softmax
from regard.layers.kernels import relative
from regard.layers.relative_score import distances_between
from regard.models.papers.xlnet import two_stream
from regard.models.papers.xlnet.two_stream import (
    CONTENT,
    QUERY,
    Stream,
    TwoStreamAttention,
    TwoStreamStack,
)
from triton_device import DEVICE, each_half, on_device

pytestmark = on_device
STACK = TwoStreamStack(width=32, depth=1, heads=2, inner=8, attention_dropout=0.0)
NEAR = {torch.bfloat16: 1e-2, torch.float16: 2e-3}


class Inputs(NamedTuple):
    """Random arguments of ``relative.attention``; the first query of a row sees no key."""

    tensors: tuple[Tensor, ...]
    queries: Tensor
    keys: Tensor
    seed: Tensor

    def __call__(self, dropout: float = 0.0) -> Tensor:
        return relative.attention(*self.tensors, self.queries, self.keys, self.seed, dropout)[0]

    def plain(self, kept_BHLS: Tensor | float = 1.0) -> Tensor:
        q, k, v, by_distance, (same, other) = (x.double() for x in self.tensors)
        (limit, column, segment), (order, of_key) = self.queries, self.keys
        every = torch.arange(k.shape[1], device=k.device)
        index = (column[:, :, None] + every).long()[:, None]
        scores = torch.einsum("blhk,bshk->bhls", q, k)
        scores += by_distance.gather(-1, index.expand(-1, q.shape[2], -1, -1))
        is_same = (segment[:, :, None] == of_key[:, None])[:, None]
        scores += torch.where(is_same, same[..., None], other[..., None])
        allowed = (order[:, None] < limit[:, :, None])[:, None]
        weights = masked_softmax(scores, allowed)
        return torch.einsum("bhls,bshk->blhk", weights * kept_BHLS, v)


def inputs(dtype, rows=3, queries=70, keys=90, heads=2, size=64, seed=1) -> Inputs:
    torch.manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, device=DEVICE).to(dtype).requires_grad_()

    def integers(high: int, count: int) -> Tensor:
        return torch.randint(high, (rows, count), device=DEVICE)

    both = random(rows, keys, 2, heads, size)
    by_distance = random(heads, rows, queries, 2 * keys).transpose(0, 1)
    tensors = random(rows, queries, heads, size), both[:, :, 0], both[:, :, 1], by_distance
    order = torch.rand(rows, keys, device=DEVICE).argsort(-1)
    order[1, keys // 2 :] = relative.NEVER
    limit = integers(keys, queries)
    limit[:, 0] = 0
    of_queries = limit, keys - integers(keys, queries), integers(2, queries)
    of_keys = order, integers(2, keys)
    return Inputs(
        (*tensors, random(2, rows, heads, queries)),
        torch.stack(of_queries).int(),
        torch.stack(of_keys).int(),
        torch.randint(1 << 31, (1,), device=DEVICE),
    )


def near(found: Tensor, expected: Tensor) -> None:
    assert found.isfinite().all() and found.shape == expected.shape
    assert (found.double() - expected).norm() <= NEAR[found.dtype] * expected.norm()


@each_half
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"queries": 1, "keys": 1, "size": 16},
        {"queries": 64, "keys": 128, "size": 32},
        {"queries": 200, "keys": 65, "size": 128, "heads": 3},
    ],
)
def test_outputs_and_gradients(dtype, sizes):
    given = inputs(dtype, **sizes)
    found, expected = given(), given.plain()
    near(found, expected)
    assert not found[:, 0].any()
    gradient = torch.randn_like(expected)
    pairs = zip(
        torch.autograd.grad(found, given.tensors, gradient.to(dtype)),
        torch.autograd.grad(expected, given.tensors, gradient),
        strict=True,
    )
    for ours, exact in pairs:
        near(ours, exact.double())


@each_half
def test_dropout_drops_its_share_and_has_the_gradient_of_what_it_dropped(dtype):
    given = inputs(dtype, rows=2, queries=64, keys=64)
    identity = torch.eye(64, device=DEVICE, dtype=dtype)[None, :, None].expand(2, -1, 2, -1)
    shown = given._replace(tensors=(*given.tensors[:2], identity, *given.tensors[3:]))
    weights_BHLS = shown.plain().transpose(1, 2)
    seen_BHLS = weights_BHLS > 1e-4
    kept_BHLS = (shown(0.3).transpose(1, 2) > 0).double()
    assert 0.67 < kept_BHLS[seen_BHLS].mean() < 0.73
    assert not torch.equal(kept_BHLS[:, 0], kept_BHLS[:, 1])
    dropped = given(0.3)
    assert torch.equal(dropped, given(0.3))
    expected = given.plain(kept_BHLS / 0.7)
    near(dropped, expected)
    gradient = torch.randn_like(expected)
    ours = torch.autograd.grad(dropped, given.tensors, gradient.to(dtype))
    exact = torch.autograd.grad(expected, given.tensors, gradient)
    for one, other in zip(ours, exact, strict=True):
        near(one, other.double())


@pytest.mark.parametrize("lengths", [(9, 9), (5, 12, 0, 1)])
@pytest.mark.parametrize("memory", [0, 4])
def test_both_streams_agree_with_the_definition(lengths, memory):
    torch.manual_seed(1)
    attention = TwoStreamAttention(STACK).to(DEVICE)
    for parameter in attention.score.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    layout = Layout.ragged(lengths, DEVICE)
    orders = torch.cat([torch.randperm(length) for length in lengths]).to(DEVICE)
    segments = torch.randint(2, (layout.tokens,), device=DEVICE)
    layout = two_stream.replace(layout, orders_T=orders, segments_T=segments)
    predicted = layout.offsets[:-1].long().clamp(max=layout.tokens - 1)
    chosen = two_stream._layout_of(predicted, layout)
    streams = [Stream(CONTENT, layout, earlier_or_itself), Stream(QUERY, chosen, earlier)]
    keys = two_stream._after_memory(layout, memory) if memory else layout
    states = torch.randn(len(lengths), memory, 32, device=DEVICE) if memory else None
    x_ND = torch.randn(layout.tokens + len(lengths), 32, device=DEVICE)
    distances = distances_between(layout, keys, 32)

    def run(dtype):
        copy = attention.to(dtype)
        other = distances._replace(vectors=distances.vectors.to(dtype))
        past = None if states is None else states.to(dtype)
        return copy(x_ND.to(dtype), streams, keys, past, other, NULL_TAPE)

    expected = run(torch.float64)
    near(run(torch.float16), expected)
