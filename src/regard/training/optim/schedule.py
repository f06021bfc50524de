"""Learning-rate schedules with linear warm-up, as factors on the peak rate."""

import math
from collections.abc import Callable
from functools import wraps

Schedule = Callable[[int], float]
"""The factor at a step, counted from 1."""
Builder = Callable[[int, int], Schedule]
"""From the steps of the warm-up, and all steps, to a schedule."""

RATIO = 32  # of the highest rate to the lowest, where the lowest is not 0


def after_warmup(decay: Builder) -> Builder:
    """A decay, and before it a linear increase from 0 to the peak."""

    @wraps(decay)
    def build(warmup: int, steps: int) -> Schedule:
        after = decay(warmup, steps)
        return lambda step: step / warmup if step < warmup else after(step)

    return build


@after_warmup
def inverse_sqrt(warmup: int, steps: int) -> Schedule:
    """√(warmup / step) after the warm-up (Vaswani et al., 2017, eq. 3, with its peak at 1)."""
    return lambda step: math.sqrt(max(warmup, 1) / max(step, 1))


@after_warmup
def linear(warmup: int, steps: int) -> Schedule:
    """Linear decay to 0 at the last step."""
    return lambda step: max(0.0, (steps - step) / max(1, steps - warmup))


@after_warmup
def cosine(warmup: int, steps: int) -> Schedule:
    """Cosine decay to 0 at the last step."""

    def factor(step: int) -> float:
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return 0.5 * (1 + math.cos(math.pi * done))

    return factor


def slanted(warmup: int, steps: int) -> Schedule:
    """Slanted triangular: a short increase and a long decay (Howard & Ruder, 2018, eq. 3)."""
    triangle = linear(warmup, steps)
    return lambda step: (1 + triangle(step) * (RATIO - 1)) / RATIO


@after_warmup
def constant(warmup: int, steps: int) -> Schedule:
    """No decay."""
    return lambda step: 1.0


SCHEDULES: dict[str, Builder] = {
    "inverse-sqrt": inverse_sqrt,
    "linear": linear,
    "cosine": cosine,
    "slanted": slanted,
    "constant": constant,
}
