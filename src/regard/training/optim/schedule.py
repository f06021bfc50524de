"""Learning-rate schedules with linear warm-up, as factors on the peak rate."""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]
RATIO = 32  # of the highest rate to the lowest, where the lowest is not 0


def inverse_sqrt(warmup: int, steps: int) -> Schedule:
    """√(warmup / step) after the warm-up (Vaswani et al., 2017, eq. 3, with its peak at 1)."""
    return lambda step: math.sqrt(max(warmup, 1) / max(step, 1))


def linear(warmup: int, steps: int) -> Schedule:
    """Linear decay to 0 at the last step."""
    return lambda step: max(0.0, (steps - step) / max(1, steps - warmup))


def cosine(warmup: int, steps: int) -> Schedule:
    """Cosine decay to 0 at the last step."""

    def factor(step: int) -> float:
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return 0.5 * (1 + math.cos(math.pi * done))

    return factor


def slanted(warmup: int, steps: int) -> Schedule:
    """Slanted triangular: a short increase and a long decay (Howard & Ruder, 2018, eq. 3)."""

    def factor(step: int) -> float:
        rising = step < warmup
        share = step / warmup if rising else (steps - step) / max(1, steps - warmup)
        return (1 + max(0.0, share) * (RATIO - 1)) / RATIO

    return factor


def constant(warmup: int, steps: int) -> Schedule:
    """No decay."""
    return lambda step: 1.0


SCHEDULES: dict[str, Callable[[int, int], Schedule]] = {
    "inverse-sqrt": inverse_sqrt,
    "linear": linear,
    "cosine": cosine,
    "constant": constant,
}


def schedule(kind: str, warmup: int, steps: int) -> Schedule:
    """The factor at a step, counted from 1."""
    if kind == "slanted":  # has a warm-up of its own
        return slanted(warmup, steps)
    after = SCHEDULES[kind](warmup, steps)
    return lambda step: step / warmup if step < warmup else after(step)
