"""The order of examples is random, complete, and the same wherever one starts in it."""

from collections import Counter
from dataclasses import asdict, replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.batch import BatchLimits
from regard.core.errors import BadInput
from regard.data.batches.packing import training_batches
from regard.data.batches.sampler import START, Cursor, Sampler, shuffled

KEYS = st.tuples(st.integers(0, 2**64), st.integers(0, 1_000))


@given(st.integers(0, 3_000), KEYS)
def test_a_shuffle_is_a_permutation(count, key):
    assert sorted(shuffled(np.arange(count), count, key)) == list(range(count))


@given(st.integers(1, 10**15), KEYS, st.data())
def test_a_shuffle_is_evaluated_point_by_point(count, key, data):
    positions = np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=5)))
    together = shuffled(positions, count, key)
    assert (together >= 0).all() and (together < count).all()
    assert [int(shuffled(np.array([p]), count, key)[0]) for p in positions] == together.tolist()


def test_a_shuffle_does_not_depend_on_the_machine():
    for key in ((1, 2), tuple(np.array([1, 2]))):
        assert shuffled(np.arange(8), 8, key).tolist() == [7, 2, 5, 3, 6, 4, 0, 1]
        assert shuffled(np.arange(3), 10**6, key).tolist() == [822_045, 201_110, 565_300]


def test_a_shuffle_looks_random():
    count = 20_000
    order = shuffled(np.arange(count), count, (7, 0))
    assert abs(np.corrcoef(np.arange(count), order)[0, 1]) < 0.03
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.03
    ascending = np.diff(order) > 0
    assert 0.48 < ascending.mean() < 0.52
    turns = np.flatnonzero(np.diff(ascending))
    assert np.diff(turns).max() <= 9
    other = shuffled(np.arange(count), count, (7, 1))
    assert (order == other).sum() < 10


def test_all_shuffles_of_a_few_come_up_equally_often():
    seen = Counter(tuple(shuffled(np.arange(3), 3, (0, epoch))) for epoch in range(600))
    assert len(seen) == 6
    assert sum((times - 100) ** 2 / 100 for times in seen.values()) < 20.5  # p = 0.001


def test_the_order_of_batches_depends_on_the_seed_and_the_epoch():
    """Lengths that all differ make the same batches in any draw: only their order is left."""

    def order(seed, epoch):
        corpus = Corpus([(length,) for length in range(1, 41)])
        sampler = corpus.sampler(BatchLimits(4_000, 2, 40), window=65_536, seed=seed)
        batches = list(islice(sampler.batches(Cursor(epoch)), 20))
        return tuple(tuple(sorted(batch.indices.tolist())) for _, batch in batches)

    orders = [order(1, 0), order(2, 0), order(1, 1)]
    assert len(set(orders)) == 3
    assert len({tuple(sorted(one)) for one in orders}) == 1


def test_positions_outside_are_refused():
    with pytest.raises(IndexError):
        shuffled(np.array([3]), 3, (0, 0))


