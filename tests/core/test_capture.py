"""Captures survive collected garbage and dropped graphs, and a failed one leaves torch usable."""

import gc
import threading
import weakref
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch

from regard.core import capture as module
from regard.core.capture import capture

CUDA = torch.device("cuda")


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self, content):
        self.content, self.itself = content, self


class Graph:
    """As torch's: destroyed when its memory is freed, not when a cycle is finalised."""

    def __init__(self):
        self.memory = np.zeros(1)  # no garbage collector sees it

    def replay(self): ...


class Device:
    """Stands for CUDA: it counts captures, notes refused calls and how each capture was begun."""

    def __init__(self):
        self.capturing, self.spoilt, self.refused, self.options = None, False, [], []
        self.stream, self.alive, self.directed, self.spoilt_pools = "first", 0, set(), set()

    def refuse(self, call: str) -> None:
        if self.capturing:
            self.spoilt = True
            self.refused.append(call)

    def new_graph(self) -> "Graph":
        self.alive += 1
        graph = Graph()
        weakref.finalize(graph.memory, self.destroy)
        return graph

    def destroy(self) -> None:
        self.alive -= 1
        self.refuse("destroy")

    @contextmanager
    def graph(self, graph, stream, **options):
        """As torch's: the stream and the pool are given back only by a capture that ends well."""
        self.options.append(options)
        if options.get("pool") in self.spoilt_pools:
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        self.capturing, self.spoilt, self.stream = threading.get_ident(), False, stream
        self.directed.add(options.get("pool"))
        try:
            yield
        finally:
            self.capturing = None
            if self.spoilt:
                self.spoilt_pools.add(options.get("pool"))
                raise RuntimeError("operation failed due to a previous error during capture")
            self.stream = "first"
            self.directed.discard(options.get("pool"))

    @contextmanager
    def use(self, stream):
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    def end_allocation(self, number, pool):
        if pool not in self.directed:
            raise RuntimeError("not currently recording to mempool_id")
        self.directed.remove(pool)

    def wait(self):
        """What a capture refuses."""
        self.refuse("wait")
        if self.capturing:
            raise RuntimeError("operation not permitted when stream is capturing\nand a hint")


@pytest.fixture(autouse=True)
def _little_to_collect():
    """A collection looks only at what a test makes."""
    gc.freeze()


@pytest.fixture
def device(monkeypatch):
    fake = Device()
    cuda = {
        "CUDAGraph": fake.new_graph,
        "graph": fake.graph,
        "device": lambda device: nullcontext(),
        "current_device": lambda: 0,
        "Stream": object,
        "stream": fake.use,
        "current_stream": lambda: fake.stream,
        "graph_pool_handle": object,
        "is_current_stream_capturing": lambda: fake.capturing == threading.get_ident(),
    }
    for name, value in cuda.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", fake.end_allocation)
    monkeypatch.setattr(torch, "zeros", lambda *shape, device: None)
    monkeypatch.setattr(module, "_CAPTURES", module._Captures())
    return fake


def test_a_cycle_is_collected_before_a_capture(device):
    graph, _ = capture(list, CUDA, "it")
    gc.disable()  # the cycle must still be there when the next capture begins
    try:
        Cycle(graph)
        del graph
        assert device.alive == 1
        _newer, result = capture(lambda: gc.collect() * 0 + 7, CUDA, "it")
    finally:
        gc.enable()
    assert result == 7 and device.refused == [] and device.alive == 1


def test_a_foreign_graph_in_a_cycle_is_collected_before_a_capture(device):
    gc.disable()
    try:
        Cycle(torch.cuda.CUDAGraph())
        assert capture(gc.collect, CUDA, "it") is not None
    finally:
        gc.enable()
    assert device.refused == [] and device.alive == 0


@pytest.mark.parametrize("in_cycle", [False, True])
def test_a_graph_dropped_during_a_capture_is_destroyed_after_it(device, in_cycle):
    graph, _ = capture(list, CUDA, "it")
    holder = [Cycle(graph) if in_cycle else graph]
    del graph

    def drop():
        holder.clear()
        gc.collect()
        return device.alive

    newer, alive_meanwhile = capture(drop, CUDA, "it")
    assert alive_meanwhile == 2 and device.refused == []
    assert device.alive == 1 and newer is not None


def test_another_thread_may_drop_a_graph(device):
    holder = [capture(list, CUDA, "it")[0]]

    def drop():
        thread = threading.Thread(target=holder.clear)
        thread.start()
        thread.join()
        return device.alive

    _newer, alive_meanwhile = capture(drop, CUDA, "it")
    assert alive_meanwhile == 2 and device.refused == [] and device.alive == 1


def test_captures_of_two_threads_take_turns(device):
    entered, leave, most = threading.Event(), threading.Event(), []

    def first():
        entered.set()
        leave.wait(10)
        most.append("first")

    one = threading.Thread(target=capture, args=(first, CUDA, "it"))
    two = threading.Thread(target=capture, args=(lambda: most.append("second"), CUDA, "it"))
    one.start()
    entered.wait(10)
    two.start()
    two.join(0.05)
    assert most == []
    leave.set()
    one.join()
    two.join()
    assert most == ["first", "second"] and gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("error", [None, ValueError])
def test_no_garbage_is_collected_during_a_capture(device, enabled, error):
    inside = []

    def function():
        inside.append(gc.isenabled())
        if error is not None:
            raise error

    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(error) if error else nullcontext():
            capture(function, CUDA, "it")
        assert inside == [False] and gc.isenabled() == enabled
    finally:
        gc.enable()


def test_a_capture_is_its_threads_own_and_may_share_memory(device):
    capture(list, CUDA, "it", pool="shared")
    assert device.options == [{"pool": "shared", "capture_error_mode": "thread_local"}]


