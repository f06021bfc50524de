"""A process reads its own rows of a step, and knows the weight of all where it can."""

import tracemalloc
from dataclasses import replace
from functools import partial
from itertools import islice, repeat
from math import gcd
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.batch import BatchLimits
from regard.core.errors import BadInput
from regard.data.batches.document_dataset import DocumentDataset
from regard.data.batches.pair_dataset import PairDataset
from regard.data.batches.sampler import START, Dataset, Sampler
from regard.data.batches.shards import Chunk, TokenShard, TokenShardPair, write_staged
from regard.training.distributed import World
from regard.training.loop import shared_windows
from regard.training.loop.drawn_step import DrawnSlice, read_ahead, step_sums
from regard.training.loop.steps import read_steps
from regard.training.loop.trainer import Trainer
from thread_ranks import run_ranks

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
        return (0.5 + indices) / 3 if self.known else None


class TooLong(Numbers):
    """Examples of which none fits a batch."""

    def lengths(self, objective, epoch, indices):
        return 8 + indices[:, None]


class TwoWeights:
    """As of a sum of two objectives."""

    @staticmethod
    def weight(example):
        return np.array([(0.5 + example) / 3, 1.0])


class OneWeight:
    """A weight whose sums are exact in any order."""

    @staticmethod
    def weight(example):
        return 0.5 + example


def job(world, accumulate, *, known=True, objective=OneWeight, examples=30, shards=0, dataset=None):
    """As much of a job as steps need."""
    dataset = (dataset or Numbers)(examples, known)
    sampler = Sampler(dataset, objective, BatchLimits(21, 5, 7), seed=1)
    recipe = SimpleNamespace(batches=SimpleNamespace(accumulate=accumulate))
    parts = {"sampler": sampler, "objective": objective, "recipe": recipe, "world": world}
    flops = lambda lengths: float((lengths**2).sum())  # noqa: E731
    return SimpleNamespace(**parts, flops=flops, processes=shards or world.size)


def steps(size, accumulate, start=START, count=12, **how):
    """The first steps of each of several processes, and what it read for them."""

    def run(world):
        own = job(world, accumulate, **how)
        return list(islice(read_steps(own, start), count)), own.sampler.dataset.reads

    return run_ranks(size, run)


def sums(step):
    """Sums over a step, and the cursor after it."""
    weight = step.sums.weight
    return {
        **vars(step.sums),
        "weight": None if weight is None else weight.tolist(),
        "cursor": step.cursor,
    }


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


class Drawn(Numbers):
    """Lengths and weights are known after reading, as with BPE-dropout; some are too long."""

    def lengths(self, objective, epoch, indices):
        return None

    def count_corpora(self, indices):
        return {"odd": int((indices % 2).sum()), "even": int((indices % 2 == 0).sum())}


class DrawnLengths(TwoWeights):
    @staticmethod
    def length(example):
        return 1 + example % 7, 1 + example % 9


def rows_of(ranks, number):
    """The slices of a step in all processes: number and rows."""
    parts = [part for own, _ in ranks for part in own[number].slices]
    return {part.number: part.examples for part in parts}


@settings(deadline=None, max_examples=10)
@given(
    size=st.integers(2, 5),
    later=st.integers(1, 4),
    accumulate=st.integers(1, 7),
    examples=st.integers(1, 200),
    stop=st.integers(0, 8),
    known=st.booleans(),
)
def test_steps_go_on_with_the_same_rows_in_any_number_of_processes(
    size, later, accumulate, examples, stop, known
):
    """Slices are every n-th row of the batches that one process cuts."""
    how = {"examples": examples} | ({} if known else {"dataset": Drawn, "objective": DrawnLengths})
    ((alone, _),) = steps(1, accumulate, **how)
    start = alone[stop - 1].cursor if stop else START
    for processes in (size, later):
        ranks = steps(processes, accumulate, start, 12 - stop, **how)
        splits = processes // gcd(accumulate, processes)
        for number, whole in enumerate(alone[stop:]):
            expected = {
                splits * part.number + first: part.examples[first::splits]
                for part in whole.slices
                for first in range(splits)
            }
            assert rows_of(ranks, number) == expected
            for own, _ in ranks:
                assert sums(own[number]) == sums(whole)
                assert not own[number].partial


def test_slices_of_exact_sums_are_dealt_to_all_processes():
    """As many slices for any number of processes, several for each."""
    ((alone, _),) = steps(1, 3, shards=4)
    ranks = steps(2, 3, shards=4)
    for number, whole in enumerate(alone):
        assert rows_of(ranks, number) == {part.number: part.examples for part in whole.slices}
        assert {len(own[number].slices) for own, _ in ranks} == {6}


def test_each_process_cuts_its_share_of_the_windows(monkeypatch):
    """60 steps of 8 batches: 480 batches, of which a window of 40 examples has 13 or 14."""
    cuts = []
    cut = Sampler.cut_window

    def counted(self, cursor):
        cuts.append(cursor)
        return cut(self, cursor)

    monkeypatch.setattr(Sampler, "cut_window", counted)
    steps(1, 8, count=60, examples=400)
    needed = {*cuts}
    cuts.clear()
    steps(8, 8, count=60, examples=400)
    assert len(cuts) == len({*cuts}) and needed <= {*cuts}
    assert len(cuts) < len(needed) + 8


