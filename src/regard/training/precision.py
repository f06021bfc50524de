"""The precision of matrix products: chosen by timing a real step, and stored in checkpoints."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import perf_counter

import torch

from regard.ground.errors import BadInput
from regard.ground.machine import has_bf16

ROUNDS = 4
CLEAR = 3  # a ratio of times that needs no second round
PART = 0.1  # of the budget that the probe may take
INFINITE = float("inf")
MARGIN = 0.9  # bf16 must be clearly faster
CHOOSE = "use train.precision=fp32 or auto"
RESUME = "resume on a machine with bf16, or start again in another folder"


@dataclass(frozen=True)
class Precision:
    """Precision of a run: ``kind``, "fp32" or "bf16" (with weights in fp32), and the reason
    ``why``.
    """

    kind: str
    why: str

    @property
    def is_bf16(self) -> bool:
        """Whether products are in bf16."""
        return self.kind == "bf16"

    def context(self, device: torch.device) -> AbstractContextManager:
        """The context of the forward pass."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.is_bf16)

    @contextmanager
    def tf32_beside_bf16(self) -> Iterator[None]:
        """Allow TF32 for fp32 products of a step in bf16.

        These are products of layers that stay in fp32, such as recurrent ones; cuDNN uses TF32
        anyway.
        """
        matmul = torch.backends.cuda.matmul
        before = matmul.allow_tf32
        matmul.allow_tf32 = before or self.is_bf16
        try:
            yield
        finally:
            matmul.allow_tf32 = before


Step = Callable[[Precision], None]


def checked_precision(kind: str, device: torch.device, why: str, advice: str = CHOOSE) -> Precision:
    """Return the requested precision; refuse bf16 on a device that would emulate it."""
    precision = Precision(kind, why)
    if precision.is_bf16 and not has_bf16(device):
        raise BadInput(
            f"precision bf16 ({why}): the {_name(device)} has no fast products in bf16; {advice}"
        )
    return precision


def choose(
    requested: str, device: torch.device, step: Step, budget_seconds: float = INFINITE
) -> Precision:
    """The requested precision; for "auto", the faster one of a real ``step``."""
    if requested != "auto":
        return checked_precision(requested, device, "as asked")
    if not has_bf16(device):
        return Precision("fp32", f"the {_name(device)} has no bf16")
    if device.type == "cuda":
        return Precision("bf16", "the GPU has it")
    with _no_trace():
        seconds = _timed(step, ("fp32", "bf16"), PART * budget_seconds)
    if "bf16" not in seconds:
        return Precision("fp32", "no time to try bf16")
    if seconds["bf16"] == INFINITE:
        return Precision("fp32", "bf16 fails here")
    best = "bf16" if seconds["bf16"] < MARGIN * seconds["fp32"] else "fp32"
    shown = ", ".join(
        f"{kind} {1000 * seconds_taken:.0f} ms" for kind, seconds_taken in seconds.items()
    )
    return Precision(best, f"probed: {shown} a batch")


def choose_untimed(requested: str, device: torch.device) -> Precision:
    """The requested precision; for "auto", bf16 on a GPU that has it, else fp32."""
    if requested == "auto" and (device.type != "cuda" or not has_bf16(device)):
        return Precision("fp32", f"of shards on the {_name(device)}")
    return choose(requested, device, lambda precision: None)


def _name(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "CPU"


def _timed(step: Step, kinds: tuple[str, ...], limit: float) -> dict[str, float]:
    """The best time of each kind, measured in turns.

    Ends early when the order is clear, or when the next step would exceed the limit. The very first
    step may also start workers and compile, so that it decides only if its kind wins nevertheless.
    A kind without a measurement is left out; the time of one that fails is infinite.
    """
    best: dict[str, float] = {}
    began = perf_counter()
    for number in range(ROUNDS):
        for kind in kinds:
            expected = best.get(kind, min(best.values(), default=0.0))
            if perf_counter() - began + expected > limit:
                return best
            taken = _seconds(step, Precision(kind, "probe"))
            best[kind] = min(taken, best.get(kind, INFINITE))
        fastest = min(best.values())
        if max(best.values()) > CLEAR * fastest and (number or best[kinds[0]] == fastest):
            break
    return best


def _seconds(step: Step, precision: Precision) -> float:
    """The time of a step; infinite if bf16 fails, or makes torch disable oneDNN."""
    enabled, start = torch.backends.mkldnn.enabled, perf_counter()
    try:
        step(precision)
    except RuntimeError:
        if not precision.is_bf16:
            raise
        return INFINITE
    disabled = precision.is_bf16 and torch.backends.mkldnn.enabled != enabled
    return INFINITE if disabled else perf_counter() - start


@contextmanager
def _no_trace() -> Iterator[None]:
    """Restore random state, warnings and oneDNN afterwards.

    If a product fails in oneDNN, torch disables oneDNN, and later products round differently.
    """
    enabled = torch.backends.mkldnn.enabled
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            torch.backends.mkldnn.enabled = enabled
