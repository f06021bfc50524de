"""A mixture has each corpus by its weight, and repeats nothing before a whole round was read."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.batches.mixed_dataset import mixed_dataset
from regard.data.batches.sampler import Dataset


class Letters(Dataset):
    """Examples are (letter, index); remembers the rounds that it is told to keep."""

    def __init__(self, letter, count, known=True):
        self.letter, self.count, self.known, self.rounds = letter, count, known, None

    def __len__(self):
        return self.count

    @property
    def fingerprint(self):
        return f"{self.count} {self.letter}"

    def read(self, epoch, indices):
        return [(self.letter, epoch, int(index)) for index in indices]

    def lengths(self, objective, epoch, indices):
        return 1 + indices[:, None] + 1_000 * epoch if self.known else None

    def weights(self, objective, epoch, indices):
        return 0.5 + indices if self.known else None

    def in_rounds(self, rounds):
        self.rounds = rounds
        return self


SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=4)
WEIGHTS = st.floats(0.05, 20)


@st.composite
def mixtures(draw):
    sizes = draw(SIZES)
    mix = {chr(97 + number): draw(WEIGHTS) for number in range(len(sizes))}
    corpora = [Letters(name, size) for name, size in zip(mix, sizes, strict=True)]
    return mixed_dataset(corpora, mix, draw(st.integers(0, 9)))


def epoch_of(mixture, epoch):
    return mixture.read(epoch, np.arange(len(mixture)))


@given(mixtures())
def test_an_epoch_has_each_corpus_by_its_weight(mixture):
    counts = Counter(letter for letter, *_ in epoch_of(mixture, 0))
    total, whole = sum(map(len, mixture.corpora.values())), sum(mixture.mix.values())
    for name, weight in mixture.mix.items():
        assert abs(counts[name] - total * weight / whole) <= 0.5 or counts[name] == 1
    assert len(mixture) == counts.total()
    assert mixture.count_corpora(np.arange(len(mixture))) == counts


@given(mixtures(), st.integers(1, 5))
def test_all_of_a_corpus_is_read_before_any_is_read_again(mixture, epochs):
    """Also over the end of an epoch: how often two examples were read differs by one at most."""
    seen = {name: [0] * len(corpus) for name, corpus in mixture.corpora.items()}
    for epoch in range(epochs):
        for letter, _, index in epoch_of(mixture, epoch):
            seen[letter][index] += 1
        for counts in seen.values():
            assert max(counts) - min(counts) <= 1


@given(mixtures(), st.integers(0, 3), st.data())
def test_an_example_depends_on_its_index_alone(mixture, epoch, data):
    every = epoch_of(mixture, epoch)
    index = st.integers(0, len(mixture) - 1)
    chosen = np.array(data.draw(st.lists(index, min_size=1, max_size=20)))
    assert mixture.read(epoch, chosen) == [every[i] for i in chosen]
    lengths = mixture.lengths(None, epoch, chosen)
    assert lengths[:, 0].tolist() == [1 + every[i][2] + 1_000 * every[i][1] for i in chosen]
    assert mixture.weights(None, epoch, chosen).tolist() == [0.5 + every[i][2] for i in chosen]


def test_rounds_and_seeds_have_orders_of_their_own():
    def order(seed, epoch):
        mixture = mixed_dataset([Letters("a", 30), Letters("b", 30)], {"a": 1, "b": 1}, seed)
        return tuple(index for letter, _, index in epoch_of(mixture, epoch) if letter == "a")

    orders = {order(1, 0), order(1, 1), order(2, 0)}
    assert len(orders) == 3 and all(sorted(one) == [*range(30)] for one in orders)
    assert order(1, 1) == order(1, 1)


def test_two_corpora_of_a_size_have_different_orders():
    mixture = mixed_dataset([Letters("a", 30), Letters("b", 30)], {"a": 1, "b": 1}, 1)
    examples = epoch_of(mixture, 0)
    assert [row[2] for row in examples[:30]] != [row[2] for row in examples[30:]]


def test_the_fingerprint_has_the_weights_and_the_remark_the_shares():
    corpora = [Letters("a", 10), Letters("b", 90)]
    mixture = mixed_dataset(corpora, {"a": 3.0, "b": 1.0}, 1)
    assert mixture.fingerprint == "a × 3: 10 a; b × 1: 90 b"
    (remark,) = mixture.remarks
    assert "100 examples: a 75.0% (75 examples, 7.5 rounds), b 25.0% (25" in remark
    assert [corpus.rounds for corpus in corpora] == [7.5, 25 / 90]


def test_lengths_are_unknown_if_those_of_a_corpus_are():
    corpora = [Letters("a", 3), Letters("b", 3, known=False)]
    mixture = mixed_dataset(corpora, {"a": 1, "b": 1}, 1)
    assert mixture.lengths(None, 0, np.arange(6)) is None
    assert mixture.weights(None, 0, np.arange(6)) is None


def test_no_rows_can_be_read():
    """A process may have no row of a batch."""
    mixture = mixed_dataset([Letters("a", 3), Letters("b", 4)], {"a": 1.0, "b": 1.0}, 0)
    assert mixture.read(2, np.zeros(0, np.int64)) == []


def test_one_corpus_without_weights_is_not_mixed():
    corpus = Letters("a", 3)
    assert mixed_dataset([corpus], {}, 1) is corpus
    with pytest.raises(BadInput, match=r"data\.mix\.b: the corpus has no examples"):
        mixed_dataset([corpus, Letters("b", 0)], {"a": 1, "b": 1}, 1)
