"""A memory changes what is computed again, never what comes out."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from naive import LENGTHS, SEED
from regard.core.layout import Layout
from regard.layers.attend import WindowMask, causal
from regard.layers.attention import CrossAttention, EncoderOutput, Heads, SelfAttention
from regard.layers.block import Block, Mlp, Residual
from regard.layers.kv_cache import KVCache, LayerKVCache

WIDTH = 6


def decoder() -> Block:
    heads = Heads(2, 3, 4, 1)
    attention = SelfAttention(WIDTH, heads, mask=causal)
    cross, residual = CrossAttention(WIDTH, heads), partial(Residual, WIDTH)
    return Block(attention, Mlp(WIDTH, 8), residual, cross=cross).eval()


def step(
    block: Block, cache: KVCache, x_TD: Tensor, source: EncoderOutput, length: int = 1
) -> Tensor:
    """``length`` more tokens in each row."""
    layout = Layout.rectangle(cache.rows, length, start=cache.length)
    out_TD = block(x_TD, layout, source=source, cache=cache.under(0))
    cache.length += length
    return out_TD


def packed(rows: list[Tensor]) -> tuple[Tensor, Layout]:
    return torch.cat(rows), Layout.ragged([len(row) for row in rows])


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), SEED)
@torch.no_grad()
def test_piece_by_piece_equals_all_at_once(pieces, seed):
    torch.manual_seed(seed)
    block, total = decoder(), sum(pieces)
    x_BLD = torch.randn(2, total, WIDTH)
    source = EncoderOutput(*packed([torch.randn(3, WIDTH), torch.randn(1, WIDTH)]))
    whole = block(x_BLD.flatten(0, 1), Layout.rectangle(2, total), source=source)
    cache = KVCache(2, capacity=total, depth=1)
    found = []
    for piece in pieces:
        new = x_BLD[:, cache.length : cache.length + piece].flatten(0, 1)
        found.append(step(block, cache, new, source, piece).view(2, piece, WIDTH))
    torch.testing.assert_close(torch.cat(found, dim=1), whole.view(2, total, WIDTH))


# Half of what happens is a step; the rest are picks, of row numbers to be taken modulo the rows.
HAPPENS = st.lists(
    st.one_of(st.none(), st.lists(st.integers(0, 7), min_size=1, max_size=5)), max_size=8
)


@given(LENGTHS, HAPPENS, SEED)
@torch.no_grad()
def test_rows_picked_are_rows_indexed(source_lengths, happens, seed):
    torch.manual_seed(seed)
    block = decoder()
    sources = [torch.randn(length, WIDTH) for length in source_lengths]
    cache = KVCache(len(sources), capacity=9, depth=1)
    at_first = EncoderOutput(*packed(sources))
    pasts = [torch.zeros(0, WIDTH) for _ in sources]
    for picked in [*happens, None]:
        if picked is None:
            new = torch.randn(len(pasts), WIDTH)
            found = step(block, cache, new, at_first)
            pasts = [torch.cat([past, x[None]]) for past, x in zip(pasts, new, strict=True)]
            x_TD, layout = packed(pasts)
            whole = block(x_TD, layout, source=EncoderOutput(*packed(sources)))
            last = torch.stack([row[-1] for row in layout.split(whole)])
            torch.testing.assert_close(found, last)
        else:
            index = [number % cache.rows for number in picked]
            cache.select_rows(torch.tensor(index))
            pasts, sources = [pasts[i] for i in index], [sources[i] for i in index]
            assert cache.rows == len(index)


@torch.no_grad()
def test_a_window_looks_back_into_the_memory_as_far_as_it_says():
    attention = SelfAttention(WIDTH, Heads(2, 3, 3, 2), mask=WindowMask(left=1, right=0))
    x_TD = torch.randn(5, WIDTH)
    whole = attention(x_TD, Layout.rectangle(1, 5))
    cache = LayerKVCache(1, 5)
    for place in range(5):
        layout = Layout.rectangle(1, 1, start=place)
        found = attention(x_TD[place : place + 1], layout, cache=cache)
        torch.testing.assert_close(found, whole[place : place + 1])


@torch.no_grad()
def test_rows_move_in_place_unless_they_become_more():
    block, source = decoder(), EncoderOutput(*packed([torch.randn(2, WIDTH)] * 3))
    cache = KVCache(3, capacity=4, depth=1)
    step(block, cache, torch.randn(3, WIDTH), source)

    def buffers() -> list[int]:
        past = cache.under(0).past
        assert past is not None
        return [one.data_ptr() for one in past]

    at_first = buffers()
    for index in ([2, 0, 1], [0, 2], [1]):
        cache.select_rows(torch.tensor(index))
        assert buffers() == at_first
    cache.select_rows(torch.tensor([0, 0, 0]))  # there is room again
    assert buffers() == at_first
    cache.select_rows(torch.tensor([0, 1, 2, 2]))
    assert buffers() != at_first


@torch.no_grad()
def test_a_source_stays_where_it_is_while_rows_move_within_their_sentence():
    block, source = (
        decoder(),
        EncoderOutput(*packed([torch.randn(2, WIDTH), torch.randn(3, WIDTH)])),
    )
    cache = KVCache(2, capacity=4, depth=1)
    cache.select_rows(torch.tensor([0, 0, 1, 1]))
    step(block, cache, torch.randn(4, WIDTH), source)
    kept = cache.under(0).source
    cache.select_rows(torch.tensor([1, 1, 3, 2]))
    assert cache.under(0).source is kept
    cache.select_rows(torch.tensor([0, 1, 0, 1]))
    assert cache.under(0).source is not kept


@torch.no_grad()
def test_a_source_is_projected_once(monkeypatch):
    block, source = decoder(), EncoderOutput(*packed([torch.randn(2, WIDTH)]))
    cache, calls = KVCache(1, capacity=4, depth=1), []
    project = block.cross.kv.forward
    monkeypatch.setattr(block.cross.kv, "forward", lambda x: calls.append(len(x)) or project(x))
    for _ in range(3):
        step(block, cache, torch.randn(1, WIDTH), source)
    assert calls == [2]


@torch.no_grad()
def test_a_source_is_cut_to_the_longest_row_that_is_left():
    cache = LayerKVCache(2, 4)
    layout = Layout.ragged([5, 2])
    cache.store_source(torch.randn(7, 2, 3), torch.randn(7, 2, 3), layout)
    cache.select_source_rows(torch.tensor([1, 1]))
    assert cache.source is not None
    k, v, keys = cache.source
    assert keys.longest == 2 and k.shape[:2] == v.shape[:2] == (2, 2)


def test_rows_that_join_bring_nothing_of_rows_that_left():
    """What is masked is multiplied by 0, and a NaN, as of a row that overflowed, stays one."""
    caches = [LayerKVCache(1, capacity=4) for _ in range(3)]
    for cache, length in zip(caches, (3, 3, 1), strict=True):
        cache.extend(*torch.ones(2, length, 1, 2), Layout.rectangle(1, length))
    mine, long, short = caches
    mine.join(long, 3, 3)
    for buffer in mine.past:
        buffer[1] = torch.nan
    mine.select_rows(torch.tensor([0]), 3)
    mine.join(short, 3, 1)
    lengths = [3, 1]
    for buffer in mine.past:
        for row, length in zip(buffer, lengths, strict=True):
            assert (row[:length] == 1).all() and (row[length:] == 0).all()


def test_a_memory_says_when_it_is_full():
    cache, k = LayerKVCache(1, capacity=3), torch.zeros(2, 1, 4)
    cache.extend(k, k, Layout.rectangle(1, 2))
    with pytest.raises(ValueError, match="3 positions cannot hold 4"):
        cache.extend(k, k, Layout.rectangle(1, 2, start=2))


def test_a_cache_grows_by_full_rows():
    k, layout = torch.zeros(2, 1, 4), Layout.rectangle(2, 1, lengths_B=torch.tensor([1, 0]))
    with pytest.raises(ValueError, match="full rows"):
        LayerKVCache(2, capacity=3).extend(k, k, layout)