def test_slices_are_made_when_a_step_takes_them(monkeypatch):
    """A round of many processes has far more of them than a step."""
    made = []

    def counted(*parts):
        made.append(parts)
        return DrawnSlice(*parts)

    monkeypatch.setattr(shared_windows, "DrawnSlice", counted)
    steps(2, 1, count=3, examples=400)
    assert len(made) == 2 * 3


class RowLengths:
    """As much of the plan of an epoch as steps need."""

    lengths = 1 + np.arange(1_200) % 7

    def __len__(self):
        return len(self.lengths)

    def read(self, rows):
        return rows.tolist()


class FewRows(DocumentDataset):
    window = 20


def test_each_process_makes_the_plan_of_an_epoch_once():
    """A thread cuts windows of the next epoch while another reads rows of this one."""

    def plans_of(world):
        plans = []

        def plan(epoch):
            plans.append(epoch)
            return RowLengths()

        dataset = FewRows(None, plan, lambda rows, indices, key: rows, seed=1)
        own = job(world, 2, dataset=lambda *_: dataset)
        drawn = read_steps(own, START)
        epochs = [step.cursor.epoch for step in islice(drawn, 400)]
        drawn.close()
        assert epochs[-1] >= 2
        return plans

    for plans in run_ranks(3, plans_of):
        assert sorted(plans) == [*range(len(plans))]


def test_plans_of_two_mixed_epochs_are_cached():
    """Each of 2.5 rounds: 0, 1 and half of 2; then the rest of 2, 3 and 4."""
    plans = []
    dataset = FewRows(None, lambda epoch: plans.append(epoch) or RowLengths(), None, seed=1)
    mixed = dataset.in_rounds(2.5)
    for _ in range(3):
        for epoch in (0, 1, 2, 2, 3, 4):
            mixed.planned(epoch)
    assert plans == [0, 1, 2, 3, 4]


def test_examples_that_are_too_long_are_counted_once_by_all_processes():
    def dropped(world):
        own = job(world, 3, dataset=Drawn, objective=DrawnLengths, examples=100)
        [*islice(read_steps(own, START), 30)]
        return own.sampler.dropped

    long = sum(max(DrawnLengths.length(example)) > 7 for example in range(100))
    assert run_ranks(3, dropped) == [{"longer than 7 tokens": long}] * 3


def test_data_without_a_short_example_is_refused_by_all_processes():
    with pytest.raises(BadInput, match="none of 90 examples is at most 7 tokens long"):
        steps(2, 1, examples=90, dataset=TooLong)


class SometimesTooLong(Numbers):
    """Examples of which none fits a batch in the second epoch."""

    def lengths(self, objective, epoch, indices):
        return 1 + indices[:, None] % 7 + 7 * (epoch == 1)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_an_epoch_without_a_short_example_is_refused_by_any_number_of_processes(size):
    """Also if epochs before and after it have some."""
    with pytest.raises(BadInput, match="none of 30 examples is at most 7 tokens long"):
        steps(size, 2, dataset=SometimesTooLong)


def test_sums_that_do_not_fit_the_corpora_are_an_error():
    own = job(World(0, 1, CPU), 1, dataset=Drawn, objective=DrawnLengths)
    counted = [4.0, 20.0, 90.0]
    sums = step_sums(own, 2, np.array([[*counted, 3.0, 1.0, 6.5]]))
    assert sums.corpora == {"odd": 3, "even": 1} and sums.weight == 6.5
    with pytest.raises(ValueError, match="shorter"):
        step_sums(own, 2, np.array([[*counted, 3.0]]))


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


class PairLengths:
    """As much of an objective of pairs as steps need."""

    @staticmethod
    def lengths(sizes_NS):
        return sizes_NS + 1

    @staticmethod
    def weights(sizes_NS):
        return sizes_NS[:, 1] + 1


def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    """Of 2,000 and 40,000 pairs, a window is in memory; an index for each pair would be 320 kB."""
    monkeypatch.setattr(PairDataset, "window", 500)

    def peak(pairs):
        paths = [tmp_path / f"{pairs}.{side}" for side in ("source", "target")]
        rows = [[1] * (1 + row % 9) for row in range(pairs)]
        write_staged(paths, [9, 9], [Chunk([rows, rows])], tmp_path / f"{pairs}.json")
        dataset = PairDataset(TokenShardPair(*map(TokenShard, paths)), None)
        sampler = Sampler(dataset, PairLengths, BatchLimits(100, 20, 10), seed=1)
        drawn = read_steps(replace_sampler(job(World(0, 1, CPU), 2), sampler), START)
        tracemalloc.start()
        for _ in range(200):
            next(drawn)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few, many = peak(2_000), peak(40_000)
    assert many < few + 50_000


def replace_sampler(parts, sampler):
    return SimpleNamespace(**{**vars(parts), "sampler": sampler, "objective": sampler.objective})
