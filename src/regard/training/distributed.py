"""Data-parallel processes: ranks, collectives and gradient synchronisation.

Every rank makes the same batches from the same keys, and reads its own rows of them. Gradients and
losses are summed over ranks, and so are the weights of rows where they are known only from reading.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.ground.device import device_named
from regard.training.rendezvous import Rendezvous

Item = TypeVar("Item")


@dataclass(frozen=True)
class World:
    """The rank and the device of this process, and the number of processes."""

    rank: int
    size: int
    device: torch.device
    rendezvous: Rendezvous | None = None

    @classmethod
    def join(cls, device: str | None = None) -> "World":
        """The world that ``torchrun`` describes in the environment, or one process."""
        world = int(os.environ.get("WORLD_SIZE", "1"))
        chosen = device_named(device, local=int(os.environ.get("LOCAL_RANK", "0")))
        cuda = chosen.type == "cuda"
        if cuda:
            torch.cuda.set_device(chosen)
        rank = int(os.environ.get("RANK", "0"))
        if world == 1:
            return cls(rank, world, chosen)
        if not dist.is_initialized():
            dist.init_process_group("nccl" if cuda else "gloo")
        return cls(rank, world, chosen, Rendezvous.join(rank, world))

    @contextmanager
    def together(self, *endings: type[BaseException]) -> Iterator[None]:
        """If one rank fails in this block, all end; ``endings`` are no failures."""
        if self.rendezvous is None:
            yield
            return
        try:
            yield
        except BaseException as error:
            if not isinstance(error, endings):
                self.rendezvous.fail(error)
                raise  # the process group stays open: closing it may wait for the others
            self.leave()
            raise
        self.rendezvous.leave_in_turn()
        self.leave()

    def leave(self) -> None:
        """Leave the process group."""
        if self.rendezvous is not None:
            self.rendezvous.leave()
            dist.destroy_process_group()

    @property
    def is_leader(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradient synchronisation (DDP), if there are several processes."""
        if self.size == 1:
            return model
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=ids)

    def gradient_sync(self, model: nn.Module, last: bool) -> AbstractContextManager:
        """Gradients are synchronised with the last slice of a step only."""
        if isinstance(model, DistributedDataParallel) and not last:
            return model.no_sync()
        return nullcontext()

    def all_reduce(self, sums: Tensor) -> Tensor:
        """The sum over all ranks."""
        if self.size > 1:
            dist.all_reduce(sums)
        return sums

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks, in order; they have the same shape."""
        if self.size == 1:
            return [tensor]
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(gathered, tensor.contiguous())
        return gathered

    def barrier(self) -> None:
        """Wait for all processes, without a time limit."""
        if self.rendezvous is not None:
            self.rendezvous.meet()

    def from_leader(self, compute: Callable[[], Item]) -> Item:
        """The result of the leader on all ranks; it must be representable in JSON."""
        return compute() if self.rendezvous is None else self.rendezvous.from_leader(compute)

    def any_rank(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        return bool(self.all_reduce(torch.tensor(float(flag), device=self.device)) > 0)
