"""A process that has computed in two threads can start others."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
import torch

from regard.inference.component import Workers

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


@pytest.mark.slow
def test_workers_start(_two_threads, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # workers find this file there
    with Workers(2, partial(begin)) as workers:
        results = list(workers.map([(SIZE,)] * 4))
    assert [threads for _, threads in results] == [1] * 4
