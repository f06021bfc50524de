"""A process reads its own rows of a step, and knows the weight of all where it can."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches.sampler import START, Dataset, Sampler
from regard.ground.batch import BatchLimits
from regard.training.distributed import World
from regard.training.loop.steps import read_ahead, read_steps
from regard.training.loop.trainer import Trainer

CPU = torch.device("cpu")


class Numbers(Dataset):
    """Examples that are their own index and length; remembers what was read."""

    window, ahead = 40, 0

    def __init__(self, count, known):
        self.count, self.known, self.reads = count, known, []

    def __len__(self):
        return self.count

    def read(self, epoch, indices):
        self.reads += [(epoch, int(index)) for index in indices]
        return [int(index) for index in indices]

    def lengths(self, objective, epoch, indices):
        return 1 + indices[:, None] % 7

    def weights(self, objective, epoch, indices):
        return 0.5 + indices if self.known else None


class TwoWeights:
    """As of a sum of two objectives."""

    @staticmethod
    def weight(example):
        return np.array([0.5 + example, 1.0])


class OneWeight:
    """That of the dataset."""

    @staticmethod
    def weight(example):
        return 0.5 + example


def job(world, accumulate, *, known=True, objective=OneWeight, count=30):
    """As much of a job as steps need."""
    dataset = Numbers(count, known)
    sampler = Sampler(dataset, objective, BatchLimits(21, 5, 7), seed=1)
    recipe = SimpleNamespace(batches=SimpleNamespace(accumulate=accumulate))
    parts = {"sampler": sampler, "objective": objective, "recipe": recipe, "world": world}
    return SimpleNamespace(**parts, processes=world.size)


def steps(rank, size, accumulate, **how):
    """The first steps of a process, and what it read for them."""
    given = job(World(rank, size, CPU), accumulate, **how)
    return list(islice(read_steps(given, START), 12)), given.sampler.dataset.reads


@given(size=st.integers(1, 5), accumulate=st.integers(1, 4), known=st.booleans())
def test_processes_read_their_own_rows_and_together_all(size, accumulate, known):
    ranks = [steps(rank, size, accumulate, known=known) for rank in range(size)]
    (alone, expected), reads = steps(0, 1, accumulate), []
    for own, read in ranks:
        reads += read
        for step, whole in zip(own, alone, strict=True):
            assert step.cursor == whole.cursor and np.array_equal(step.lengths, whole.lengths)
            assert step.partial != known
    assert known is False or sorted(reads) == sorted(expected)
    for number, whole in enumerate(alone):
        weights = [own[number].weight for own, _ in ranks]
        assert (weights[0] if known else sum(weights)) == whole.weight
        rows = [one for own, _ in ranks for part in own[number].slices for one in part.examples]
        assert sorted(rows) == sorted(one for part in whole.slices for one in part.examples)


def test_a_process_without_rows_has_weights_of_the_same_form():
    own, _ = steps(7, 8, 1, known=False, objective=TwoWeights)
    for step in own:
        rows = sum(len(part.examples) for part in step.slices)
        assert step.weight.shape == (2,) and step.weight[1] == rows
    assert min(sum(len(part.examples) for part in step.slices) for step in own) == 0


@pytest.mark.parametrize(
    ("size", "partial", "reduced"), [(1, True, 0), (2, False, 0), (2, True, 1)]
)
def test_weights_are_added_up_where_a_process_knows_its_own_only(size, partial, reduced):
    calls = []

    class Many(World):
        def all_reduce(self, sums):
            calls.append(sums.dtype)
            return sums * 3

    trainer = SimpleNamespace(world=Many(0, size, CPU))
    rows = SimpleNamespace(weight=np.array([2.0, 5.0]), partial=partial)
    weight = Trainer._total_weight(trainer, rows)
    assert calls == [torch.float64] * reduced
    assert weight.tolist() == ([6.0, 15.0] if reduced else [2.0, 5.0])


def test_items_are_read_ahead_in_order():
    drawn = []

    def items():
        for number in range(9):
            drawn.append(number)
            yield number

    ahead = read_ahead(items(), 3)
    assert [next(ahead), next(ahead)] == [0, 1]
    assert len(drawn) <= 5
    ahead.close()


def test_steps_are_read_ahead_where_a_dataset_asks_for_it(monkeypatch):
    given = job(World(0, 1, CPU), 2)
    plain = list(islice(read_steps(given, START), 5))
    given.sampler = replace(given.sampler)
    monkeypatch.setattr(Numbers, "ahead", 4)
    stream = read_steps(given, START)
    ahead = list(islice(stream, 5))
    stream.close()
    assert [(s.cursor, s.slices) for s in ahead] == [(s.cursor, s.slices) for s in plain]
