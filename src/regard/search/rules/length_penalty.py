"""Scores of hypotheses: length penalties and the coverage penalty."""

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
STEEPEST = 50  # larger exponents overflow for long hypotheses


def none(n: Any, alpha: float) -> Any:
    """No penalty: log p alone, which favours short hypotheses."""
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


# Each divides log p and does not fall as n grows if alpha >= 0, as ``logprob_to_beat`` needs.
LENGTHS: dict[str, tuple[Callable[[Any, float], Any], str]] = {
    "none": (none, "log p"),
    "mean": (mean, "log p / n"),
    "gnmt": (gnmt, "log p / ((5+n)/6)^{alpha:g}"),
    "power": (power, "log p / n^{alpha:g}"),
}


def check_length_penalty(length: str, alpha: float, lowest: float = 0.0) -> None:
    """Raise ``BadInput`` unless this length penalty exists and can have this exponent."""
    if length not in [*LENGTHS]:
        raise BadInput(f"length must be one of {', '.join(LENGTHS)}, not {shown(length)}")
    check_number("alpha", alpha)
    if not math.isfinite(alpha) or alpha < lowest:
        least = "" if lowest == -math.inf else f"at least {lowest:g} and "
        raise BadInput(f"alpha must be {least}finite, not {alpha}")
    if abs(alpha) > STEEPEST:
        raise BadInput(f"alpha must be from {-STEEPEST} to {STEEPEST}, not {alpha}")


def formula(length: Length, alpha: float, coverage: float | None = None) -> str:
    """The score as a formula; n is the number of tokens, with EOS."""
    plain = LENGTHS[length][1].format(alpha=alpha)
    return f"{plain} + {coverage:g} Σ_i log min(Σ_j a_ij, 1)" if coverage else plain


def normalised(logprob: Any, n: int, length: Length, alpha: float) -> Any:
    """The score of ``n`` tokens; 0 tokens count as 1."""
    return logprob / LENGTHS[length][0](max(n, 1), alpha)


def logprob_to_beat(score: Any, n: Any, length: Length, alpha: float) -> Any:
    """The log p that ``n`` tokens need for this score.

    At the longest n allowed it is a bound: no continuation of a prefix with this log p or less
    scores above ``score``, because log p only falls and no later divisor is larger.
    """
    return score * LENGTHS[length][0](n, alpha)


def rescore(
    hypotheses: Iterable[Hypothesis], length: Length, alpha: float, coverage: float = 0.0
) -> list[Hypothesis]:
    """Hypotheses ranked by another score: finished ones first, ties in the order given.

    With a weight ``coverage`` they must have a coverage term.
    """
    check_length_penalty(length, alpha, lowest=-math.inf)
    scored = [replace(one, score=_score(one, length, alpha, coverage)) for one in hypotheses]
    return sorted(scored, key=lambda one: (not one.finished, -one.score))


def _score(one: Hypothesis, length: Length, alpha: float, coverage: float) -> float:
    plain = normalised(one.logprob, len(one.logprobs), length, alpha)
    if not coverage:
        return plain
    if one.coverage is None:
        raise BadInput("a coverage penalty needs hypotheses with a coverage term")
    return plain + coverage * one.coverage


def coverage_term(coverage_S: np.ndarray) -> float:
    """Σ_i log min(Σ_j a_ij, 1), the penalty of equation 14 without β; NaN marks padding.

    A position without any attention counts as the smallest positive float32, so that the term is
    finite.
    """
    known_S = coverage_S[~np.isnan(coverage_S)].astype(np.float64)
    return math.fsum(np.log(np.clip(known_S, LEAST, 1.0)))
