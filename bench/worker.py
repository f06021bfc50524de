"""One system in a process of its own: it is built, and then works whenever it is told to.

    python bench/worker.py MODULE:FUNCTION          (started by measure.py)

JSON lines come in on standard input: the settings with which FUNCTION builds a ``System``, then one
line for each round. An answer to each goes out on standard output; all that libraries print goes to
standard error. Between rounds the process waits in a blocking read. This file imports nothing of
regard, and torch only if MODULE does: what is set in this process, the system sets itself.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

CLOCKS = {"elapsed": time.perf_counter, "process": time.process_time}


class System(NamedTuple):
    """``work`` does a round and returns its losses or outputs; ``remarks`` are printed with it."""

    work: Callable[..., Any]
    remarks: dict[str, Any] = {}  # noqa: RUF012


def settle() -> None:
    """Wait for the GPU, if there is one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], Any], clock: Callable[[], float] | None = None) -> float:
    """How long ``work`` takes, on either device; elapsed seconds by default."""
    return timed(work, clock or time.perf_counter)[0]


def timed(work: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, Any]:
    """The seconds that ``work`` takes, and its result."""
    settle()
    start = clock()
    result = work()
    settle()
    return clock() - start, result


def build(entry: str, settings: dict[str, Any]) -> System:
    """The system that MODULE:FUNCTION makes of these settings.

    On CUDA every system may compute products of fp32 in TF32, as regard train does beside bf16.
    """
    module, function = entry.split(":")
    builder = getattr(import_module(module), function)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(1)
        if torch.cuda.is_available():
            torch.set_float32_matmul_precision("high")
    return builder(**settings)


def do_round(system: System, arguments: dict[str, Any], clock: str) -> dict[str, Any]:
    """A round: its seconds, its result, and what the process has used so far."""
    seconds, result = timed(lambda: system.work(**arguments), CLOCKS[clock])
    return {"seconds": seconds, "result": as_json(result), **used()}


def as_json(result: Any) -> Any:
    """Losses as numbers, other results as they are."""
    if isinstance(result, (list, tuple)):
        return [as_json(part) for part in result]
    return result.item() if hasattr(result, "item") else result


def used() -> dict[str, Any]:
    """Graphs that torch.compile made so far, and the most gigabytes of GPU memory in use."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    compiled = sys.modules.get("torch._dynamo.utils")
    graphs = compiled.counters["stats"]["unique_graphs"] if compiled else 0
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return {"graphs": graphs} | ({"peak_gb": round(peak / 1e9, 1)} if peak else {})


def place() -> dict[str, Any]:
    """Machine and versions."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {"machine": platform.machine()}
    cuda = torch.cuda.is_available()
    versions = {
        name: sys.modules[name].__version__
        for name in ("torch", "transformers", "sentence_transformers", "timm", "ctranslate2")
        if hasattr(sys.modules.get(name), "__version__")
    }
    machine = torch.cuda.get_device_name() if cuda else platform.machine()
    return {"machine": machine, **versions, "threads": torch.get_num_threads()}


def main() -> None:
    """Answer every line of standard input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(line: dict[str, Any]) -> None:
        print(json.dumps(line), file=answers, flush=True)

    system = build(sys.argv[1], json.loads(sys.stdin.readline()))
    answer({"remarks": system.remarks, "place": place()})
    while line := sys.stdin.readline():
        answer(do_round(system, **json.loads(line)))
    os._exit(0)  # threads of a library do not hold the process


if __name__ == "__main__":
    main()
