"""Constraints on hypotheses: BOS and EOS, lengths, forbidden tokens, prefixes, repetition."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import check_number, check_whole
from regard.core.errors import BadInput
from regard.generation.hypothesis import ActiveHypotheses

Tokens = TypeVar("Tokens", np.ndarray, Tensor)


@dataclass(frozen=True)
class Constraints:
    """Constraints on hypotheses. Lengths count all tokens with EOS and prefix, without BOS.

    A hypothesis of ``longest`` tokens without EOS is unfinished; with ``must_end`` token number
    ``longest`` is always EOS, with log p 0. EOS is token number ``shortest`` at the earliest.
    Allowed tokens keep their probabilities, or are renormalised to sum to one (``renormalise``).
    ``bos``, ``longest`` and ``shortest`` are one number for all sentences or one for each; ``bos``
    is the first token fed, which after a prompt is the last token of the prompt. ``other_eos``
    are further tokens that end a text.
    """

    bos: int | Sequence[int]
    eos: int
    longest: int | Sequence[int]
    shortest: int | Sequence[int] = 0
    forbidden: tuple[int, ...] = ()
    must_end: bool = False
    renormalise: bool = False
    other_eos: tuple[int, ...] = ()

    @property
    def ends(self) -> tuple[int, ...]:
        """All tokens that end a text."""
        return self.eos, *self.other_eos

    def is_end(self, tokens: Tokens) -> Tokens:
        """Mask of the tokens that end a text."""
        return reduce(or_, (tokens == end for end in self.ends))

    def bos_of(self, sentences: int) -> np.ndarray:
        """First token fed, for each sentence."""
        return _each(self.bos, sentences, "bos")

    def longest_of(self, sentences: int) -> np.ndarray:
        """Maximum number of tokens of a hypothesis, for each sentence."""
        longest_B = _each(self.longest, sentences, "longest")
        if (longest_B < 1).any():
            raise ValueError("longest must be at least 1: EOS alone is one token")
        return longest_B

    @property
    def has_one_shortest(self) -> bool:
        """Whether all sentences have the same shortest length."""
        return np.ndim(self.shortest) == 0

    def shortest_of(self, sentences: int) -> np.ndarray:
        """Number of the first token that may be EOS, for each sentence."""
        return _each(self.shortest, sentences, "shortest")

    def forced(self, prefixes: Sequence[Sequence[int]] | None, sentences: int) -> np.ndarray:
        """Prefixes as a table_BL, with -1 after the end of each."""
        if prefixes is None:
            return np.full((sentences, 0), -1)
        if len(prefixes) != sentences:
            raise ValueError(f"{len(prefixes)} prefixes for {sentences} sentences")
        for prefix, longest in zip(prefixes, self.longest_of(sentences), strict=True):
            if len(prefix) > longest:
                raise BadInput(
                    f"a prefix of {len(prefix)} tokens is longer than the limit of {longest}"
                )
            if self.must_end and len(prefix) == longest:
                raise BadInput(f"a prefix of {len(prefix)} tokens leaves no place for EOS")
            if not {*self.ends}.isdisjoint(prefix):
                raise BadInput("a prefix contains EOS")
        return table(prefixes)

    def repeated(self, sentences: int, copies: int) -> "Constraints":
        """Constraints for ``copies`` of each sentence; copies of a sentence are adjacent."""
        parts = self.bos_of(sentences), self.longest_of(sentences), self.shortest_of(sentences)
        bos, longest, each = (np.repeat(values_B, copies).tolist() for values_B in parts)
        shortest = self.shortest if self.has_one_shortest else each
        return replace(self, bos=bos, longest=longest, shortest=shortest)


def _each(value: int | Sequence[int], sentences: int, name: str) -> np.ndarray:
    values = [value] * sentences if isinstance(value, int) else value
    if len(values) != sentences:
        raise ValueError(f"{name} has {len(values)} entries for {sentences} sentences")
    return np.array(values, dtype=np.int64)


def table(lists: Sequence[Sequence[int]]) -> np.ndarray:
    """Lists of tokens as rows of a table, -1 after the end of each."""
    cells_BL = np.full((len(lists), max(map(len, lists), default=0)), -1)
    for row, tokens in zip(cells_BL, lists, strict=True):
        row[: len(tokens)] = tokens
    return cells_BL


def restrict(
    logprobs_RV: Tensor,
    alive: ActiveHypotheses,
    constraints: Constraints,
    forced_BL: np.ndarray,
    no_repeat: int = 0,
) -> None:
    """Set log-probabilities of forbidden next tokens to -inf, in place.

    A forced token is allowed even if it is forbidden.
    """
    n = alive.length + 1  # the number of the next token
    forced = _forced_next(alive, forced_BL)
    forced_logprobs = logprobs_RV[forced] if forced else torch.empty(0)
    for token in constraints.forbidden:
        logprobs_RV[:, token] = -torch.inf
    early = np.flatnonzero(n < constraints.shortest_of(len(forced_BL))[alive.sentence_R])
    for end in constraints.ends:
        logprobs_RV[early, end] = -torch.inf
    if no_repeat:
        logprobs_RV[repeats(alive.seen_RL, no_repeat)] = -torch.inf
    if constraints.renormalise:
        logprobs_RV.copy_(torch.log_softmax(logprobs_RV, dim=-1))
    if forced:
        logprobs_RV[forced[0]] = -torch.inf
        logprobs_RV[forced] = forced_logprobs
    if constraints.must_end:
        longest_R = constraints.longest_of(len(forced_BL))[alive.sentence_R]
        last = np.flatnonzero(longest_R == n)
        logprobs_RV[last] = -torch.inf
        logprobs_RV[last, constraints.eos] = 0.0


def _forced_next(
    alive: ActiveHypotheses, forced_BL: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows with a forced next token, and these tokens; None after all prefixes."""
    if alive.length >= forced_BL.shape[1]:
        return None
    next_R = forced_BL[alive.sentence_R, alive.length]
    rows = np.flatnonzero(next_R >= 0)
    return rows, next_R[rows]


