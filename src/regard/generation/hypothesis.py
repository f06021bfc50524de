"""Hypotheses: results of a search, and rows that grow by one token after the other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

StopTest = Callable[[Sequence[int]], bool]
"""Test whether a hypothesis of these tokens ends here, without EOS."""


@dataclass(frozen=True)
class Hypothesis:
    """Hypothesis of a search: tokens without BOS and EOS, log-probabilities and score.

    A finished hypothesis has one more entry in ``logprobs``, for EOS. ``coverage`` is
    Σ_i log min(Σ_j a_ij, 1) over the source, if the search computed it.
    """

    tokens: tuple[int, ...]
    logprob: float
    score: float
    logprobs: tuple[float, ...]
    finished: bool
    coverage: float | None = None


def by_sentence(hypotheses: list[Hypothesis], copies: int) -> list[list[Hypothesis]]:
    """Hypotheses in groups of ``copies``, one per sentence, the most probable first."""
    groups = (hypotheses[at : at + copies] for at in range(0, len(hypotheses), copies))
    return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in groups]


@dataclass(eq=False)
class RowTokens:
    """Tokens of one hypothesis so far, on the host."""

    longest: int
    ends: tuple[int, ...]
    stop_test: StopTest | None = None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    has_ended: bool = False

    def add(self, token: int, logprob: float) -> bool:
        """Add the token of a step; return whether there is one."""
        if math.isnan(logprob):
            raise FloatingPointError("the model's log-probabilities are not numbers")
        if logprob == -math.inf:  # no token may follow
            self.has_ended = True
            return False
        self.tokens.append(token)
        self.logprobs.append(logprob)
        over = token in self.ends or len(self.tokens) == self.longest
        self.has_ended = over or (self.stop_test is not None and self.stop_test(self.tokens))
        return True

    @property
    def hypothesis(self) -> Hypothesis:
        """The hypothesis at its end."""
        finished = bool(self.tokens) and self.tokens[-1] in self.ends
        text, total = self.tokens[: len(self.tokens) - finished], 0.0
        for logprob in self.logprobs:
            total += logprob
        return Hypothesis(tuple(text), total, total, tuple(self.logprobs), finished)
