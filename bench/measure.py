"""One clock for the scripts of this folder: systems take turns, and figures have intervals."""

import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch._dynamo.utils
import torch.fx.experimental._config
from torch import Tensor, nn

from regard.ground.machine import has_bf16

MEASURED, NOMINAL = 784e12, 989e12  # bf16 products a second on an H200: a large matmul; the sheet
CLEAR = 0.05  # how often an interval may miss


class System(NamedTuple):
    """What is done in a round, giving the losses of its steps, and what is printed beside it."""

    work: Callable[[], Sequence[Tensor]]
    remarks: dict[str, Any]


class Interval(NamedTuple):
    """A median, and where it lies in 95 of 100 cases; for few rounds, the lowest and highest."""

    low: float
    median: float
    high: float


def warm_up(name: str, build: Callable[[], Callable[[], Sequence[Tensor]]]) -> System:
    """Build a system and let it do one round, in which it compiles; its losses must be finite."""
    before, work = graphs(), build()
    losses = [float(loss) for loss in work()]
    if not all(map(math.isfinite, losses)):
        raise SystemExit(f"{name}: the losses are {losses}")
    return System(work, {"first_loss": round(losses[0], 3), "graphs": graphs() - before})


def round_of(
    step: Callable[[Any], Tensor], batches: Sequence[Any]
) -> Callable[[], Sequence[Tensor]]:
    """What is done in a round: a step for each batch."""
    return lambda: [step(batch) for batch in batches]


def training_step(
    collate: Callable[[Any], Any], micro: Callable[[Any, Any], Any], optimiser: Any
) -> Callable[[Any], Tensor]:
    """A step of regard over rows that ``collate`` makes a batch of; gives the loss of a target."""

    def step(rows: Any) -> Tensor:
        batch = collate(rows)
        loss = micro(batch, 1 / batch.weight).loss / batch.weight
        optimiser.step(1.0)
        optimiser.zero_grad()
        return loss

    return step


def print_speeds(
    systems: dict[str, System],
    tokens: int,
    flops: float,
    rounds: int,
    limit: float,
    unit: str = "tokens",
) -> None:
    """Let systems take turns; print a JSON line for each, with the ratio of "regard" to it.

    A round has so many real ``tokens``, or another ``unit``, for which so many ``flops`` must be
    computed.
    """
    taken = take_turns({name: one.work for name, one in systems.items()}, rounds, limit=limit)
    for name, seconds in taken.items():
        speed = interval([tokens / one for one in seconds])
        line = {"system": name, f"{unit}_per_second": rounded(speed, 0), "rounds": len(seconds)}
        line |= systems[name].remarks | of_peak(flops / tokens * speed.median)
        if name != "regard":
            line |= {"regard_over_it": rounded(ratio(seconds, taken["regard"]))}
        print(json.dumps(line), flush=True)


def settle() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], Any], clock: Callable[[], float] | None = None) -> float:
    """How long it takes, on either device; elapsed seconds unless another ``clock`` is given."""
    clock = clock or time.perf_counter
    settle()
    start = clock()
    work()
    settle()
    return clock() - start


def take_turns(
    systems: dict[str, Callable[[], Any]],
    rounds: int,
    *,
    limit: float = math.inf,
    most: int = 0,
    clock: Callable[[], float] | None = None,
) -> dict[str, list[float]]:
    """Seconds of every system in every round; call each once before, to compile and warm up.

    ``rounds`` are made, and up to ``most`` until the order of the systems is clear; none begins
    after ``limit`` seconds, the first excepted. ``time.process_time`` as ``clock`` counts the
    seconds of this process alone, on a machine that others use.
    """
    taken: dict[str, list[float]] = {name: [] for name in systems}
    start = time.perf_counter()
    for number in range(max(rounds, most)):
        if number >= rounds and clear(taken):
            break
        if number and time.perf_counter() - start > limit:
            break
        for name, work in systems.items():
            taken[name].append(seconds_of(work, clock))
    return taken


def interval(values: Sequence[float]) -> Interval:
    """The median and its interval by order statistics, which asks nothing of the distribution."""
    ordered, count = sorted(values), len(values)
    outside, below = 0, 0.0
    while outside < count // 2:
        below += math.comb(count, outside) / 2**count
        if 2 * below > CLEAR:
            break
        outside += 1
    at = max(outside - 1, 0)
    return Interval(ordered[at], statistics.median(ordered), ordered[count - 1 - at])


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> Interval:
    """How many times faster ``ours`` is, by rounds: what slows one round slows both systems."""
    return interval([a / b for a, b in zip(theirs, ours, strict=True)])


def clear(taken: dict[str, list[float]]) -> bool:
    """Whether it is certain of each system, by median, that it is faster than the next."""
    ordered = sorted(taken.values(), key=statistics.median)
    rounds = len(ordered[0])
    return 2 / 2**rounds <= CLEAR and all(
        ratio(slower, faster).low > 1 for faster, slower in pairwise(ordered)
    )


def rounded(found: Interval, digits: int = 2) -> list[float]:
    """Median, low, high, as they are printed."""
    return [round(one, digits) for one in (found.median, found.low, found.high)]


def of_peak(flops: float) -> dict[str, float]:
    """The share of an H200 that ``flops`` a second are, of what was measured and of the sheet."""
    if not (torch.cuda.is_available() and "H200" in torch.cuda.get_device_name()):
        return {}
    return {"mfu": round(flops / MEASURED, 3), "mfu_nominal": round(flops / NOMINAL, 3)}


def graphs() -> int:
    """How many graphs torch.compile has made so far."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def compile_layers(*stacks: nn.ModuleList) -> None:
    """Compile the layers of ``stacks`` for any length: one graph serves all layers of a stack."""
    torch.fx.experimental._config.use_duck_shape = False  # lengths that are equal once may differ
    for layer in (layer for stack in stacks for layer in stack):
        layer.compile(dynamic=True)


def half(device: torch.device | str) -> torch.autocast:
    """bf16 autocast where the device has bf16, else nothing."""
    device = torch.device(device)
    return torch.autocast(device.type, torch.bfloat16, enabled=has_bf16(device))


def setting() -> dict[str, Any]:
    """Where and with what a script ran."""
    import transformers

    cuda = torch.cuda.is_available()
    return {
        "machine": torch.cuda.get_device_name() if cuda else platform.machine(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
    }
