"""In which precision matrix products run: probed on the real step, printed, and remembered."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch

ROUNDS = 3


@dataclass(frozen=True)
class Precision:
    """``kind`` is "fp32" or "bf16" (weights stay in fp32); ``why`` says how it was chosen."""

    kind: str
    why: str

    def context(self, device: torch.device) -> AbstractContextManager:
        """Where the forward pass runs."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.kind == "bf16")


def choose(asked: str, device: torch.device, step: Callable[[Precision], None]) -> Precision:
    """The precision asked for, or the faster one of a real ``step``."""
    if asked != "auto":
        return Precision(asked, "as asked")
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported():
            return Precision("bf16", "the GPU has it")
        return Precision("fp32", "the GPU has no bf16")
    seconds = {kind: _timed(step, Precision(kind, "probe")) for kind in ("fp32", "bf16")}
    best = min(seconds, key=lambda kind: seconds[kind])
    shown = ", ".join(f"{kind} {1000 * taken:.0f} ms" for kind, taken in seconds.items())
    return Precision(best, f"probed: {shown} a batch")


def _timed(step: Callable[[Precision], None], precision: Precision) -> float:
    step(precision)
    taken = []
    for _ in range(ROUNDS):
        start = perf_counter()
        step(precision)
        taken.append(perf_counter() - start)
    return median(taken)