def repeats(tokens_RL: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and tokens of all next tokens that would repeat an n-gram of ``size`` tokens."""
    length = tokens_RL.shape[1]
    if length < size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    runs = np.lib.stride_tricks.sliding_window_view(tokens_RL, size, axis=1)
    tail = tokens_RL[:, None, length - size + 1 :]
    rows, at = np.nonzero((runs[:, :, :-1] == tail).all(-1))
    return rows, runs[rows, at, -1]


def check_repetition(no_repeat: int, penalty: float) -> None:
    """Raise BadInput for invalid rules against repetition."""
    check_whole("no_repeat", no_repeat, 0)
    check_number("a repetition penalty", penalty)
    if not 0 < penalty < math.inf:
        raise BadInput(f"a repetition penalty must be positive and finite, not {penalty}")


@dataclass(frozen=True)
class Repetition:
    """Rules against repetition.

    No n-gram of ``no_repeat`` tokens may occur twice (0: no limit). With a ``penalty`` above 1,
    positive logits of tokens in the prompt or the hypothesis are divided by it and negative ones
    multiplied (Keskar et al., 2019, arXiv:1909.05858, section 4.1, as in ``transformers``), before
    the softmax. If ``of_logits`` is false, log-probabilities are multiplied instead, as in the
    beam search of ``transformers``, and are not normalised again.
    """

    no_repeat: int = 0
    penalty: float = 1.0
    of_logits: bool = True

    def __post_init__(self) -> None:
        check_repetition(self.no_repeat, self.penalty)

    @property
    def penalises(self) -> bool:
        """Whether the penalty changes anything."""
        return self.penalty != 1

    @property
    def rules(self) -> list[str]:
        """Descriptions of the rules in effect."""
        grams = [f"no {self.no_repeat}-gram twice"] if self.no_repeat else []
        return grams + [f"repetition penalty {self.penalty:g}"] * self.penalises

    def logprobs(self, logprobs_RV: Tensor, normaliser_R: Tensor, seen_RL: np.ndarray) -> Tensor:
        """Log-probabilities after the penalty; logits are log-probabilities + ``normaliser_R``."""
        if not self.penalises:
            return logprobs_RV
        seen_RV = torch.zeros(logprobs_RV.shape, dtype=torch.bool, device=logprobs_RV.device)
        rows, at = np.nonzero(seen_RL >= 0)
        seen_RV[rows, seen_RL[rows, at]] = True
        if not self.of_logits:
            return self.penalised(logprobs_RV, seen_RV)
        logits_RV = logprobs_RV + normaliser_R[:, None]
        return torch.log_softmax(self.penalised(logits_RV, seen_RV), dim=-1)

    def penalised(self, scores_RV: Tensor, seen_RV: Tensor) -> Tensor:
        """Scores with the penalty on tokens that were seen."""
        lower_RV = torch.where(scores_RV < 0, scores_RV * self.penalty, scores_RV / self.penalty)
        return torch.where(seen_RV, lower_RV, scores_RV)
