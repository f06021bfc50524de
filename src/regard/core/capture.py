"""Capture of CUDA graphs: training and decoding record theirs here.

While a stream is captured, CUDA refuses some calls, and one refused call spoils the capture. To
destroy an older graph is such a call, and Python destroys one whenever its last reference goes or
the garbage collector reaches a cycle that holds it. Therefore garbage is collected before a capture
and not during it, and a graph that is dropped meanwhile, in any thread, is destroyed afterwards.
"""

import gc
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import torch

Result = TypeVar("Result")
Graph = torch.cuda.CUDAGraph
if TYPE_CHECKING:
    Pool = torch.cuda._POOL_HANDLE

ATTEMPTS = 2
# Calls of other threads, such as those that pin memory, do not spoil a capture; torch's own
# capture of compiled functions has the same mode.
MODE = "thread_local"


class _Captures:
    """Lock for one capture at a time, and graphs to destroy after it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.streams: dict[int, torch.cuda.Stream] = {}  # by the number of a device
        self.dropped: deque[Graph] = deque()
        self.spoilt: list[Graph] = []  # graphs that torch may still refer to: never destroyed
        self.new_pools: dict[Pool, Pool] = {}  # by the pool of a capture that failed

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Block without another capture, garbage collection or destruction of a graph."""
        gc.collect()
        try:
            with self.lock:
                enabled = gc.isenabled()
                gc.disable()
                try:
                    yield
                finally:
                    if enabled:
                        gc.enable()
        finally:
            self.destroy_dropped()

    def destroy_dropped(self) -> None:
        """Destroy the graphs that were dropped, unless there is a capture under way."""
        if self.lock.acquire(blocking=False):  # also fails within a capture of this very thread
            try:
                while self.dropped:
                    self.dropped.pop()
            finally:
                self.lock.release()


_CAPTURES = _Captures()


class CapturedGraph:
    """A CUDA graph that is never destroyed during a capture."""

    def __init__(self, graph: Graph):
        self._graph, self._captures = graph, _CAPTURES

    def replay(self) -> None:
        """Launch the kernels of the graph on the current stream."""
        self._graph.replay()

    def __del__(self) -> None:
        self._captures.dropped.append(self._graph)
        del self._graph  # the queue holds the last reference
        self._captures.destroy_dropped()


def capture(
    function: Callable[[], Result], device: torch.device, name: str, pool: "Pool | None" = None
) -> tuple[CapturedGraph, Result] | None:
    """Record ``function`` as a CUDA graph; the result holds the tensors that a replay writes.

    Nothing is computed here: the kernels are recorded. A capture that fails is tried once more.
    After that the result is None, a warning names the function by ``name``, and the caller runs the
    function eagerly. ``pool`` is memory that several graphs share.
    """
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(f"the CUDA graph of {name} cannot be captured within another")
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            with torch.cuda.device(device), _CAPTURES.alone():
                return _record(function, pool)
        except RuntimeError as error:  # also of cuBLAS, cuDNN and the allocator
            cause = error.__context__  # torch fails a second time when it ends the capture
            reason = str(cause if isinstance(cause, RuntimeError) else error).partition("\n")[0]
    failed = f"the CUDA graph of {name} could not be captured ({reason})"
    warnings.warn(f"{failed}; it runs eagerly, slower", RuntimeWarning, stacklevel=3)
    return None


def _record(function: Callable[[], Result], pool: "Pool | None") -> tuple[CapturedGraph, Result]:
    device, graph = torch.cuda.current_device(), torch.cuda.CUDAGraph()
    pool = torch.cuda.graph_pool_handle() if pool is None else pool
    while pool in _CAPTURES.new_pools:
        pool = _CAPTURES.new_pools[pool]
    if device not in _CAPTURES.streams:
        _CAPTURES.streams[device] = torch.cuda.Stream()
    try:
        result = _record_on(_CAPTURES.streams[device], graph, function, pool)
    except BaseException:
        _clean_up(graph, pool, device)
        raise
    return CapturedGraph(graph), result


def _record_on(
    stream: torch.cuda.Stream, graph: Graph, function: Callable[[], Result], pool: "Pool | None"
) -> Result:
    recording = torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode=MODE)
    before = torch.cuda.current_stream()  # a capture that fails to end does not go back to it
    with torch.cuda.stream(before), recording:  # torch waits for the device before it begins
        return function()


def _clean_up(graph: Graph, pool: "Pool", device: int) -> None:
    """Put torch back into the state before a capture that failed.

    A spoilt capture ends with an error. Some versions of torch then still direct allocations to
    its pool, by a test that refers to the graph, and refuse another capture into that pool, and
    their generator refuses to draw.
    """
    del _CAPTURES.streams[device]  # it may still be capturing
    _CAPTURES.new_pools[pool] = torch.cuda.graph_pool_handle()
    with suppress(RuntimeError):  # raised if torch has ended the allocation itself
        torch._C._cuda_endAllocateToPool(device, pool)
        _CAPTURES.spoilt.append(graph)
    with suppress(RuntimeError):  # the generator draws again once a capture has ended well
        zeros = partial(torch.zeros, 1, device="cuda")
        _record_on(torch.cuda.Stream(), torch.cuda.CUDAGraph(), zeros, None)
