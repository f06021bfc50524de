"""Workers that do jobs in parallel: processes of this machine, or actors of a Ray cluster.

Each worker calls ``begin`` once, which may load a model, and applies its result to every job.
Results come in the order of the jobs, and few jobs are in memory at once. The jobs of a worker that
dies are done again.
"""

import atexit
import multiprocessing
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, Generic, Self, TypeVar

from regard.core.errors import BadInput, reason_of
from regard.core.forks import TOKENIZER_THREADS

Out = TypeVar("Out")
Job = tuple[object, ...]
Begin = Callable[[], Callable[..., Out]]
StartWorkers = Callable[[Begin[Any]], "Workers[Any]"]

AHEAD = 2  # jobs of each worker that are begun before their results are needed
ATTEMPTS = 3  # runs of a job whose process dies every time; of Ray, deaths of an actor, less one
CONNECTING = 10.0  # seconds in which a cluster of Ray must answer
ENDING = 30.0  # seconds that Ray has to end its actors, and itself
LOCAL = "local"  # the address of a Ray that begins and ends with this process
ENVIRONMENT = {  # of such a Ray, unless it is set
    "RAY_worker_niceness": "0",  # actors have the priority of this process, as its processes do
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to the makers of Ray
}
_work: Callable[..., object] | None = None  # the function that this process runs on a job


