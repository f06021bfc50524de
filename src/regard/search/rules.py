"""How a finished hypothesis is scored: length rules and the coverage penalty."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def none(n: Any, alpha: float) -> Any:
    """Long hypotheses are left at their disadvantage."""
    return 1.0


def mean(n: Any, alpha: float) -> Any:
    """Log-probability per token."""
    return n


def gnmt(n: Any, alpha: float) -> Any:
    """Wu et al., 2016 (arXiv:1609.08144), equation 14."""
    return ((5 + n) / 6) ** alpha


def power(n: Any, alpha: float) -> Any:
    """Between none (alpha 0) and mean (alpha 1)."""
    return n**alpha


# Each divides log p, and none falls as n grows (alpha >= 0): the beam's early stop relies on it.
LENGTHS: dict[str, tuple[Callable[[Any, float], Any], str]] = {
    "none": (none, "log p"),
    "mean": (mean, "log p / n"),
    "gnmt": (gnmt, "log p / ((5+n)/6)^{alpha:g}"),
    "power": (power, "log p / n^{alpha:g}"),
}


def uncovered(coverage_S: np.ndarray) -> float:
    """Σ_i log min(Σ_j a_ij, 1), equation 14's penalty without its β; NaN marks no position."""
    there = coverage_S[~np.isnan(coverage_S)].astype(np.float64)
    with np.errstate(divide="ignore"):  # a position never looked at: -inf
        return math.fsum(np.log(np.minimum(there, 1.0)))
