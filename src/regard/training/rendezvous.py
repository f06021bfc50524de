"""Synchronisation of processes outside of steps, and their common end after a failure.

Collectives have a time limit (NCCL aborts after 10 minutes), but preparing data or evaluation may
take longer. Here processes poll a store instead, without a limit. A failing process writes to the
store, and a thread in each other process ends that process.
"""

import json
import os
import sys
from collections.abc import Callable
from threading import Event, Lock, Thread
from time import sleep
from typing import TypeVar

import torch.distributed as dist

from regard.ground.errors import reason_of

Value = TypeVar("Value")

PAUSE = 0.5  # seconds between two looks for a failure
SOON, LATE = 0.005, 0.25  # seconds between two looks for what is awaited: more and more
FAILED, LEFT = "failed", "left"


class Rendezvous:
    """A key-value store that all processes read and write."""

    def __init__(self, store: dist.Store, rank: int, world: int):
        self.store, self.rank, self.world = store, rank, world
        self.calls = 0  # numbers the keys: all processes make the same calls in the same order
        self.over, self.ending = Event(), Lock()
        Thread(target=self._watch, daemon=True).start()

    @classmethod
    def join(cls, rank: int, world: int) -> "Rendezvous":
        """Open a connection to the store of the launcher."""
        store, _, _ = next(dist.rendezvous("env://"))
        return cls(dist.PrefixStore("regard", store), rank, world)

    def meet(self) -> None:
        """Wait until all processes have called this."""
        key = self._key()
        self.store.add(key, 1)
        self._until(lambda: self.store.add(key, 0) >= self.world)

    def from_leader(self, compute: Callable[[], Value]) -> Value:
        """What rank 0 computes; the others wait for it."""
        key = self._key()
        if self.rank == 0:
            self.store.set(key, json.dumps(compute()))
        self._until(lambda: self.store.check([key]))
        return json.loads(self.store.get(key))

    def fail(self, error: BaseException) -> None:
        """Announce a failure; if another process failed first, end with its reason."""
        self.leave()  # so that my own thread lets me speak
        mine = f"rank {self.rank} failed ({type(error).__name__}: {reason_of(error)})"
        try:
            first = self.store.compare_set(FAILED, "", mine).decode()
        except RuntimeError:  # the store went with another process: nobody is left to be told
            first = mine
        if first != mine:
            self._end(first)

    def leave(self) -> None:
        """Stop watching for failures of other processes."""
        self.over.set()

    def leave_in_turn(self) -> None:
        """Leave when all is done: rank 0, whose process may hold the store, goes last."""
        if self.rank == 0:
            self._until(lambda: self.store.add(LEFT, 0) >= self.world - 1)
        self.leave()
        self.store.add(LEFT, 1)

    def _key(self) -> str:
        self.calls += 1
        return str(self.calls)

    def _until(self, done: Callable[[], bool]) -> None:
        pause = SOON
        while not done():
            sleep(pause)
            pause = min(2 * pause, LATE)

    def _watch(self) -> None:
        """End this process when another has failed, even if its main thread is blocked."""
        while not self.over.wait(PAUSE):
            try:
                failed = self.store.check([FAILED]) and self.store.get(FAILED).decode()
            except RuntimeError:
                failed = "the process that started this run is gone"
            if failed and not self.over.is_set():
                self._end(failed)

    def _end(self, reason: str) -> None:
        with self.ending:  # never released: one line is enough
            print(f"regard: rank {self.rank} ends: {reason}", file=sys.stderr, flush=True)
            os._exit(1)
