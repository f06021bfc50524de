"""A process that has computed in two threads can start others."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from regard.core.workers import WorkerProcesses
from small import environment

SIZE = 1_000_000  # enough for torch to use its threads


@pytest.fixture
def _two_threads():
    torch.set_num_threads(2)
    torch.sin(torch.ones(SIZE))
    yield
    torch.set_num_threads(1)


def sum_of_ones(size):
    return torch.ones(size).sin().sum().item(), torch.get_num_threads()


def begin():
    return sum_of_ones


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12 warns of forks
def test_a_forked_child_computes_in_one_thread(_two_threads):
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends a child that waits for ever
        total, threads = sum_of_ones(SIZE)
        os._exit(0 if threads == 1 and total > 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.get_num_threads() == 2  # this process goes on as before


# In a new Python: Arm's Compute Library keeps the number of threads that it begins with.
GELU = """
import os, signal, torch, regard.core.forks
torch.set_num_threads(2)
gelu, numbers = torch.nn.GELU(), torch.ones(480, 48)
expected = gelu(numbers)
child = os.fork()
if not child:
    signal.alarm(10)  # ends a child that waits for ever
    os._exit(0 if gelu(numbers).equal(expected) else 1)
assert os.waitpid(child, 0)[1] == 0
assert gelu(numbers).equal(expected) and torch.get_num_threads() == 2
"""


@pytest.mark.slow
def test_a_forked_child_runs_an_operator_with_its_own_number_of_threads():
    subprocess.run([sys.executable, "-c", GELU], env=environment(2), check=True, timeout=60)


@pytest.mark.slow
def test_workers_start(_two_threads, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # workers find this file there
    with WorkerProcesses(2, partial(begin)) as workers:
        results = list(workers.map([(SIZE,)] * 4))
    assert [threads for _, threads in results] == [1] * 4