class Workers(ABC, Generic[Out]):
    """Base class of ``count`` workers."""

    def __init__(self, count: int):
        if count < 1:
            raise BadInput(f"workers must be at least 1, not {count}")
        self.count = count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End the workers."""

    @abstractmethod
    def submit(self, job: Job) -> Callable[[], Out]:
        """Begin a job; returns a function that waits for its result."""

    def map(self, jobs: Iterable[Job], ready: Callable[[], bool] = lambda: True) -> Iterator[Out]:
        """The result of each job, in order.

        While results are due, it does not wait for jobs: ``ready`` tells whether one has arrived.
        """
        coming, pending = iter(jobs), deque[Callable[[], Out]]()
        ended = False
        while True:
            while not ended and len(pending) < AHEAD * self.count and (not pending or ready()):
                if (job := next(coming, None)) is None:
                    ended = True
                else:
                    pending.append(self.submit(job))
            if not pending:
                return
            yield pending.popleft()()


class WorkerProcesses(Workers[Out]):
    """Processes of this machine, with one thread each.

    They are spawned, not forked: threads of this process do not survive a fork.
    """

    def __init__(self, count: int, begin: Begin[Out]):
        super().__init__(count)
        self.begin = begin
        self.pool = self._new_pool()
        self.pending: list[_PendingJob] = []

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(self.begin,),
        )

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)

    def submit(self, job: Job) -> Callable[[], Out]:
        pending = _PendingJob(job, *self._submit(job))
        self.pending.append(pending)
        return partial(self._result, pending)

    def _result(self, pending: "_PendingJob") -> Out:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                result: Out = pending.future.result()
            except BrokenProcessPool:
                if attempt < ATTEMPTS:
                    self._begin_again(pending, alone=attempt > 1)
            else:
                self.pending.remove(pending)
                return result
        fault = f"a worker process died {ATTEMPTS} times, possibly out of memory"
        raise BadInput(f"{fault}: use fewer workers")

    def _begin_again(self, pending: "_PendingJob", *, alone: bool) -> None:
        """Begin a lost job, and all that were lost with it, unless it shall run ``alone``.

        Beside others, one of which may kill its process every time, it might be lost again.
        """
        lost = [pending]
        if self.pool is pending.pool:
            self._replace(pending.pool)
            lost = lost if alone else [other for other in self.pending if other.is_lost]
        for job in lost:
            job.pool, job.future = self._submit(job.job)

    def _submit(self, job: Job) -> tuple[ProcessPoolExecutor, "Future[Any]"]:
        with suppress(BrokenProcessPool):
            return self.pool, self.pool.submit(_do, job)
        self._replace(self.pool)
        return self.pool, self.pool.submit(_do, job)

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        """Start new processes in place of a pool in which one has died."""
        if self.pool is broken:
            broken.shutdown()
            self.pool = self._new_pool()


@dataclass(eq=False)
class _PendingJob:
    """A job of a pool of processes, whose result has not been used."""

    job: Job
    pool: ProcessPoolExecutor
    future: "Future[Any]"

    @property
    def is_lost(self) -> bool:
        """Whether its process, or another of the pool, died before its result was there."""
        return self.future.done() and isinstance(self.future.exception(), BrokenProcessPool)


class RayActors(Workers[Out]):
    """Actors of a Ray cluster at an ``address``, or of a Ray on this machine alone ("local").

    Each has a core with one thread, or, if they ``use_gpu``, a GPU. Default count: as many as
    there are in the cluster.
    """

    def __init__(self, address: str, begin: Begin[Out], count: int | None, *, use_gpu: bool):
        ray = _import_ray()
        kind = "GPU" if use_gpu else "CPU"
        self.ray, self.started = ray, not ray.is_initialized()
        self.actors: list[Any] = []
        before = _children()
        if self.started:
            _connect(ray, address, count if address == LOCAL and not use_gpu else None)
        self.services = _children() - before  # processes of a Ray that was started here
        most = int(ray.cluster_resources().get(kind, 0))
        try:
            super().__init__(most if count is None else count)
            if self.count > most:
                raise BadInput(f"{self.count} workers: Ray has {most} {kind}s; use at most {most}")
        except BadInput:
            self.close()
            raise
        needs = {"num_gpus": 1} if use_gpu else {"num_cpus": 1}
        remote = ray.remote(max_restarts=ATTEMPTS, max_task_retries=ATTEMPTS, **needs)(_Actor)
        self.actors = [remote.remote(begin, None if use_gpu else 1) for _ in range(self.count)]
        self.pending: list[list[object]] = [[] for _ in self.actors]  # jobs of each actor

    def close(self) -> None:
        """End the actors, and a Ray that was started here.

        Ray waits for its services without a limit: if they hang, they are killed.
        """
        ending = Thread(target=self._end, daemon=True)
        ending.start()
        ending.join(ENDING)
        if ending.is_alive():
            for service in self.services & _children():
                os.kill(service, signal.SIGKILL)
            ending.join(ENDING)
        if ending.is_alive():
            atexit.unregister(self.ray.shutdown)  # it would wait again

    def _end(self) -> None:
        with suppress(self.ray.exceptions.RayError):
            for actor in self.actors:
                self.ray.kill(actor)
        if self.started:
            self.ray.shutdown()

    def submit(self, job: Job) -> Callable[[], Out]:
        number = min(range(self.count), key=self._load)
        reference = self.actors[number].do.remote(job)
        self.pending[number].append(reference)

        def result() -> Out:
            try:
                return self.ray.get(reference)
            except self.ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self.ray.exceptions.RayError as error:
                raise BadInput(f"Ray: {reason_of(error)}") from None

        return result

    def _load(self, number: int) -> int:
        """The number of unfinished jobs of an actor."""
        if pending := self.pending[number]:
            _, self.pending[number] = self.ray.wait(pending, num_returns=len(pending), timeout=0)
        return len(self.pending[number])


class _Actor:
    """Worker of Ray; with ``threads``, torch computes in that number of threads."""

    def __init__(self, begin: Begin[object], threads: int | None):
        if threads is not None:
            set_threads(threads)
        self.work = begin()

    def do(self, job: Job) -> object:
        return self.work(*job)


def end_with_parent() -> None:
    """End this process when the process that started it ends, even if that is killed."""
    Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _begin(begin: Begin[object]) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that began them ends them
    end_with_parent()
    os.environ[TOKENIZER_THREADS] = "false"
    set_threads(1)
    _work = begin()


def _do(job: Job) -> object:
    assert _work is not None
    return _work(*job)


def _import_ray() -> ModuleType:
    try:
        return import_module("ray")
    except ImportError:
        raise BadInput("Ray is not installed; install it with: pip install 'regard[ray]'") from None


def _connect(ray: ModuleType, address: str, cores: int | None) -> None:
    """Start a Ray on this machine with ``cores``, or connect to the cluster at ``address``."""
    options: dict[str, object] = {"configure_logging": False, "log_to_driver": False}
    if address == LOCAL:
        if (cores or 1) > (most := os.cpu_count() or 1):
            raise BadInput(f"{cores} workers: this machine has {most} cores; use at most {most}")
        os.environ.update(ENVIRONMENT | os.environ)
        options |= {"address": LOCAL, "include_dashboard": False, "num_cpus": cores}
    else:
        options |= {"address": address}
    try:
        _knock(address)
        ray.init(**options)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"Ray at {address}: {reason_of(error)}") from None


def _knock(address: str) -> None:
    """Raise an error if nothing answers at HOST:PORT: Ray would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), CONNECTING).close()


def _children() -> set[int]:
    """The processes that this process has started and not waited for; none without Linux."""
    numbers = set[int]()
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            numbers.update(map(int, task.read_text().split()))
    return numbers


def set_threads(count: int) -> None:
    """Let torch compute in a number of threads; this process may not have loaded it yet."""
    import torch

    torch.set_num_threads(count)
