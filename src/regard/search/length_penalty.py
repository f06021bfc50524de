"""How a hypothesis is scored: length rules and the coverage penalty."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from regard.ground.checks import check_number
from regard.ground.errors import BadInput, shown
from regard.search.hypothesis import Hypothesis

Length = Literal["none", "mean", "gnmt", "power"]
LEAST = float(np.finfo(np.float32).tiny)
STEEPEST = 50  # exponents beyond give no numbers for long hypotheses


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
    return n ** float(alpha)  # numpy refuses integers to a negative integer power


# Each divides log p, and none falls as n grows if alpha >= 0: ``logprob_to_beat`` relies on it.
LENGTHS: dict[str, tuple[Callable[[Any, float], Any], str]] = {
    "none": (none, "log p"),
    "mean": (mean, "log p / n"),
    "gnmt": (gnmt, "log p / ((5+n)/6)^{alpha:g}"),
    "power": (power, "log p / n^{alpha:g}"),
}


def check_length_penalty(length: str, alpha: float, lowest: float = 0.0) -> None:
    """A length rule there is, with an exponent it can have; or ``BadInput``."""
    if length not in [*LENGTHS]:
        raise BadInput(f"length must be one of {', '.join(LENGTHS)}, not {shown(length)}")
    check_number("alpha", alpha)
    if not math.isfinite(alpha) or alpha < lowest:
        least = "" if lowest == -math.inf else f"at least {lowest:g} and "
        raise BadInput(f"alpha must be {least}finite, not {alpha}")
    if abs(alpha) > STEEPEST:
        raise BadInput(f"alpha must be from {-STEEPEST} to {STEEPEST}, not {alpha}")


def formula(length: Length, alpha: float, coverage: float | None = None) -> str:
    """The score as people write it; n is the number of tokens, EOS included."""
    plain = LENGTHS[length][1].format(alpha=alpha)
    return f"{plain} + {coverage:g} Σ_i log min(Σ_j a_ij, 1)" if coverage else plain


def normalised(logprob: Any, n: int, length: Length, alpha: float) -> Any:
    """The score of ``n`` tokens; 0 of them, where not even a first was allowed, count as 1."""
    return logprob / LENGTHS[length][0](max(n, 1), alpha)


def logprob_to_beat(score: Any, n: Any, length: Length, alpha: float) -> Any:
    """The log p that ``n`` tokens need for this score.

    At the longest n allowed it is a bound: nothing that grows from a prefix with this log p or less
    will score above ``score``, for log p only falls, and no divisor to come is above that one.
    """
    return score * LENGTHS[length][0](n, alpha)


def rescore(
    hypotheses: Iterable[Hypothesis], length: Length, alpha: float, coverage: float = 0.0
) -> list[Hypothesis]:
    """Hypotheses as another rule ranks them: finished ones first, equals in the order given.

    With a weight ``coverage`` they need to have been found by a search that looked at it.
    """
    check_length_penalty(length, alpha, lowest=-math.inf)
    scored = [replace(one, score=_score(one, length, alpha, coverage)) for one in hypotheses]
    return sorted(scored, key=lambda one: (not one.finished, -one.score))


def _score(one: Hypothesis, length: Length, alpha: float, coverage: float) -> float:
    plain = normalised(one.logprob, len(one.logprobs), length, alpha)
    if not coverage:
        return plain
    if one.coverage is None:
        raise BadInput("a coverage penalty needs hypotheses that were stored with their coverage")
    return plain + coverage * one.coverage


def coverage_term(coverage_S: np.ndarray) -> float:
    """Σ_i log min(Σ_j a_ij, 1), equation 14's penalty without its β; NaN marks no position.

    A position never looked at counts as one that got the least number there is, so that the term
    is finite: it can be stored, and weighed by 0.
    """
    there = coverage_S[~np.isnan(coverage_S)].astype(np.float64)
    return math.fsum(np.log(np.clip(there, LEAST, 1.0)))
