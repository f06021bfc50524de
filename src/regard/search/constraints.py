"""Constraints on hypotheses: BOS and EOS, lengths, forbidden tokens, prefixes, repetition."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.ground.checks import check_number, check_whole
from regard.ground.errors import BadInput
from regard.search.hypothesis import ActiveHypotheses


@dataclass(frozen=True)
class Constraints:
    """Lengths count all tokens of a hypothesis with EOS and prefix, without BOS.

    A hypothesis of ``longest`` tokens without EOS is unfinished; with ``must_end`` token number
    ``longest`` is always EOS, with log p 0. EOS is token number ``shortest`` at the earliest.
    Allowed tokens keep their probabilities, or are renormalised to sum to one (``renormalise``).
    ``bos``, ``longest`` and ``shortest`` are one number for all sentences or one for each; ``bos``
    is the first token fed, which after a prompt is the last token of the prompt.
    """

    bos: int | Sequence[int]
    eos: int
    longest: int | Sequence[int]
    shortest: int | Sequence[int] = 0
    forbidden: tuple[int, ...] = ()
    must_end: bool = False
    renormalise: bool = False

    def bos_of(self, sentences: int) -> np.ndarray:
        """The token fed first, for each sentence."""
        return _each(self.bos, sentences, "bos")

    def longest_of(self, sentences: int) -> np.ndarray:
        """The most tokens a hypothesis may have, for each sentence."""
        longest_B = _each(self.longest, sentences, "longest")
        if (longest_B < 1).any():
            raise ValueError("longest must be at least 1: EOS alone is one token")
        return longest_B

    @property
    def has_one_shortest(self) -> bool:
        """Whether all sentences have the same shortest length."""
        return np.ndim(self.shortest) == 0

    def shortest_of(self, sentences: int) -> np.ndarray:
        """The number of the first token that may be EOS, for each sentence."""
        return _each(self.shortest, sentences, "shortest")

    def forced(self, prefixes: Sequence[Sequence[int]] | None, sentences: int) -> np.ndarray:
        """The prefixes as a table_BL with -1 where nothing is forced."""
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
            if self.eos in prefix:
                raise BadInput("a prefix contains EOS")
        return table(prefixes)

    def repeated(self, sentences: int, copies: int) -> "Constraints":
        """The constraints of ``copies`` of each sentence; copies of a sentence stand together."""
        bos_B, longest_B = self.bos_of(sentences), self.longest_of(sentences)
        repeated = replace(
            self,
            bos=np.repeat(bos_B, copies).tolist(),
            longest=np.repeat(longest_B, copies).tolist(),
        )
        if self.has_one_shortest:
            return repeated
        return replace(repeated, shortest=np.repeat(self.shortest_of(sentences), copies).tolist())


def _each(value: int | Sequence[int], sentences: int, name: str) -> np.ndarray:
    values = [value] * sentences if isinstance(value, int) else value
    if len(values) != sentences:
        raise ValueError(f"{name} has {len(values)} entries for {sentences} sentences")
    return np.array(values, dtype=np.int64)


def table(lists: Sequence[Sequence[int]]) -> np.ndarray:
    """Lists of tokens as the rows of a rectangle, -1 after the end of each."""
    widest = max((len(one) for one in lists), default=0)
    cells_BL = np.full((len(lists), widest), -1)
    for row, one in zip(cells_BL, lists, strict=True):
        row[: len(one)] = one
    return cells_BL


def restrict(
    logprobs_RV: Tensor,
    alive: ActiveHypotheses,
    constraints: Constraints,
    forced_BL: np.ndarray,
    no_repeat: int = 0,
) -> None:
    """Set forbidden next tokens to -inf, in place; a forced token overrules the rest."""
    n = alive.length + 1  # the number of the next token
    forced = _forced_next(alive, forced_BL)
    forced_logprobs = logprobs_RV[forced] if forced else torch.empty(0)
    for token in constraints.forbidden:
        logprobs_RV[:, token] = -torch.inf
    early = np.flatnonzero(n < constraints.shortest_of(len(forced_BL))[alive.sentence_R])
    logprobs_RV[early, constraints.eos] = -torch.inf
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
    """The rows with a forced next token, and those tokens; None after all prefixes."""
    if alive.length >= forced_BL.shape[1]:
        return None
    next_R = forced_BL[alive.sentence_R, alive.length]
    rows = np.flatnonzero(next_R >= 0)
    return rows, next_R[rows]


def repeats(tokens_RL: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, token) for every token that would repeat an n-gram of ``size`` tokens of its row."""
    length = tokens_RL.shape[1]
    if length < size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    runs = np.lib.stride_tricks.sliding_window_view(tokens_RL, size, axis=1)
    tail = tokens_RL[:, None, length - size + 1 :]
    rows, at = np.nonzero((runs[:, :, :-1] == tail).all(-1))
    return rows, runs[rows, at, -1]


def check_repetition(no_repeat: int, penalty: float) -> None:
    """Refuse rules that cannot be."""
    check_whole("no_repeat", no_repeat, 0)
    check_number("a repetition penalty", penalty)
    if not 0 < penalty < math.inf:
        raise BadInput(f"a repetition penalty must be positive and finite, not {penalty}")


@dataclass(frozen=True)
class Repetition:
    """No n-gram of ``no_repeat`` tokens occurs twice (0: any may), and seen tokens cost.

    With a ``penalty`` above 1, logits of tokens in the prompt or the hypothesis are divided by it
    where they are positive and multiplied where they are negative (Keskar et al., 2019,
    arXiv:1909.05858, section 4.1, as ``transformers`` has it); the distribution is what results.
    Not ``of_logits``, it multiplies log-probabilities, which is what the beams of ``transformers``
    do: they are no distribution then.
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
        """What it changes, in words."""
        grams = [f"no {self.no_repeat}-gram twice"] if self.no_repeat else []
        return grams + [f"repetition penalty {self.penalty:g}"] * self.penalises

    def logprobs(self, logprobs_RV: Tensor, normaliser_R: Tensor, seen_RL: np.ndarray) -> Tensor:
        """Log-probabilities after the penalty; with ``normaliser_R`` they are the logits."""
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
        """Scores, lower where a token was seen."""
        lower_RV = torch.where(scores_RV < 0, scores_RV * self.penalty, scores_RV / self.penalty)
        return torch.where(seen_RV, lower_RV, scores_RV)
