"""Rules of a beam search as a value: which hypotheses stay active, when it ends, the score."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, TypeVar

import numpy as np
from torch import Tensor

from regard.core.checks import check_number, check_whole
from regard.core.errors import BadInput, shown
from regard.generation.constraints import Repetition
from regard.generation.hypothesis import Hypothesis

Length = Literal["none", "mean", "gnmt", "power"]
LEAST = float(np.finfo(np.float32).tiny)
STEEPEST = 50  # larger exponents overflow for long hypotheses
Stop = Literal["default", "transformers", "transformers-early", "transformers-never"]
# End conditions: ours, and those of transformers with early_stopping=False, True and "never".
STOPS: dict[Stop, str] = {
    "default": "",
    "transformers": "{k} are finished and no active {score} (at its current n) beats the last",
    "transformers-early": "{k} are finished",
    "transformers-never": "{k} are finished and no active {score} (at longest n) beats the last",
}
WIDEST = 10_000  # hypotheses of a sentence

Number = TypeVar("Number", float, np.ndarray, Tensor)


class Divisor(Protocol):
    """Length penalty: a divisor of the log-probability of ``n`` tokens."""

    def __call__(self, n: Number, alpha: float, /) -> Number | float: ...


def none(n: Number, alpha: float) -> float:
    """Length penalty "none": log p alone, which favours short hypotheses."""
    return 1.0


def mean(n: Number, alpha: float) -> Number:
    """Length penalty "mean": log-probability per token."""
    return n


def gnmt(n: Number, alpha: float) -> Number:
    """Length penalty "gnmt" (Wu et al., 2016, arXiv:1609.08144, equation 14)."""
    return ((5 + n) / 6) ** alpha


def power(n: Number, alpha: float) -> Number:
    """Length penalty "power": the length to the power alpha; no penalty at 0, the mean at 1."""
    return n ** (1.0 * alpha)  # numpy refuses integers to a negative integer power


# Divisors must not fall as n grows if alpha >= 0: ``logprob_to_beat`` relies on it.
LENGTHS: dict[str, tuple[Divisor, str]] = {
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
    """Formula of the score; n is the number of tokens, with EOS."""
    plain = LENGTHS[length][1].format(alpha=alpha)
    return f"{plain} + {coverage:g} Σ_i log min(Σ_j a_ij, 1)" if coverage else plain


def normalised(logprob: Number, n: int, length: Length, alpha: float) -> Number:
    """Score of ``n`` tokens; 0 tokens count as 1."""
    return logprob / LENGTHS[length][0](max(n, 1), alpha)


def logprob_to_beat(score: Number, n: Number, length: Length, alpha: float) -> Number:
    """Log-probability that ``n`` tokens need for this score.

    At the longest n allowed it is a bound: no continuation of a prefix with this log p or less
    scores above ``score``, because log p only falls and no later divisor is larger.
    """
    return score * LENGTHS[length][0](n, alpha)


def rescore(
    hypotheses: Iterable[Hypothesis], length: Length, alpha: float, coverage: float = 0.0
) -> list[Hypothesis]:
    """Rank hypotheses by another score: finished ones first; ties keep their order.

    With a weight ``coverage`` they must have a coverage term.
    """
    check_length_penalty(length, alpha, lowest=-math.inf)
    scored = []
    for hypothesis in hypotheses:
        score = normalised(hypothesis.logprob, len(hypothesis.logprobs), length, alpha)
        if coverage:
            if hypothesis.coverage is None:
                raise BadInput("a coverage penalty needs hypotheses with a coverage term")
            score += coverage * hypothesis.coverage
        scored.append(replace(hypothesis, score=score))
    return sorted(scored, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))


def coverage_term(coverage_S: np.ndarray) -> float:
    """Coverage term Σ_i log min(Σ_j a_ij, 1) of equation 14, without β; NaN marks padding.

    A position without any attention counts as the smallest positive float32, so that the term is
    finite.
    """
    known_S = coverage_S[~np.isnan(coverage_S)].astype(np.float64)
    return math.fsum(np.log(np.clip(known_S, LEAST, 1.0)))


@dataclass(frozen=True)
class BeamRules:
    """Fields of ``Beam``, which documents them, and properties that follow from them."""

    size: int = 5
    best: int = 1
    length: Length = "gnmt"
    alpha: float = 0.6
    coverage: float | None = None
    finished: int | None = None
    no_repeat: int = 0
    early: bool = True
    stop: Stop = "default"
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if self.stop not in [*STOPS]:
            raise BadInput(f"stop must be one of {', '.join(STOPS)}, not {shown(self.stop)}")
        check_whole("the size of a beam", self.size, 1, WIDEST)
        check_whole("best", self.best, 1, WIDEST)
        _ = self.repetition  # which checks its numbers
        if self.finished is not None:
            check_whole("finished", self.finished, 1)
        if self.follows_transformers and (self.finished is not None or not self.early):
            raise BadInput(f"finished and early cannot be used with stop {self.stop!r}")
        if self.follows_transformers and self.best > self.size:
            limit = f"at most the size of the beam ({self.size}), as in transformers"
            raise BadInput(f"best must be {limit}, not {self.best}")
        if self.enough < self.best:
            raise BadInput(f"finished must be at least best ({self.best}), not {self.enough}")
        lowest = -math.inf if self.follows_transformers else 0.0
        check_length_penalty(self.length, self.alpha, lowest)
        check_number("coverage", self.coverage or 0.0)
        if not 0 <= (self.coverage or 0.0) < math.inf:
            raise BadInput(f"coverage must be finite and at least 0, not {self.coverage}")

    def __str__(self) -> str:
        parts = [f"beam of {self.size}"]
        parts += [f"{self.best} best"] * (self.best > 1)
        parts += [f"ends at {self.finished} finished"] * (self.finished is not None)
        parts += [f"no {self.no_repeat} tokens in a row occur twice"] * (self.no_repeat > 0)
        penalty = self.repetition_penalty
        return ", ".join(parts + [f"repetition penalty {penalty:g}"] * (penalty != 1))

    @cached_property
    def repetition(self) -> Repetition:
        """Rules against repetition; a beam of one follows the rules of greedy search."""
        return Repetition(self.no_repeat, self.repetition_penalty, of_logits=self.size == 1)

    @property
    def follows_transformers(self) -> bool:
        """Whether the search ends by the rules of transformers."""
        return self.stop != "default"

    @property
    def enough(self) -> float:
        """Number of finished hypotheses that ends a search, even if others are still active."""
        if self.stop == "default":
            return max(self.size, self.best) if self.finished is None else self.finished
        return self.size if self.stop == "transformers-early" or self.size == 1 else math.inf

    @property
    def beaten(self) -> int:
        """Rank of the finished hypothesis that an active one must beat to continue."""
        return self.size if self.follows_transformers else self.best

    @property
    def bounds_at_current_length(self) -> bool:
        """Whether active hypotheses are scored at their current length, not at the longest."""
        return self.stop == "transformers" or self.alpha < 0

    @property
    def needs_attention(self) -> bool:
        """Whether states must record attention weights, for the coverage penalty."""
        return self.coverage is not None

    @property
    def formula(self) -> str:
        """Formula of the score; n is the number of tokens, EOS included and BOS not."""
        plain = formula(self.length, self.alpha, self.coverage)
        over = STOPS[self.stop].format(k=self.size, score=formula(self.length, self.alpha))
        return f"{plain}, ends when {over}" if over else plain

    def sort_key(self, hypothesis: Hypothesis) -> tuple[bool, float]:
        """Sort key of results: unfinished ones last, unless they count as finished."""
        return not (hypothesis.finished or self.follows_transformers), -hypothesis.score
