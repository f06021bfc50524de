"""Candidates of a search: their figures, and why each was kept or pruned."""

from dataclasses import dataclass
from typing import Literal

from regard.generation.hypothesis import Hypothesis

Fate = Literal["kept", "finished", "unfinished", "outranked", "enough", "beaten", "stuck", "passed"]
FATES: dict[Fate, tuple[str, str]] = {
    "kept": ("", "kept: among the {k} most probable that do not end"),
    "finished": ("finished", "finished: ends here, and is among the {k} most probable"),
    "unfinished": ("length limit", "unfinished: the length limit is reached"),
    "outranked": ("outranked", "pruned: {k} others are more probable"),
    "enough": ("enough finished", "pruned: the search ends, enough hypotheses are finished"),
    "beaten": ("cannot win", "pruned: the search ends, no live hypothesis can still win"),
    "stuck": ("no token may follow", "unfinished: no token may follow"),
    "passed": ("", "not chosen"),
}
SHORT = {fate: short for fate, (short, _) in FATES.items()}
PRUNED = ("outranked", "enough", "beaten")
ENDED = ("finished", "unfinished", "stuck")


@dataclass(frozen=True)
class BeamNode:
    """Candidate of a search: a hypothesis of ``step`` tokens, by its last token and its parent.

    ``logprob`` is the log-probability of the token, ``total`` the sum over all tokens so far.
    Candidates of a step are ranked by ``total``, from 1. ``score`` is ``total`` after the length
    penalty. Node 0 is the root (begin of sentence) and has no parent.
    """

    parent: int | None
    step: int
    token: int
    piece: str
    logprob: float
    total: float
    score: float
    rank: int
    fate: Fate


@dataclass(frozen=True)
class TreeHypothesis:
    """Hypothesis that ended, with its last node and its text."""

    hypothesis: Hypothesis
    node: int
    text: str
