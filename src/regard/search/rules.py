"""How a finished hypothesis is scored: length rules and the coverage penalty."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from regard.ground.errors import BadInput
from regard.search.hypothesis import Hypothesis

Length = Literal["none", "mean", "gnmt", "power"]


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


# Each divides log p, and none falls as n grows (alpha >= 0): ``to_beat`` relies on it.
LENGTHS: dict[str, tuple[Callable[[Any, float], Any], str]] = {
    "none": (none, "log p"),
    "mean": (mean, "log p / n"),
    "gnmt": (gnmt, "log p / ((5+n)/6)^{alpha:g}"),
    "power": (power, "log p / n^{alpha:g}"),
}


def check(length: str, alpha: float) -> None:
    """A length rule there is, with an exponent it can have; or ``BadInput``."""
    if length not in LENGTHS:
        raise BadInput(f"length must be one of {', '.join(LENGTHS)}, not {length!r}")
    if not 0 <= alpha < math.inf:
        raise BadInput(f"alpha must be at least 0 and finite, not {alpha}")


def formula(length: Length, alpha: float) -> str:
    """The score as people write it; n is the number of tokens, EOS included."""
    return LENGTHS[length][1].format(alpha=alpha)


def normalised(logprob: Any, n: int, length: Length, alpha: float) -> Any:
    """The score of ``n`` tokens; 0 of them, where not even a first was allowed, count as 1."""
    return logprob / LENGTHS[length][0](max(n, 1), alpha)


def to_beat(score: Any, longest: Any, length: Length, alpha: float) -> Any:
    """Nothing that grows from a prefix with this log p or less will score above ``score``.

    For log p only falls, and no divisor to come is above that of the longest n allowed.
    """
    return score * LENGTHS[length][0](longest, alpha)


def rescored(hypotheses: Iterable[Hypothesis], length: Length, alpha: float) -> list[Hypothesis]:
    """Hypotheses as another rule ranks them: finished ones first, equals in the order given.

    Coverage is not stored with a hypothesis, so a coverage penalty in the old scores is dropped.
    """
    check(length, alpha)
    scored = [
        replace(one, score=normalised(one.logprob, len(one.logprobs), length, alpha))
        for one in hypotheses
    ]
    return sorted(scored, key=lambda one: (not one.finished, -one.score))


def uncovered(coverage_S: np.ndarray) -> float:
    """Σ_i log min(Σ_j a_ij, 1), equation 14's penalty without its β; NaN marks no position."""
    there = coverage_S[~np.isnan(coverage_S)].astype(np.float64)
    with np.errstate(divide="ignore"):  # a position never looked at: -inf
        return math.fsum(np.log(np.minimum(there, 1.0)))
