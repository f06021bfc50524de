"""In which precision matrix products run: probed on the real step, printed, and remembered."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter

import torch

from regard.ground.machine import has_bf16

ROUNDS = 4
MARGIN = 0.9  # less precise must be clearly faster


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
        if has_bf16(device):
            return Precision("bf16", "the GPU has it")
        return Precision("fp32", "the GPU has no bf16")
    seconds = _timed(step, ("fp32", "bf16"))
    best = "bf16" if seconds["bf16"] < MARGIN * seconds["fp32"] else "fp32"
    shown = ", ".join(f"{kind} {1000 * taken:.0f} ms" for kind, taken in seconds.items())
    return Precision(best, f"probed: {shown} a batch")


def _timed(step: Callable[[Precision], None], kinds: tuple[str, ...]) -> dict[str, float]:
    """The best time of each kind, taken in turns: another program's load hits all alike."""
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind in kinds:
            start = perf_counter()
            step(Precision(kind, "probe"))
            taken[kind].append(perf_counter() - start)
    return {kind: min(times) for kind, times in taken.items()}
