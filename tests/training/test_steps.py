"""A process reads its own rows of a step, and knows the weight of all where it can."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, repeat
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches.sampler import START, Dataset, Sampler
from regard.ground.batch import BatchLimits
from regard.training.distributed import World
from regard.training.loop.read_ahead import read_ahead
from regard.training.loop.steps import read_steps
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


class Meeting:
    """Where ranks that are threads exchange values."""

    def __init__(self, size):
        self.values, self.barrier = [None] * size, Barrier(size, timeout=60)

    def exchange(self, rank, value):
        self.values[rank] = value
        self.barrier.wait()
        values = [*self.values]
        self.barrier.wait()
        return values


@dataclass(frozen=True)
class ThreadWorld(World):
    """One of several ranks that are threads of this process."""

    meeting: Meeting | None = None

    def all_gather(self, tensor):
        gathered = self.meeting.exchange(self.rank, tensor)
        assert {(each.shape, each.dtype) for each in gathered} == {(tensor.shape, tensor.dtype)}
        return gathered

    def all_to_all(self, sent, sizes, received):
        assert sum(sizes) == len(sent)
        parts = self.meeting.exchange(self.rank, sent.split(sizes))
        own = [part[self.rank] for part in parts]
        assert [*map(len, own)] == received
        return torch.cat(own)


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


def job(world, accumulate, *, known=True, objective=OneWeight, examples=30, shards=0):
    """As much of a job as steps need."""
    dataset = Numbers(examples, known)
    sampler = Sampler(dataset, objective, BatchLimits(21, 5, 7), seed=1)
    recipe = SimpleNamespace(batches=SimpleNamespace(accumulate=accumulate))
    parts = {"sampler": sampler, "objective": objective, "recipe": recipe, "world": world}
    flops = lambda lengths: float((lengths**2).sum())  # noqa: E731
    return SimpleNamespace(**parts, flops=flops, processes=shards or world.size)


def steps(size, accumulate, start=START, count=12, **how):
    """The first steps of each of several processes, and what it read for them."""
    meeting = Meeting(size)

    def run(rank):
        world = ThreadWorld(rank, size, CPU, meeting=meeting)
        own = job(world, accumulate, **how)
        return list(islice(read_steps(own, start), count)), own.sampler.dataset.reads

    with ThreadPoolExecutor(size) as pool:
        return [*pool.map(run, range(size))]


def sums(step):
    return {**vars(step.sums), "cursor": step.cursor}


@given(size=st.integers(1, 5), accumulate=st.integers(1, 4), known=st.booleans())
def test_processes_read_their_own_rows_and_together_all(size, accumulate, known):
    ranks = steps(size, accumulate, known=known)
    ((alone, expected),), reads = steps(1, accumulate, known=known), []
    for own, read in ranks:
        reads += read
        for step, whole in zip(own, alone, strict=True):
            assert sums(step) == sums(whole)
            assert step.partial != known
    assert known is False or sorted(reads) == sorted(expected)
    for number, whole in enumerate(alone):
        weights = [own[number].weight for own, _ in ranks]
        assert (weights[0] if known else sum(weights)) == whole.weight
        rows = [one for own, _ in ranks for part in own[number].slices for one in part.examples]
        assert sorted(rows) == sorted(one for part in whole.slices for one in part.examples)


def test_a_process_without_rows_has_weights_of_the_same_form():
    own, _ = steps(8, 1, known=False, objective=TwoWeights)[7]
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

    ahead = read_ahead(repeat(partial(next, items())), 3)
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
