"""Datasets: what is known by index is what reading gives; what is held out is not trained on."""

import subprocess
import sys

import numpy as np
import pytest

from regard.core.batch import BatchLimits, TokenRow
from regard.core.errors import BadInput
from regard.data.batches.memory_dataset import MemoryDataset
from regard.data.batches.pair_dataset import PairStore, load_pairs
from regard.data.batches.training_data import Batching, held_out_indices, split_held_out
from regard.data.readers.sources import Lines
from regard.objectives.seq2seq import Seq2Seq

OBJECTIVE = Seq2Seq(bos=1, eos=2)
BATCHING = Batching(BatchLimits(40, 8, 20), seed=3)
TEXTS = [(f"{'a' * (number % 5 + 1)} b", "c" * (number % 3 + 1)) for number in range(40)]


class Letters:
    """An id for each letter; dropout removes the first where the key is even."""

    fingerprint = "letters"

    def __len__(self):
        return 128

    def encode_all(self, texts):
        return [[ord(letter) for letter in text] for text in texts]

    def encode_dropped(self, text, rate, key):
        return self.encode_all([text])[0][sum(key) % 2 :]


@pytest.fixture
def store(tmp_path):
    for name, number in (("train.src", 0), ("train.tgt", 1)):
        (tmp_path / name).write_text("".join(f"{pair[number]}\n" for pair in TEXTS))
    return PairStore((Letters(), Letters()), tmp_path / "store", None)


@pytest.fixture
def files(tmp_path):
    return Lines((str(tmp_path / "train.src"), str(tmp_path / "train.tgt")))


def encoded(pair):
    return tuple(Letters().encode_all(list(pair)))


def test_a_split_parts_all_examples_in_the_same_way_every_time():
    train_N, dev_N = held_out_indices(50, 7)
    assert len(dev_N) == 7 and sorted([*train_N, *dev_N]) == list(range(50))
    again = held_out_indices(50, 7)
    assert np.array_equal(again[0], train_N) and np.array_equal(again[1], dev_N)
    letters = [chr(97 + number % 26) for number in range(50)]
    train, dev = split_held_out(letters, 7)
    assert train == [letters[i] for i in train_N] and dev == [letters[i] for i in dev_N]
    with pytest.raises(BadInput, match="50 of 50 leaves no training examples"):
        held_out_indices(50, 50)


def test_a_split_leaves_every_label_in_training():
    _, dev_N = held_out_indices(50, 7)
    common = [("a",) if number % 2 else ("b",) for number in range(50)]
    same = held_out_indices(50, 7, common)
    assert all(map(np.array_equal, same, held_out_indices(50, 7)))
    rare = [*common]
    rare[dev_N[3]] = ("c",)
    train_N, others_N = held_out_indices(50, 7, rare)
    assert {*dev_N} - {*others_N} == {dev_N[3]} and len(others_N) == 7
    assert sorted([*train_N, *others_N]) == list(range(50))
    assert {rare[i] for i in train_N} == {("a",), ("b",), ("c",)}
    few = [("a",), ("a",), ("b",)]
    with pytest.raises(BadInput, match=r"2 of 3 leaves labels .*; hold out 1 at most, or name a"):
        held_out_indices(3, 2, few)
    with pytest.raises(BadInput, match=r"1 of 3 leaves .*; each label needs two examples, or"):
        held_out_indices(3, 1, [("a",), ("b",), ("c",)])


def test_examples_in_memory_are_measured_once():
    class Counting(Seq2Seq):
        calls = 0

        def length(self, example):
            Counting.calls += 1
            return super().length(example)

    objective = Counting(1, 2)
    examples = [encoded(pair) for pair in TEXTS]
    dataset, indices = MemoryDataset(examples), np.array([3, 0, 17])
    assert dataset.read(5, indices) == [examples[i] for i in indices]
    for epoch in range(3):
        lengths = dataset.lengths(objective, epoch, indices).tolist()
        assert lengths == [[*OBJECTIVE.length(examples[i])] for i in indices]
        weights = dataset.weights(objective, epoch, indices).tolist()
        assert weights == [OBJECTIVE.weight(examples[i]) for i in indices]
    assert Counting.calls == len(examples) == len(dataset)


def test_a_fingerprint_is_the_same_in_another_process():
    rows = "MemoryDataset([(TokenRow([1, 2], [0, 0]), [0]), (TokenRow([1], [0]), None)])"
    imports = (
        "from regard.data.batches.memory_dataset import MemoryDataset; "
        "from regard.core.batch import TokenRow"
    )
    command = [sys.executable, "-c", f"{imports}; print({rows}.fingerprint)"]
    elsewhere = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    here = eval(rows, {"MemoryDataset": MemoryDataset, "TokenRow": TokenRow}).fingerprint
    assert here == elsewhere and here.startswith("2 rows, ")


@pytest.mark.parametrize("held_out", [None, 9])
def test_lengths_and_weights_of_pairs_are_known_by_index(store, files, held_out):
    data = load_pairs(store, BATCHING, {"train": files}, held_out or files)
    indices = np.arange(len(data.train))[::-2]
    examples = data.train.read(0, indices)
    lengths = data.train.lengths(OBJECTIVE, 0, indices).tolist()
    assert lengths == [[*OBJECTIVE.length(example)] for example in examples]
    weights = data.train.weights(OBJECTIVE, 0, indices).tolist()
    assert weights == [OBJECTIVE.weight(example) for example in examples]
    assert data.fingerprint.startswith("40 pairs, ")


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_held_out_pairs_are_not_trained_on(store, files, dropout):
    data = load_pairs(store, BATCHING, {"train": files}, 9, dropout)
    train_N, dev_N = held_out_indices(40, 9)
    assert data.sizes == {"train": 31, "dev": 9} and len(data.train) == 31
    assert data.dev_texts(4) == [TEXTS[i] for i in dev_N[:4]]
    assert [tuple(map(list, pair)) for pair in data.dev] == [encoded(TEXTS[i]) for i in dev_N]
    if not dropout:
        read = data.train.read(0, np.arange(31))
        assert [tuple(map(list, pair)) for pair in read] == [encoded(TEXTS[i]) for i in train_N]


def test_dropout_is_drawn_by_epoch_and_example_alone(store, files):
    train = load_pairs(store, BATCHING, {"train": files}, files, 0.5).train
    assert train.lengths(OBJECTIVE, 0, np.arange(9)) is None
    assert train.weights(OBJECTIVE, 0, np.arange(9)) is None
    whole = train.read(0, np.arange(40))
    assert train.read(0, np.array([7, 3])) == [whole[7], whole[3]]
    assert train.read(1, np.array([7, 3])) != [whole[7], whole[3]]


def test_development_batches_hold_every_example_once(store, files):
    class Rank:
        size, device = 3, "cpu"

        def __init__(self, rank):
            self.rank = rank

    data = load_pairs(store, BATCHING, {"train": files}, files)
    batches = [batch for rank in range(3) for batch in data.dev_batches(OBJECTIVE, Rank(rank))]
    assert sum(batch.weight for batch in batches) == sum(len(pair[1]) + 1 for pair in TEXTS)
    assert sum(batch.inputs.target.layout.rows for batch in batches) == 40
