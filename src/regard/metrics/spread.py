"""One score over several seeds, as text."""

from collections.abc import Sequence
from statistics import mean, stdev


def spread(values: Sequence[float]) -> str:
    """Mean and sample standard deviation, or the only value."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{mean(values):.1f} ± {stdev(values):.1f}"