class Corpus:
    """Pairs; remembers what was read. It may know their lengths without reading, or not."""

    def __init__(self, sizes: list[tuple[int, ...]], *, known: bool = False):
        self.sizes, self.known, self.window = sizes, known, 0
        self.reads: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.sizes)

    def read(self, epoch: int, indices: np.ndarray) -> list[tuple[np.ndarray, ...]]:
        self.reads.append((epoch, len(indices)))
        return [tuple(np.full(n, i) for n in self.sizes[i]) for i in indices]

    def lengths(self, objective, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        return np.array([self.sizes[i] for i in indices]) if self.known else None

    def weights(self, objective, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        return np.array([sum(self.sizes[i]) for i in indices]) if self.known else None

    def sampler(self, limits: BatchLimits, window: int, seed: int = 3) -> Sampler:
        self.window = window
        return Sampler(self, Lengths, limits, seed)


class Lengths:
    """As much of an objective as a sampler needs."""

    @staticmethod
    def length(example: tuple[np.ndarray, ...]) -> tuple[int, ...]:
        return tuple(map(len, example))


def flat(batches) -> list:
    return [
        (
            cursor,
            batch.lengths.tolist(),
            [[side.tolist() for side in example] for example in batch.read()],
        )
        for cursor, batch in batches
    ]


def epochs(sampler: Sampler, count: int) -> list[list[list[int]]]:
    found: list[list[list[int]]] = [[] for _ in range(count)]
    for cursor, batch in sampler.batches():
        epoch = cursor.epoch - (cursor == Cursor(cursor.epoch))
        if epoch == count:
            return found
        found[epoch].append(batch.indices.tolist())
    raise AssertionError("sampling is endless")


@st.composite
def corpora(draw) -> Corpus:
    sides = draw(st.integers(1, 2))
    length = st.tuples(*[st.integers(1, 12)] * sides)
    sizes = draw(st.lists(length, min_size=1, max_size=50))
    return Corpus(sizes, known=draw(st.booleans()))


BUDGETS = st.builds(BatchLimits, st.integers(12, 40), st.integers(1, 6), st.just(12))


@settings(deadline=None)
@given(corpora(), BUDGETS, st.integers(1, 60))
def test_every_example_once_in_every_epoch(corpus, limits, window):
    for batches in epochs(corpus.sampler(limits, window), 2):
        assert sorted(i for batch in batches for i in batch) == list(range(len(corpus)))
        for batch in batches:
            lengths = np.array([corpus.sizes[i] for i in batch])
            assert len(batch) <= limits.rows
            assert (lengths.sum(axis=0) <= limits.tokens).all()
            assert (np.diff(lengths.max(axis=1)) <= 0).all()


def cut_in_lists(sampler: Sampler, cursor: Cursor) -> list[list[int]]:
    """The batches of a window, in plain Python."""
    corpus, limits = sampler.dataset, sampler.limits
    positions = range(len(corpus))[cursor.window * corpus.window :][: corpus.window]
    drawn = shuffled(np.array(positions), len(corpus), (sampler.seed, cursor.epoch)).tolist()
    short = [i for i in drawn if max(corpus.sizes[i]) <= limits.longest]
    lengths = np.array([corpus.sizes[i] for i in short])
    batches = training_batches(lengths, limits, mixed=sampler.mixed) if short else []
    key = (sampler.seed, cursor.epoch, cursor.window)
    order = shuffled(np.arange(len(batches)), len(batches), key)
    return [[short[row] for row in batches[number]] for number in order]


@settings(deadline=None)
@given(corpora(), st.integers(1, 60), st.integers(6, 12), st.booleans(), st.integers(0, 2))
def test_the_batches_of_a_window_are_those_cut_in_lists(corpus, window, longest, mixed, epoch):
    sampler = replace(corpus.sampler(BatchLimits(20, 5, longest), window), mixed=mixed)
    for number in range(sampler.window_count):
        cursor = Cursor(epoch, number)
        expected = cut_in_lists(sampler, cursor)
        for begin in range(max(1, len(expected))):
            batches = sampler.cut_window(replace(cursor, batch=begin))
            assert [batch.indices.tolist() for batch in batches] == expected[begin:]
            assert len(batches) == len(expected[begin:])


@settings(deadline=None)
@given(corpora(), BUDGETS, st.integers(1, 60), st.integers(0, 30))
def test_a_run_goes_on_from_its_cursor_as_if_it_had_not_stopped(corpus, limits, window, stop):
    whole = flat(islice(corpus.sampler(limits, window).batches(), stop + 12))
    saved = asdict(whole[stop - 1][0] if stop else START)
    again = flat(islice(corpus.sampler(limits, window).batches(Cursor(**saved)), 12))
    assert again == whole[stop:]


def test_resuming_reads_one_window():
    corpus = Corpus([(5,)] * 100)
    sampler = corpus.sampler(BatchLimits(20, 9, 5), window=10)
    for start, reads in [
        (Cursor(4, 7, 1), [(4, 10)]),
        (Cursor(4, 7, 2), [(4, 10)]),
        (Cursor(9), [(9, 10)]),
    ]:
        corpus.reads.clear()
        next(sampler.batches(start))
        assert corpus.reads == reads


def test_where_lengths_are_known_only_the_requested_rows_are_read():
    sizes = [(1 + i % 5, 2) for i in range(100)]
    corpus = Corpus(sizes, known=True)
    limits = BatchLimits(20, 9, 5)
    batches = [batch for _, batch in islice(corpus.sampler(limits, 50).batches(), 30)]
    assert corpus.reads == []
    for batch in batches:
        examples = batch.read(slice(1, None, 3))
        assert corpus.reads.pop() == (batch.epoch, len(examples))
        assert [example[0][0] for example in examples] == batch.indices[1::3].tolist()
        assert batch.weights(None).tolist() == batch.lengths.sum(axis=1).tolist()
    assert corpus.reads == []


@settings(deadline=None)
@given(corpora(), BUDGETS, st.integers(1, 60))
def test_batches_are_the_same_whether_lengths_are_known_or_read(corpus, limits, window):
    found = []
    for corpus.known in (False, True):
        found.append(flat(islice(corpus.sampler(limits, window).batches(), 20)))
    assert found[0] == found[1]


def test_the_cursor_after_a_full_window_is_the_next_window():
    sampler = Corpus([(5,)] * 8).sampler(BatchLimits(10, 9, 5), window=4)
    cursors = [cursor for cursor, _ in islice(sampler.batches(), 5)]
    expected = [(0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1)]
    assert cursors == [Cursor(*place) for place in expected]


def test_epochs_and_seeds_have_their_own_order_of_examples():
    """Examples of one length, in one batch: they stay in the order of the epoch."""
    corpus = Corpus([(1, 1)] * 60)
    everything = BatchLimits(60, 60, 12)
    first, second = epochs(corpus.sampler(everything, 60), 2)
    (other,) = epochs(corpus.sampler(everything, 60, seed=4), 1)
    assert first != second and first != other
    assert first == epochs(corpus.sampler(everything, 60), 1)[0]


def test_epochs_and_windows_have_their_own_order_of_batches():
    """Ten lengths, one for each batch: only the order of batches can differ."""
    corpus = Corpus([(1 + i % 10,) for i in range(20)])
    corpus.read = lambda epoch, indices: [  # type: ignore[method-assign]
        (np.zeros(1 + i % 10),) for i in range(len(indices))
    ]
    batches = islice(corpus.sampler(BatchLimits(10, 1, 10), 10).batches(), 40)
    orders = np.array([batch.lengths[0, 0] for _, batch in batches]).reshape(4, 10)
    assert (np.sort(orders) == np.arange(1, 11)).all()
    assert len({tuple(order) for order in orders}) == 4


def test_batches_of_a_window_are_shuffled():
    corpus = Corpus([(i,) for i in range(1, 41)])
    (batches,) = epochs(corpus.sampler(BatchLimits(40, 1, 40), 40), 1)
    lengths = [corpus.sizes[i] for (i,) in batches]
    assert lengths != sorted(lengths) and lengths != sorted(lengths, reverse=True)


def test_examples_that_are_too_long_are_left_out_and_counted_once():
    corpus = Corpus([(3, 3), (3, 9), (9, 3), (2, 2), (9, 9)])
    sampler = corpus.sampler(BatchLimits(8, 8, 8), window=1)
    for batches in epochs(sampler, 2):
        assert sorted(i for batch in batches for i in batch) == [0, 3]
    assert sampler.dropped == {"longer than 8 tokens": 3}


def test_what_fits_is_not_counted():
    sampler = Corpus([(8, 1)] * 5).sampler(BatchLimits(8, 8, 8), window=2)
    epochs(sampler, 1)
    assert not sampler.dropped


def test_nothing_left_is_an_error():
    with pytest.raises(BadInput, match="none of 3 examples is at most 8 tokens long"):
        next(Corpus([(9,)] * 3).sampler(BatchLimits(8, 8, 8), window=2).batches())
    with pytest.raises(BadInput, match="the training data has no examples"):
        next(Corpus([]).sampler(BatchLimits(8, 8, 8), window=2).batches())


@pytest.mark.parametrize("cursor", [Cursor(0, 2), Cursor(0, -1), Cursor(0, 0, 9), Cursor(0, 0, -1)])
def test_a_cursor_of_other_data_is_refused(cursor):
    with pytest.raises(BadInput, match="cannot resume at"):
        next(Corpus([(1,)] * 4).sampler(BatchLimits(8, 1, 8), window=2).batches(cursor))


def test_the_epoch_reaches_the_reader():
    corpus = Corpus([(1,)] * 4)
    epochs(corpus.sampler(BatchLimits(8, 8, 8), window=3), 2)
    assert corpus.reads == [(0, 3), (0, 1), (1, 3), (1, 1), (2, 3)]
