"""Streams are read in order, each token once in an epoch, from any cursor."""

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.batches.sampler import START, Cursor, StreamSampler
from small_streams import TokenStreams

TEXTS = st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 6), st.integers(0, 40))


def streams(rows, chunk, chunks, more):
    """Tokens that are their own number: as many chunks of each stream as said, or some more."""
    return TokenStreams(np.arange(rows * (chunk * chunks + 1) + more), rows, chunk)


@given(TEXTS)
def test_a_batch_goes_on_where_the_last_one_ended(shape):
    text = streams(*shape)
    length = len(text.tokens) // text.rows
    batches = [batch for _, batch in islice(StreamSampler(text).batches(), text.chunks)]
    for row in range(text.rows):
        chunks = [batch.read(slice(row, row + 1))[0] for batch in batches]
        assert {len(chunk) for chunk in chunks} == {text.chunk + 1}
        assert all(one[-1] == two[0] for one, two in pairwise(chunks))
        read = np.concatenate([chunk[:-1] for chunk in chunks])
        assert read.tolist() == list(range(row * length, row * length + len(read)))
        assert length - len(read) <= text.chunk  # what is left is no full chunk


@given(TEXTS)
def test_every_epoch_begins_anew(shape):
    text = streams(*shape)
    batches = list(islice(StreamSampler(text).batches(), 2 * text.chunks))
    begins = [batch.begins for _, batch in batches]
    assert begins == [number % text.chunks == 0 for number in range(2 * text.chunks)]
    assert [batch.epoch for _, batch in batches] == [0] * text.chunks + [1] * text.chunks
    first, second = batches[0][1].read(), batches[text.chunks][1].read()
    assert all(map(np.array_equal, first, second))


@given(TEXTS, st.integers(0, 15))
def test_a_run_goes_on_from_its_cursor(shape, stop):
    sampler = StreamSampler(streams(*shape))
    whole = [
        (cursor, batch.indices.tolist(), batch.begins)
        for cursor, batch in islice(sampler.batches(), stop + 8)
    ]
    start = whole[stop - 1][0] if stop else START
    again = islice(sampler.batches(start), 8)
    assert [(c, b.indices.tolist(), b.begins) for c, b in again] == whole[stop:]


def test_lengths_and_weights_are_known():
    text = streams(3, 5, 2, 0)
    ((_, batch),) = islice(StreamSampler(text).batches(), 1)
    assert batch.lengths.tolist() == [[5]] * 3 and batch.weights(None).tolist() == [5] * 3
    assert len(StreamSampler(text).dataset) == len(text) == 6


@pytest.mark.parametrize("cursor", [Cursor(-1), Cursor(0, 1), Cursor(0, 0, 2), Cursor(0, 0, -1)])
def test_a_cursor_of_other_data_is_refused(cursor):
    with pytest.raises(BadInput, match="the data has 2 chunks"):
        next(StreamSampler(streams(2, 3, 2, 0)).batches(cursor))