def test_no_capture_is_within_another(device):
    def nested():
        return capture(list, CUDA, "the inner one")

    with pytest.warns(RuntimeWarning, match="the inner one cannot be captured within another"):
        assert capture(nested, CUDA, "the outer one") is None


def test_a_capture_that_fails_is_tried_again(device):
    calls = []

    def function():
        calls.append(device.stream)
        if len(calls) == 1:
            device.wait()
        return len(calls)

    _graph, result = capture(function, CUDA, "it")
    assert result == 2 and calls[0] is not calls[1]  # the first stream may still be capturing
    assert device.stream == "first" and not device.directed


def test_after_a_failure_graphs_share_another_pool(device):
    calls = []

    def function():
        calls.append(1)
        if len(calls) in (1, 3):
            device.wait()

    for _ in range(3):
        assert capture(function, CUDA, "it", pool="shared") is not None
    pools = [options["pool"] for options in device.options if options["pool"] is not None]
    assert pools[0] == "shared" and pools[1] is pools[2] and pools[3] is pools[4]
    assert len(set(pools)) == 3


def test_a_capture_that_fails_twice_is_given_up_with_a_warning(device):
    calls = []

    def function():
        calls.append(1)
        device.wait()

    message = r"^the CUDA graph of the encoder could not be captured \(operation not permitted .* "
    message += r"capturing\); it runs eagerly, slower$"
    with pytest.warns(RuntimeWarning, match=message) as warned:
        assert capture(function, CUDA, "the encoder") is None
    assert len(warned) == 1 and len(calls) == 2
    assert device.stream == "first" and not device.directed and gc.isenabled()
    assert capture(lambda: 3, CUDA, "it")[1] == 3


def test_errors_that_are_not_of_cuda_are_raised(device):
    with pytest.raises(KeyError):
        capture({}.popitem, CUDA, "it")
    assert device.stream == "first" and not device.directed


# On a GPU ------------------------------------------------------------------------------------


def adds_one(counter):
    return lambda: counter.add_(1)


def refused_while_capturing():
    if torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()


@pytest.mark.gpu
@pytest.mark.parametrize("foreign", [True, False])
def test_collected_garbage_leaves_a_capture_intact(foreign):
    counter = torch.zeros(4, device="cuda")
    gc.collect()
    gc.disable()
    try:
        if foreign:
            old = torch.cuda.CUDAGraph()
            with torch.cuda.graph(old):
                counter.add_(1)
        else:
            old, _ = capture(adds_one(counter), CUDA, "it")
        Cycle(old)
        del old

        def function():
            counter.add_(1)
            gc.collect()
            counter.add_(1)

        graph, _ = capture(function, CUDA, "it")
    finally:
        gc.enable()
    counter.zero_()
    graph.replay()
    assert counter.tolist() == [2.0] * 4


@pytest.mark.gpu
@pytest.mark.parametrize("in_cycle", [False, True])
def test_dropping_a_graph_leaves_a_capture_intact(in_cycle):
    counter = torch.zeros(4, device="cuda")
    old, _ = capture(adds_one(counter), CUDA, "it")
    holder = [Cycle(old) if in_cycle else old]
    del old

    def function():
        holder.clear()
        gc.collect()
        counter.add_(2)

    graph, _ = capture(function, CUDA, "it")
    counter.zero_()
    graph.replay()
    assert counter.tolist() == [2.0] * 4


@pytest.mark.gpu
def test_other_threads_may_call_cuda_during_a_capture():
    """Pinned memory, events and new blocks of memory are not of the captured stream."""
    counter = torch.zeros(4, device="cuda")

    def work():
        torch.ones(1 << 20).pin_memory().to("cuda", non_blocking=True)
        torch.cuda.current_stream().synchronize()
        torch.empty(64 << 20, device="cuda")

    def function():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        counter.add_(1)

    graph, _ = capture(function, CUDA, "it")
    counter.zero_()
    graph.replay()
    assert counter.tolist() == [1.0] * 4


@pytest.mark.gpu
def test_a_refused_call_costs_one_attempt():
    counter, refused = torch.zeros(4, device="cuda"), []

    def function():
        counter.add_(1)
        if not refused:
            refused.append(True)
            torch.cuda.synchronize()
        counter.add_(1)

    before = torch.cuda.current_stream()
    graph, _ = capture(function, CUDA, "it")
    assert torch.cuda.current_stream() == before
    counter.zero_()
    graph.replay()
    assert counter.tolist() == [2.0] * 4


@pytest.mark.gpu
def test_torch_is_usable_after_a_capture_that_was_given_up():
    """Its stream, its generator, its memory, and later captures."""
    weight, out = torch.ones(64, 64, device="cuda"), torch.zeros(64, 64, device="cuda")

    def function():
        out.copy_(torch.dropout(weight, 0.5, True) @ weight)
        refused_while_capturing()

    torch.cuda.manual_seed(3)
    expected = torch.rand(5, device="cuda")
    before = torch.cuda.current_stream()
    torch.cuda.manual_seed(3)
    with pytest.warns(RuntimeWarning, match="the CUDA graph of it could not be captured"):
        assert capture(function, CUDA, "it") is None
    assert torch.cuda.current_stream() == before
    assert torch.equal(torch.rand(5, device="cuda"), expected)
    assert not out.any()  # nothing was computed
    function()
    assert out.any()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.ones(1 << 20).pin_memory()
    graph, drawn = capture(lambda: torch.rand(5, device="cuda"), CUDA, "it")
    torch.cuda.manual_seed(3)
    graph.replay()
    assert torch.equal(drawn, expected)
