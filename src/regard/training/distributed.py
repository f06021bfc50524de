"""Processes that train together: ranks, collectives, and failures of one of them.

Ranks share the work of cutting the data into batches, and each reads its own rows. Gradients and
losses are summed over ranks, and so are the weights of rows if they are known only after reading.
Collectives have a time limit, but preparing data or evaluation may take longer. Outside of steps
processes poll a store instead, without a limit. A failing process writes to the store, and a thread
in each other process ends that process. The same thread writes a sign of life and the number of
turns that the process has begun (slices of steps, and exchanges of what was cut): a process that
was killed, or hangs while the others have begun the next turn, is named by its neighbour, which
ends all. torchrun may start all of them again with the same store, in which the keys of each
attempt have a prefix of their own.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from threading import Event, Lock, Thread
from time import monotonic, sleep
from traceback import walk_tb
from typing import ClassVar, NamedTuple, TypeVar
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor

from regard.core.device import device_named
from regard.core.errors import FAILED as EXIT_FAILED
from regard.core.errors import BadInput, reason_of

PAUSE = 0.5  # seconds between two looks for a failure, and two signs of life, at least
LOOKS = 300  # a second, at most, of all processes together: one process has the store
SILENCE = 60.0  # seconds without a sign of life after which a process is gone
SHORT = 8  # pauses without a sign of life after which it is gone, if a connection was lost
TIMEOUT = 600  # seconds that a process may be behind the others, and that a collective may take
# Words of the errors of collectives that other processes have left, or that do not fit theirs.
LOST = ("connection closed", "connection reset", "broken pipe", "timed out", "timeout")
COLLECTIVE = (*LOST, "gloo", "nccl", "c10d")
# Modules that call collectives or the store: in one of them such an error begins.
CALLERS = ("torch.distributed", "torch.nn.parallel", "torch.autograd", "regard.training")
SOON, LATE = 0.005, 0.25  # seconds between two looks for what is awaited: more and more
FAILED, KNOWN, LEFT, ALIVE = "failed", "known ", "left", "alive "  # keys of the store
Announced = TypeVar("Announced", bound=Mapping[str, object] | float)
"""What JSON gives back as it was: no tuple is one again."""
KINDS = {
    "failed": "rank {rank} failed ({message})",
    "gone": "rank {rank} is gone: {message}",
    "hangs": "rank {rank} hangs: {message}",
    "store lost": "{message}",
}
"""Kinds of failures, and the message about each."""


class RunFailure(NamedTuple):
    """Why all processes end: the ``kind`` of failure, the rank that failed, and the reason."""

    kind: str
    rank: int
    message: str

    def __str__(self) -> str:
        return KINDS[self.kind].format(rank=self.rank, message=self.message)


class SignOfLife(NamedTuple):
    """The number of a sign of life of a process, and the turns that it has begun."""

    number: int
    begun: int
    left: bool = False


STORE_LOST = RunFailure("store lost", 0, "the process that started this run is gone")


class Rendezvous:
    """A key-value store that all processes read and write."""

    def __init__(self, store: dist.Store, rank: int, world: int, timeout: float = TIMEOUT):
        self.store, self.rank, self.world, self.timeout = store, rank, world, timeout
        self.calls = 0  # numbers the keys: all processes make the same calls in the same order
        self.begun = 0  # turns: slices of steps, and exchanges of cut windows
        self.pause = max(PAUSE, world / LOOKS)
        self.over, self.ending = Event(), Lock()
        self.thread = Thread(target=self._watch, daemon=True)
        self.thread.start()

    def meet(self) -> None:
        """Wait until all processes have called this."""
        key = self._key()
        self.store.add(key, 1)
        poll_until(lambda: self.store.add(key, 0) >= self.world)

    def from_leader(self, compute: Callable[[], Announced]) -> Announced:
        """The result of rank 0, for which the other ranks wait."""
        key = self._key()
        if self.rank == 0:
            self.store.set(key, json.dumps(compute()))
        poll_until(lambda: self.store.check([key]))
        return json.loads(self.store.get(key))

    def fail(self, error: BaseException) -> None:
        """Announce a failure; end with the reason of another process that failed before.

        The traceback of a collective says nothing of the reason: its error ends in one line, too.
        """
        reason = f"{type(error).__name__}: {reason_of(error)}"
        mine = RunFailure("failed", self.rank, reason)
        collective = is_collective(error)
        try:
            fault = self._other_fault() if collective else None
            self.leave()  # so that my own thread lets me speak
            first = self._announce(fault or mine)
            self._know()
        except RuntimeError:  # nobody is left to be told
            first = STORE_LOST if collective else mine
        if collective or first != mine:
            self._end(first)

    def leave(self) -> None:
        """Stop watching for failures of other processes."""
        self.over.set()

    def leave_in_turn(self) -> None:
        """Leave at the end of the run: rank 0, whose process may hold the store, goes last."""
        if self.rank == 0:
            poll_until(lambda: self.store.add(LEFT, 0) >= self.world - 1)
        self.leave()
        self.thread.join(2 * self.pause)  # it gives no other sign of life after this
        self._show_life(SignOfLife(0, self.begun, left=True))
        self.store.add(LEFT, 1)

    def _key(self) -> str:
        self.calls += 1
        return str(self.calls)

    def _other_fault(self) -> RunFailure | None:
        """The failure that another process announced, or its silence; None: all others live."""
        other_ranks = [rank for rank in range(self.world) if rank != self.rank]
        before = {rank: self._life(rank) for rank in other_ranks}
        end = monotonic() + SHORT * self.pause
        while monotonic() < end and not self._announced():
            sleep(self.pause)
            before = {rank: life for rank, life in before.items() if self._life(rank) == life}
        if (announced := self._announced()) or not before:
            return announced
        return RunFailure("gone", min(before), "it was killed, or its machine was lost")

    def _announce(self, failure: RunFailure) -> RunFailure:
        """Announce a failure; return the first that a process announced."""
        return RunFailure(*json.loads(self.store.compare_set(FAILED, "", json.dumps(failure))))

    def _announced(self) -> RunFailure | None:
        """The first failure that a process announced."""
        known = self.store.check([FAILED])
        return RunFailure(*json.loads(self.store.get(FAILED))) if known else None

    def _show_life(self, life: SignOfLife) -> None:
        self.store.set(f"{ALIVE}{self.rank}", json.dumps(life))

    def _life(self, rank: int) -> SignOfLife | None:
        """The last sign of life of a process; None: none yet."""
        key = f"{ALIVE}{rank}"
        return SignOfLife(*json.loads(self.store.get(key))) if self.store.check([key]) else None

    def _watch(self) -> None:
        """End this process when another has failed, even if its main thread is blocked."""
        signs, neighbour = 0, RankWatch((self.rank + 1) % self.world, self.timeout)
        failed: RunFailure | None
        while not self.over.wait(self.pause):
            try:
                signs += 1
                self._show_life(SignOfLife(signs, self.begun))
                if fault := neighbour.fault(self._life(neighbour.rank), self.begun):
                    self._announce(fault)
                failed = self._announced()
            except RuntimeError:
                failed = STORE_LOST
            if failed and not self.over.is_set():
                self._know()
                self._end(failed)

    def _know(self) -> None:
        """Note that this process knows of a failure; rank 0 waits for others, for a few seconds.

        The process of rank 0 may hold the store, in which they read the reason.
        """
        known = [f"{KNOWN}{rank}" for rank in range(self.world)]
        with suppress(RuntimeError):
            self.store.set(known[self.rank], "")
            if self.rank == 0:
                poll_until(lambda: self.store.check(known), SHORT * self.pause)

    def _end(self, reason: RunFailure) -> None:
        with self.ending:  # never released: one line is enough
            print(f"regard: rank {self.rank} ends: {reason}", file=sys.stderr, flush=True)
            os._exit(1)


class RankWatch:
    """What a process knows of the next one: when it last gave a sign of life, and last went on."""

    def __init__(self, rank: int, timeout: float):
        self.rank, self.timeout = rank, timeout
        self.life: SignOfLife | None = None
        self.alive = self.level = monotonic()

    def fault(self, life: SignOfLife | None, begun: int) -> RunFailure | None:
        """Why the process has to be given up; None: it lives, and is not behind for too long.

        ``begun`` are the turns that the process has begun that asks.
        """
        now = monotonic()
        if life != self.life or life is None:
            self.alive, self.life = now, life
        if life is not None and life.left:
            return None
        if life is None or life.begun >= begun:
            self.level = now
        if now - self.alive > SILENCE:
            return RunFailure("gone", self.rank, f"no sign of life for {SILENCE:.0f} s")
        if now - self.level > self.timeout:
            late = f"for {self.timeout:.0f} s it has been behind others"
            return RunFailure("hangs", self.rank, late)
        return None


class TimedOut(RuntimeError):
    """Error of a wait for other processes."""


class RankFailure(BadInput):
    """Error of a process that cannot work with the others."""

    code: ClassVar[int] = EXIT_FAILED


def is_collective(error: BaseException) -> bool:
    """Whether an error says that processes do not reach each other, not why.

    An error of other code, such as a reader whose own connection timed out, does not.
    """
    if isinstance(error, dist.DistError | TimedOut):
        return True
    words = str(error).lower() if isinstance(error, RuntimeError) else ""
    begins = ""
    for frame, _ in walk_tb(error.__traceback__):
        begins = str(frame.f_globals.get("__name__"))
    return begins.startswith(CALLERS) and any(sign in words for sign in COLLECTIVE)


def collective_limit(timeout: float) -> float:
    """Seconds that a collective may take: more than a process may be behind the others."""
    return timeout + SILENCE


def open_store(limit: float) -> dist.Store:
    """A new connection to the store of the launcher, for one thread."""
    store, _, _ = next(dist.rendezvous("env://", timeout=timedelta(seconds=limit)))
    return store


def agree_on_attempt(store: dist.Store, rank: int, world: int, limit: float) -> str:
    """A name that all processes started together have in common, within ``limit`` seconds.

    The store may have keys of processes that ended: rank 0 answers whoever asks, until all others
    have read its answer. Counts of restarts would not do, as launchers on several machines count
    differently.
    """
    own = uuid4().hex
    if rank:
        answer = f"answer to {own}"
        store.set(f"rank {rank} asks", own)
        poll_until(lambda: store.check([answer]), limit)
        attempt = store.get(answer).decode()
        store.add(f"readers of {attempt}", 1)
        return attempt
    answered = dict.fromkeys(range(1, world), "")

    def all_have_read() -> bool:
        for other, before in answered.items():
            asks = f"rank {other} asks"
            if store.check([asks]) and (asking := store.get(asks).decode()) != before:
                store.set(f"answer to {asking}", own)
                answered[other] = asking
        return store.add(f"readers of {own}", 0) == world - 1

    poll_until(all_have_read, limit)
    return own


def poll_until(done: Callable[[], bool], limit: float = inf) -> None:
    """Wait until something is done, for at most ``limit`` seconds."""
    pause, end = SOON, monotonic() + limit
    while not done():
        if monotonic() > end:
            raise TimedOut(f"timed out after {limit:.0f} s")
        sleep(pause)
        pause = min(2 * pause, LATE)


@dataclass(frozen=True)
class World:
    """The rank and the device of this process, and the number of processes.

    Tensors of the CPU are exchanged by the group ``host``; None: by the default group.
    """

    rank: int
    size: int
    device: torch.device
    rendezvous: Rendezvous | None = None
    host: dist.ProcessGroup | None = None

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
        limit = collective_limit(timeout)
        try:
            store = open_store(limit)
            attempt = agree_on_attempt(store, rank, world, limit)
            span, host = timedelta(seconds=limit), None
            if dist.is_initialized():  # by the launcher, which may have chosen NCCL alone
                host = dist.new_group(backend="gloo", timeout=span)
            else:
                dist.init_process_group(
                    "cpu:gloo,cuda:nccl" if cuda else "gloo",
                    timeout=span,
                    store=dist.PrefixStore(f"{attempt} group", open_store(limit)),
                    rank=rank,
                    world_size=world,
                )
        except RuntimeError as error:
            met = f"rank {rank} of {world} did not meet the other processes"
            raise RankFailure(f"{met}: {reason_of(error)}") from None
        own = dist.PrefixStore(f"{attempt} regard", store)
        return cls(rank, world, chosen, Rendezvous(own, rank, world, timeout), host)

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

    @property
    def limit(self) -> timedelta | None:
        """The time that a collective may take; None: torch's default, in a run of one process."""
        if self.rendezvous is None:
            return None
        return timedelta(seconds=collective_limit(self.rendezvous.timeout))

    def begin_turn(self) -> None:
        """Note that this process begins a slice of a step, or to exchange what it has cut."""
        if self.rendezvous is not None:
            self.rendezvous.begun += 1

    @property
    def is_leader(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def all_reduce(self, sums: Tensor) -> Tensor:
        """The sum over all ranks."""
        if self.size > 1:
            dist.all_reduce(sums, group=self._group(sums))
        return sums

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks, in order; they have the same shape."""
        if self.size == 1:
            return [tensor]
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(gathered, tensor.contiguous(), group=self._group(tensor))
        return gathered

    def all_to_all(self, sent: Tensor, sizes: list[int], received: list[int]) -> Tensor:
        """Numbers that all ranks send to this one, in order.

        Of ``sent``, the first ``sizes[0]`` go to rank 0, the next ``sizes[1]`` to rank 1; of rank i
        come ``received[i]``.
        """
        if self.size == 1:
            return sent
        whole = sent.new_empty(sum(received))
        dist.all_to_all_single(whole, sent, received, sizes, group=self._group(sent))
        return whole

    def barrier(self) -> None:
        """Wait for all processes, without a time limit."""
        if self.rendezvous is not None:
            self.rendezvous.meet()

    def from_leader(self, compute: Callable[[], Announced]) -> Announced:
        """The result of the leader on all ranks; it must be representable in JSON."""
        return compute() if self.rendezvous is None else self.rendezvous.from_leader(compute)

    def highest(self, number: int) -> int:
        """The highest number of all ranks."""
        if self.size == 1:
            return number
        highest = torch.tensor(number)
        dist.all_reduce(highest, dist.ReduceOp.MAX, group=self.host)
        return int(highest)

    def any_rank(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        return self.highest(int(flag)) > 0

    def _group(self, tensor: Tensor) -> dist.ProcessGroup | None:
        """The group that has tensors of the device of this one."""
        return self.host if tensor.device.type == "cpu" else None


def is_restarted() -> bool:
    """Whether torchrun has started the processes again, after one of them failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
