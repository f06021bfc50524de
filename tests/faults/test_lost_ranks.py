"""A process that is killed or hangs is named, and the run ends; torchrun may start it again."""

import os
import re
import signal
import sys
import time

import pytest
import torch.distributed as dist

from regard.training import distributed
from regard.training.distributed import RankWatch, SignOfLife
from small import start, tensors_of, write_corpus
from warm import start_ranks

FAULTS = """
import os, sys, time
from regard.cli import main
from regard.data.batches.sampler import Dataset, Sampler
from regard.objectives.seq2seq import Seq2Seq

Dataset.window = 40  # a third of the examples
plain, calls = PLACE, []

def faulty(self, *words):
    calls.append(words)
    first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if len(calls) == CALL and os.environ["RANK"] == "1" and first:
        FAULT
    return plain(self, *words)

PLACE = faulty
main()
"""
READING, CUTTING = ("Seq2Seq.collate", 9), ("Sampler.cut_window", 2)  # a call in each


def begin(tmp_path, fault: str, *settings: str, where=READING):
    recipe = write_corpus(tmp_path)
    place, call = where
    code = FAULTS.replace("PLACE", place).replace("CALL", str(call)).replace("FAULT", fault)
    (tmp_path / "faulty.py").write_text(code)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    changes = [word for setting in settings for word in ("--set", setting)]
    place = ("--data", tmp_path, "--out", tmp_path / "out", "--device", "cpu", *changes)
    return ("-m", "faulty", "train", recipe, *place), {"PYTHONPATH": path}


@pytest.mark.slow
def test_a_killed_process_is_named(tmp_path):
    words, variables = begin(tmp_path, "os.kill(os.getpid(), 9)")
    first, second = start_ranks(*words, **variables)
    said = first.communicate(timeout=120)[1]
    assert second.wait(10) == -signal.SIGKILL and first.returncode == 1
    assert "rank 1 is gone: it was killed, or its machine was lost" in said


@pytest.fixture
def launcher():
    """The variables of processes whose launcher has the store, as torchrun does."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    yield {"MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    del store


@pytest.mark.slow
def test_all_others_end_with_the_error_of_the_first(tmp_path, launcher):
    words, variables = begin(tmp_path, "raise RuntimeError('no paper')")
    running = start_ranks(*words, world=4, **variables, **launcher)
    said = [process.communicate(timeout=120)[1] for process in running]
    for rank in (0, 2, 3):
        end = f"regard: rank {rank} ends: rank 1 failed (RuntimeError: no paper)"
        assert last_line(said[rank]) == end and "Traceback" not in said[rank]


@pytest.mark.slow
def test_collectives_that_do_not_fit_each_other_end_in_one_line(tmp_path, launcher):
    """Gloo aborts some of the processes; the others do not print frames of C++."""
    other = "import torch; torch.distributed.all_reduce(torch.zeros(1_000_000))"
    words, variables = begin(tmp_path, other)
    running = start_ranks(*words, world=4, **variables, **launcher)
    said = [process.communicate(timeout=120)[1] for process in running]
    codes = [process.returncode for process in running]
    survivors = [rank for rank, code in enumerate(codes) if code != -signal.SIGABRT]
    assert survivors and {codes[rank] for rank in survivors} == {1}
    for rank in survivors:
        end = rf"regard: rank {rank} ends: rank \d (is gone: it was killed|failed \().*"
        assert re.fullmatch(end, last_line(said[rank]))
        assert "Traceback" not in said[rank] and "frame #" not in said[rank]


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("where", [READING, CUTTING], ids=["reading", "cutting"])
def test_a_process_that_hangs_is_named(tmp_path, where):
    words, variables = begin(tmp_path, "time.sleep(600)", "distributed.timeout=10", where=where)
    began = time.monotonic()
    running = start_ranks(*words, **variables)
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [1, 1]
    hangs = "rank 1 hangs: for 10 s it has been behind others"
    assert all(f"rank {rank} ends: {hangs}" in text for rank, text in enumerate(said))
    assert time.monotonic() - began < 100


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["os.kill(os.getpid(), 9)", "raise RuntimeError('no paper')"])
@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ((), READING),
        (("distributed.kind=fsdp",), READING),
        (("distributed.kind=fsdp",), ("Seq2Seq.collate", 3)),  # the only checkpoint is of step 0
    ],
    ids=["ddp", "fsdp", "fsdp, at once"],
)
def test_torchrun_starts_a_run_again(tmp_path, fault, settings, where):
    """Which goes on from its last checkpoint, to the same bits.

    The store of the launcher still has what the first processes wrote, such as a failure.
    """
    words, variables = begin(tmp_path, fault, *settings, where=where)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    process = start(*torchrun, "--max-restarts", "1", *words, **variables)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 0, said
    straight, variables = begin(tmp_path, "pass", *settings, where=where)
    straight = [tmp_path / "straight" if word == tmp_path / "out" else word for word in straight]
    for rank in start_ranks(*straight, **variables):
        rank.communicate(timeout=120)
    assert tensors_of(tmp_path / "out", 12) == tensors_of(tmp_path / "straight", 12)


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""
    now = [0.0]
    monkeypatch.setattr(distributed, "monotonic", lambda: now[0])
    return now


def test_a_neighbour_without_signs_of_life_is_gone(clock):
    neighbour = RankWatch(3, timeout=600)
    assert neighbour.fault(None, begun=0) is None
    clock[0] = 100.0  # it has not joined yet
    assert neighbour.fault(None, begun=0) is None
    assert neighbour.fault(SignOfLife(1, 0), begun=0) is None
    clock[0] = 159.0
    assert neighbour.fault(SignOfLife(1, 0), begun=0) is None
    clock[0] = 161.0
    fault = neighbour.fault(SignOfLife(1, 0), begun=0)
    assert str(fault) == "rank 3 is gone: no sign of life for 60 s"
    assert neighbour.fault(SignOfLife(2, 0), begun=0) is None
    clock[0] = 500.0  # it has ended
    assert neighbour.fault(SignOfLife(0, 0, left=True), begun=0) is None


def test_a_neighbour_that_falls_behind_hangs(clock):
    neighbour = RankWatch(3, timeout=600)
    for second in range(0, 2_000, 10):  # all wait, for an evaluation perhaps
        clock[0] = float(second)
        assert neighbour.fault(SignOfLife(second, 5), begun=5) is None
    for second in range(2_000, 2_590, 10):
        clock[0] = float(second)
        assert neighbour.fault(SignOfLife(second, 5), begun=6) is None
    clock[0] = 2_600.0
    fault = neighbour.fault(SignOfLife(9999, 5), begun=6)
    assert str(fault) == "rank 3 hangs: for 600 s it has been behind others"
    assert neighbour.fault(SignOfLife(10000, 6), begun=6) is None
