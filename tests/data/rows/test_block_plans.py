"""Rows of running text: every token once, and the token after each row."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.rows.block_plans import ChunkLengths, TokenStream, stream_chunks, text_rows
from regard.data.rows.documents import Documents

SEPARATOR = 0
SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=5)


def documents(sizes):
    ids = iter(range(1, 1_000))
    return Documents.of([[[next(ids) for _ in range(size)]] for size in sizes])


def texts(sizes, separator, across):
    """Every text as a list, with the separators that stand in it and behind it."""
    mark = [] if separator is None else [separator]
    each = [[*mark, *row.tolist()] for row in documents(sizes).rows]
    return [[*chain(*each), *mark]] if across else [one + mark for one in each]


@pytest.mark.parametrize("separator", [SEPARATOR, None])
@pytest.mark.parametrize("across", [True, False])
@given(SIZES, st.integers(1, 9), st.integers(0, 3))
def test_every_token_is_predicted_once(separator, across, sizes, longest, epoch):
    rows = text_rows(TokenStream(documents(sizes), separator), longest, 7, across=across)
    expected = [pair for text in texts(sizes, separator, across) for pair in pairwise(text)]
    if not expected:
        with pytest.raises(BadInput, match="too short"):
            rows(epoch)
        return
    plan = rows(epoch)
    read, found = plan.read(np.arange(len(plan))), []
    assert plan.lengths.tolist() == [len(one.row.tokens) for one in read]
    for row, follows in read:
        tokens = [*row.tokens.tolist(), *([] if follows is None else [follows])]
        assert 1 <= len(row.tokens) <= longest and not np.any(row.segments)
        found += pairwise(tokens)
    assert found == expected


def test_rows_across_documents_are_full_and_begin_elsewhere_in_each_epoch():
    plan = text_rows(TokenStream(documents([50, 3, 40]), SEPARATOR), 8, 7, across=True)
    assert plan(0).lengths.tolist() == [8] * 12
    assert plan(0).begin.tolist() == [*range(0, 96, 8)]
    begins = {int(plan(epoch).begin[1]) for epoch in range(1, 40)}
    assert begins == {*range(1, 9)}
    assert all(plan(epoch).lengths[1:-1].tolist() == [8] * 11 for epoch in range(1, 9))
    again = text_rows(TokenStream(documents([50, 3, 40]), SEPARATOR), 8, 7, across=True)
    assert np.array_equal(again(3).begin, plan(3).begin)


def test_rows_of_documents_hold_one_each():
    plan = text_rows(TokenStream(documents([5, 1, 3]), SEPARATOR), 4, 7, across=False)
    rows = [row.tokens.tolist() for row, _ in plan(1).read(np.arange(4))]
    assert rows == [[0, 1, 2, 3], [4, 5], [0, 6], [0, 7, 8, 9]]


def test_any_part_of_the_stream_can_be_read():
    stream = TokenStream(documents([3, 2]), SEPARATOR)
    whole = [0, 1, 2, 3, 0, 4, 5]
    for begin in range(len(whole)):
        for end in range(begin + 1, len(whole) + 1):
            assert stream.at(np.arange(begin, end)).tolist() == whole[begin:end]


@pytest.mark.parametrize("lengths", [ChunkLengths(7), ChunkLengths(30, 20), ChunkLengths(2, 1)])
@pytest.mark.parametrize("rows", [1, 3])
def test_streams_are_read_in_order_and_predict_every_token(lengths, rows):
    stream = TokenStream(documents([50, 3, 140]), SEPARATOR)
    plan = stream_chunks(stream, rows, lengths, (7, 2))
    whole = stream.at(np.arange(stream.borders[-1]))
    length = (len(whole) - 1) // rows
    passages = plan.read(np.arange(len(plan)))
    for row in range(rows):
        own = passages[row::rows]
        read = np.concatenate([one.row.tokens for one in own])
        assert read.tolist() == whole[row * length : (row + 1) * length].tolist()
        after = [*[one.row.tokens[0] for one in own[1:]], whole[(row + 1) * length]]
        assert [one.target for one in own] == after
    sizes = plan.lengths.reshape(-1, rows)
    assert (sizes == sizes[:, :1]).all() and sizes.max() <= lengths.longest


def test_drawn_lengths_follow_from_the_key():
    lengths, total = ChunkLengths(95, 70), 200_000
    cuts = lengths.cuts(total, (1, 0))
    sizes = np.diff(cuts)[:-1]
    assert cuts[0] == 0 and cuts[-1] == total
    assert np.array_equal(cuts, lengths.cuts(total, (1, 0)))
    assert not np.array_equal(cuts[:50], lengths.cuts(total, (1, 1))[:50])
    halved = sizes < 52
    assert 0.03 < halved.mean() < 0.07 and sizes.min() >= 5
    assert abs(sizes[~halved].mean() - 69.5) < 0.5 and abs(sizes[~halved].std() - 5) < 0.5
