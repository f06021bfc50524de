"""How a step is shared out: every row exactly once, and alike for all."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from time import sleep

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.core.errors import BadInput
from regard.data.batches.sampler import Sampler, StreamSampler
from regard.training import run, shard_writer
from regard.training.checkpoint import Checkpoints, RunProgress
from regard.training.distributed import (
    Rendezvous,
    World,
    agree_on_attempt,
    is_collective,
    poll_until,
)
from regard.training.loop.drawn_step import share
from regard.training.recipe import read
from regard.training.run import prepare
from regard.training.shard_writer import ShardWriter
from small_labels import write_owls
from small_streams import TokenStreams
from small_tuning import write_tuning

CPU = torch.device("cpu")


@given(world=st.integers(1, 6), accumulate=st.integers(1, 6), rows=st.integers(1, 9))
def test_every_row_is_someones_and_nobodys_twice(world, accumulate, rows):
    step = [[(batch, row) for row in range(rows)] for batch in range(accumulate)]
    splits = Sampler.splits(None, accumulate, world)
    shares = [share(World(rank, world, CPU), accumulate, splits) for rank in range(world)]
    rows_of = [row for own in shares for _, batch, part in own for row in step[batch][part]]
    assert sorted(rows_of) == sorted(row for batch in step for row in batch)
    assert len({len(own) for own in shares}) == 1  # as many turns for each: none waits alone


@given(world=st.integers(1, 4), turns=st.integers(1, 3))
def test_whole_batches_keep_their_numbers(world, turns):
    """So dropout, which is keyed by the number, falls as in one process."""
    splits = Sampler.splits(None, world * turns, world)
    for rank in range(world):
        for number, batch, rows in share(World(rank, world, CPU), world * turns, splits):
            assert (batch, range(9)[rows]) == (number, range(9))


@given(world=st.integers(1, 4), turns=st.integers(1, 3), streams=st.integers(1, 4))
def test_streams_stay_where_their_states_are(world, turns, streams):
    dataset = TokenStreams(np.arange(99), streams * world, 1)
    splits = StreamSampler(dataset).splits(turns, world)
    for rank in range(world):
        shares = share(World(rank, world, CPU), turns, splits)
        assert [(batch, rows) for _, batch, rows in shares] == [
            (batch, slice(rank, None, world)) for batch in range(turns)
        ]


def test_streams_that_cannot_be_shared_are_refused():
    with pytest.raises(
        BadInput, match="3 streams, 2 processes: each process needs the same number"
    ):
        StreamSampler(TokenStreams(np.arange(99), 3, 4)).splits(1, 2)


def test_processes_that_start_again_share_a_name_of_their_own():
    """In a store with the questions of processes that ended before rank 0 could answer."""
    store, first = dist.HashStore(), "an earlier process"
    store.set("rank 1 asks", first)
    store.set("rank 2 asks", first)

    def attempt(rank: int) -> str:
        sleep(0.05 * rank)
        return agree_on_attempt(store, rank, 3, limit=10)

    names = []
    for _ in range(2):
        with ThreadPoolExecutor(3) as pool:
            (name,) = set(pool.map(attempt, range(3)))
        names.append(name)
    assert names[0] != names[1]
    with pytest.raises(RuntimeError, match="timed out after 0 s"):
        agree_on_attempt(store, 0, 3, limit=0.01)


@pytest.fixture
def meeting():
    """Two ranks in one process."""
    store = dist.HashStore()
    both = [Rendezvous(store, rank, 2) for rank in range(2)]
    yield both
    for one in both:
        one.leave()


def test_the_leaders_word_reaches_all(meeting):
    """In the order of their calls, to the last bit, and computed once."""
    computed = []

    def calls(one):
        found = []
        for number in range(3):
            sleep(0.02 * one.rank * number)

            def compute(number=number):
                computed.append(one.rank)
                return {"score": number + 0.1}

            found.append(one.from_leader(compute))
            one.meet()
        return found

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(calls, meeting)
    assert first == second == [{"score": number + 0.1} for number in range(3)]
    assert computed == [0, 0, 0]


def test_a_classifier_is_evaluated_by_several_processes(meeting, tmp_path):
    """The others get what the leader measured, remarks on its predictions among it."""
    job = prepare(read(write_owls(tmp_path)), tmp_path / "run", World(0, 1, CPU), data=tmp_path).job
    *given, world = job.evaluate.args
    model = job.model.eval()
    for weight in model.parameters():
        nn.init.zeros_(weight)  # it says the first label of every text

    def evaluate(one):
        return job.evaluate.func(*given, replace(world, rendezvous=one), model)

    alone = evaluate(None)
    with ThreadPoolExecutor(1) as leader:  # modules are not made by two threads at a time
        first = leader.submit(evaluate, meeting[0])
        first.exception()
        assert evaluate(meeting[1]) == first.result() == alone
    assert "0" in alone.remark


def test_nobody_goes_on_before_all_are_here(meeting):
    here = []

    def come(one):
        sleep(0.1 * one.rank)
        here.append(one.rank)
        one.meet()
        return len(here)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(come, meeting)) == [2, 2]


def test_the_leader_goes_last(meeting):
    """The store may go with it, and the others still look into it."""
    ready = []

    def go(one):
        sleep(0.1 * one.rank)
        ready.append(one.rank)
        one.leave_in_turn()
        return len(ready)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(go, meeting)) == [2, 2]


def test_ranks_choose_by_the_same_score(tmp_path, monkeypatch):
    """What the development set says is what it says to the leader."""
    recipe = read(write_tuning(tmp_path, "one"))
    job = prepare(recipe, tmp_path / "run", World(0, 1, CPU), data=tmp_path).job
    *given, world = job.evaluate.args
    monkeypatch.setattr(World, "from_leader", lambda *_: {"figures": {"accuracy": 12.5}})
    verdict = job.evaluate.func(*given, replace(world, rank=0), job.model.eval())
    assert verdict.value == verdict.figures["accuracy"] == 12.5


def test_a_number_of_processes_is_refused_before_data_is_read(tmp_path, monkeypatch):
    recipe = read(
        write_tuning(tmp_path, "one"), ["distributed.kind=hsdp", "distributed.replicas=2"]
    )
    monkeypatch.setattr(run, "_prepare_leader_first", lambda *_: pytest.fail("it reads the data"))
    for count in ({}, {"processes": 6}):
        expected = BadInput if not count else pytest.fail.Exception
        with pytest.raises(expected, match=r"need 4 processes|it reads the data"):
            prepare(recipe, tmp_path / "run", World(0, 1, CPU), data=tmp_path, **count)
        assert not (tmp_path / "run").exists()


def test_many_processes_look_less_often():
    """A process that answers them all has 300 looks a second."""
    few, many = (Rendezvous(dist.HashStore(), 0, world) for world in (2, 1_024))
    few.leave()
    many.leave()
    assert few.pause == 0.5 and 300 * many.pause == pytest.approx(1_024)


def read_far_away():
    raise RuntimeError("Connection to corpus.example timed out")


def wait_for_nobody():
    poll_until(lambda: False, limit=0.0)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (read_far_away, False),
        (lambda: poll_until(read_far_away), False),
        (wait_for_nobody, True),
        (lambda: dist.HashStore().wait(["key"], timedelta(milliseconds=1)), True),
    ],
    ids=["a reader", "a reader that others wait for", "a wait", "a store"],
)
def test_only_errors_of_collectives_are_those_of_lost_processes(call, expected):
    with pytest.raises((RuntimeError, dist.DistError)) as error:
        call()
    assert is_collective(error.value) == expected


def test_collectives_of_checkpoints_have_the_limit_of_the_run(meeting, tmp_path, monkeypatch):
    limits = []
    monkeypatch.setattr(dist, "new_group", lambda **options: limits.append(options["timeout"]))
    meeting[0].timeout = 30.0
    for world in (World(0, 2, CPU, meeting[0]), World(0, 1, CPU)):
        ShardWriter(Checkpoints(tmp_path), world)
    assert limits == [timedelta(seconds=90)]  # one process has no collectives


def test_an_error_of_a_checkpoint_is_raised_before_the_next_one(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(shard_writer, "write_one_by_one", full)
    writer = ShardWriter(Checkpoints(tmp_path), World(0, 1, CPU))
    tensors = {"model": {"weight": torch.ones(2)}}
    no_space = "could not be written: no space left; last good checkpoint: none"
    for next_call in (
        writer.await_copies,
        writer.wait,  # at the end of a run
        lambda: writer.save(RunProgress(step=2), tensors, print),
    ):
        writer.save(RunProgress(step=1), tensors, print)
        writer.thread.join()
        with pytest.raises(BadInput, match=no_space):
            next_call()
        writer.await_copies()  # an error is raised once
    assert not [*tmp_path.iterdir()]
