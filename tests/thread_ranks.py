"""Ranks that are threads of this process, with collectives between them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any

import torch
from torch import Tensor

from regard.training.distributed import World


class Meeting:
    """Where ranks exchange values."""

    def __init__(self, size: int):
        self.values: list[Any] = [None] * size
        self.barrier = Barrier(size, timeout=60)

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self.values[rank] = value
        self.barrier.wait()
        values = [*self.values]
        self.barrier.wait()
        return values


@dataclass(frozen=True)
class ThreadWorld(World):
    """One of several ranks; what does not fit what the others send or expect fails."""

    meeting: Meeting = field(default_factory=lambda: Meeting(1))

    def all_reduce(self, sums: Tensor) -> Tensor:
        return sums.copy_(torch.stack(self.all_gather(sums.clone())).sum(0))

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        gathered = self.meeting.exchange(self.rank, tensor)
        assert {(each.shape, each.dtype) for each in gathered} == {(tensor.shape, tensor.dtype)}
        return gathered

    def all_to_all(self, sent: Tensor, sizes: list[int], received: list[int]) -> Tensor:
        assert sum(sizes) == len(sent)
        parts = self.meeting.exchange(self.rank, sent.split(sizes))
        own = [part[self.rank] for part in parts]
        assert [*map(len, own)] == received
        return torch.cat(own)


def run_ranks(size: int, run: Callable[[World], Any]) -> list[Any]:
    """What each of several ranks returns."""
    meeting = Meeting(size)
    worlds = [ThreadWorld(rank, size, torch.device("cpu"), meeting=meeting) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return [*pool.map(run, worlds)]
