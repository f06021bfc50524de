"""Processes that train together: ranks, collectives, and failures of one of them.

Every rank makes the same batches from the same keys, and reads its own rows of them. Gradients and
losses are summed over ranks, and so are the weights of rows if they are known only after reading.
Collectives have a time limit, but preparing data or evaluation may take longer. Outside of steps
processes poll a store instead, without a limit. A failing process writes to the store, and a thread
in each other process ends that process. The same thread writes a sign of life and the number of
slices that the process has begun: a process that was killed, or hangs while the others have begun
the next slice, is named by its neighbour, which ends all.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from regard.ground.device import device_named
from regard.ground.errors import reason_of

Value = TypeVar("Value")

PAUSE = 0.5  # seconds between two looks for a failure, and two signs of life
SILENCE = 60.0  # seconds without a sign of life after which a process is gone
SHORT = 4.0  # the same, if a connection to a process was lost
TIMEOUT = 600  # seconds that a process may be behind the others, and that a collective may take
LOST = ("connection closed", "connection reset", "broken pipe", "timed out", "timeout")
SOON, LATE = 0.005, 0.25  # seconds between two looks for what is awaited: more and more
FAILED, LEFT, ALIVE = "failed", "left", "alive "  # keys of the store
Item = TypeVar("Item")


class Rendezvous:
    """A key-value store that all processes read and write."""

    def __init__(self, store: dist.Store, rank: int, world: int, timeout: float = TIMEOUT):
        self.store, self.rank, self.world, self.timeout = store, rank, world, timeout
        self.calls = 0  # numbers the keys: all processes make the same calls in the same order
        self.begun = 0  # slices of steps
        self.over, self.ending = Event(), Lock()
        self.thread = Thread(target=self._watch, daemon=True)
        self.thread.start()

    @classmethod
    def join(cls, rank: int, world: int, timeout: float = TIMEOUT) -> "Rendezvous":
        """Open a connection to the store of the launcher."""
        store, _, _ = next(dist.rendezvous("env://"))
        return cls(dist.PrefixStore("regard", store), rank, world, timeout)

    def meet(self) -> None:
        """Wait until all processes have called this."""
        key = self._key()
        self.store.add(key, 1)
        self._until(lambda: self.store.add(key, 0) >= self.world)

    def from_leader(self, compute: Callable[[], Value]) -> Value:
        """The result of rank 0, for which the other ranks wait."""
        key = self._key()
        if self.rank == 0:
            self.store.set(key, json.dumps(compute()))
        self._until(lambda: self.store.check([key]))
        return json.loads(self.store.get(key))

    def fail(self, error: BaseException) -> None:
        """Announce a failure; if another process failed first, end with its reason."""
        reason = reason_of(error)
        mine = fault = f"rank {self.rank} failed ({type(error).__name__}: {reason})"
        try:
            if any(sign in str(error).lower() for sign in LOST):
                fault = self._gone_rank() or mine
            self.leave()  # so that my own thread lets me speak
            first = self.store.compare_set(FAILED, "", fault).decode()
        except RuntimeError:  # the store went with another process: nobody is left to be told
            first = mine
        if first != mine:
            self._end(first)

    def leave(self) -> None:
        """Stop watching for failures of other processes."""
        self.over.set()

    def leave_in_turn(self) -> None:
        """Leave at the end of the run: rank 0, whose process may hold the store, goes last."""
        if self.rank == 0:
            self._until(lambda: self.store.add(LEFT, 0) >= self.world - 1)
        self.leave()
        self.thread.join(2 * PAUSE)  # it gives no other sign of life after this
        self.store.set(f"{ALIVE}{self.rank}", LEFT)
        self.store.add(LEFT, 1)

    def _key(self) -> str:
        self.calls += 1
        return str(self.calls)

    def _until(self, done: Callable[[], bool]) -> None:
        pause = SOON
        while not done():
            sleep(pause)
            pause = min(2 * pause, LATE)

    def _gone_rank(self) -> str:
        """The process that gives no sign of life after a lost connection; "": all do."""
        others = [rank for rank in range(self.world) if rank != self.rank]
        before = {rank: self._life(rank) for rank in others}
        end = monotonic() + SHORT
        while monotonic() < end:
            sleep(PAUSE)
            before = {rank: life for rank, life in before.items() if self._life(rank) == life}
            if not before:
                return ""
        return f"rank {min(before)} is gone: it was killed, or its machine was lost"

    def _life(self, rank: int) -> str:
        """Signs of life of a process, and the slices that it has begun: "12 3"; "": none yet."""
        key = f"{ALIVE}{rank}"
        return self.store.get(key).decode() if self.store.check([key]) else ""

    def _watch(self) -> None:
        """End this process when another has failed, even if its main thread is blocked."""
        signs, neighbour = 0, RankWatch((self.rank + 1) % self.world, self.timeout)
        while not self.over.wait(PAUSE):
            try:
                signs += 1
                self.store.set(f"{ALIVE}{self.rank}", f"{signs} {self.begun}")
                if fault := neighbour.fault(self._life(neighbour.rank), self.begun):
                    self.store.compare_set(FAILED, "", fault)
                failed = self.store.check([FAILED]) and self.store.get(FAILED).decode()
            except RuntimeError:
                failed = "the process that started this run is gone"
            if failed and not self.over.is_set():
                if self.rank == 0:  # its process may hold the store, which the others read
                    sleep(3 * PAUSE)
                self._end(failed)

    def _end(self, reason: str) -> None:
        with self.ending:  # never released: one line is enough
            print(f"regard: rank {self.rank} ends: {reason}", file=sys.stderr, flush=True)
            os._exit(1)


class RankWatch:
    """What a process knows of the next one: when it last gave a sign of life, and last went on."""

    def __init__(self, rank: int, timeout: float):
        self.rank, self.timeout = rank, timeout
        self.life, self.behind = "", False
        self.alive = self.level = monotonic()

    def fault(self, life: str, begun: int) -> str:
        """Why the process has to be given up; "": it lives, and is not behind for too long.

        ``begun`` are the slices that the process has begun that asks.
        """
        now = monotonic()
        if life != self.life or not life:
            self.alive, self.life = now, life
        if life == LEFT:
            return ""
        if not life or int(life.split()[1]) >= begun:
            self.level = now
        if now - self.alive > SILENCE:
            return f"rank {self.rank} is gone: no sign of life for {SILENCE:.0f} s"
        if now - self.level > self.timeout:
            since = f"for {self.timeout:.0f} s it has not begun a batch that others have"
            return f"rank {self.rank} hangs: {since}"
        return ""


@dataclass(frozen=True)
class World:
    """The rank and the device of this process, and the number of processes."""

    rank: int
    size: int
    device: torch.device
    rendezvous: Rendezvous | None = None

    @classmethod
    def join(cls, device: str | None = None, timeout: float = TIMEOUT) -> "World":
        """The world that ``torchrun`` describes in the environment, or one process.

        A process may be behind the others for ``timeout`` seconds, and a collective may take them
        and a minute more, so that the process that hangs is named first.
        """
        world = int(os.environ.get("WORLD_SIZE", "1"))
        chosen = device_named(device, local=int(os.environ.get("LOCAL_RANK", "0")))
        cuda = chosen.type == "cuda"
        if cuda:
            torch.cuda.set_device(chosen)
        rank = int(os.environ.get("RANK", "0"))
        if world == 1:
            return cls(rank, world, chosen)
        if not dist.is_initialized():
            limit = timedelta(seconds=timeout + SILENCE)
            dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=limit)
        return cls(rank, world, chosen, Rendezvous.join(rank, world, timeout))

    @contextmanager
    def together(self, *endings: type[BaseException]) -> Iterator[None]:
        """End all ranks if one of them fails in this block; ``endings`` are not failures."""
        if self.rendezvous is None:
            yield
            return
        try:
            yield
        except endings:
            self.leave()
            raise
        except BaseException as error:
            self.rendezvous.fail(error)
            raise  # the process group stays open: closing it may wait for the others
        self.rendezvous.leave_in_turn()
        self.leave()

    def leave(self) -> None:
        """Leave the process group."""
        if self.rendezvous is not None:
            self.rendezvous.leave()
            dist.destroy_process_group()

    def begin_slice(self) -> None:
        """Note that this process begins a slice of a step."""
        if self.rendezvous is not None:
            self.rendezvous.begun += 1

    @property
    def is_leader(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

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


def is_restarted() -> bool:
    """Whether torchrun has started the processes again, after one of them failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
