"""Constraints on hypotheses: BOS and EOS, lengths, forbidden tokens, prefixes, repetition.

``TokenRules`` composes the rules that a batch uses; each changes log-probabilities of next tokens.
Rules that a batch does not use cost nothing. ``DeviceRules`` has those that CUDA graphs know.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import check_number, check_whole
from regard.core.errors import BadInput
from regard.generation.logit_bias import LogitBias

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

    @property
    def known_ends(self) -> list[int]:
        """Tokens of the vocabulary that end a text: without -1, where a model has no EOS."""
        return [end for end in self.ends if end >= 0]

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

    def penalised(self, scores_RV: Tensor, seen_RV: Tensor) -> Tensor:
        """Scores with the penalty on tokens that were seen."""
        lower_RV = torch.where(scores_RV < 0, scores_RV * self.penalty, scores_RV / self.penalty)
        return torch.where(seen_RV, lower_RV, scores_RV)


@dataclass
class RuleRows:
    """Rows that rules read: the sentence of each, and the tokens of prompt and hypothesis.

    ``history_RS`` has -1 before shorter prompts, and is empty if no rule reads it. ``n`` counts the
    tokens of each hypothesis so far, ``normaliser`` returns logits minus log-probabilities.
    """

    sentence_R: Tensor
    history_RS: Tensor
    n: int
    normaliser: Callable[[], Tensor]


Rule = Callable[[Tensor, RuleRows], Tensor]
"""Change of log-probabilities of next tokens, which may overwrite the tensor."""


def penalise(repetition: Repetition, logprobs_RV: Tensor, rows: RuleRows) -> Tensor:
    """Repetition penalty on tokens of prompt and hypothesis."""
    vocab = logprobs_RV.shape[1]
    seen_RV = rows.history_RS.new_zeros(len(logprobs_RV), vocab + 1, dtype=torch.bool)
    seen_RV.scatter_(1, rows.history_RS.remainder(vocab + 1), True)  # -1: after the last
    if not repetition.of_logits:
        return repetition.penalised(logprobs_RV, seen_RV[:, :vocab])
    logits_RV = logprobs_RV + rows.normaliser()[:, None]
    return repetition.penalised(logits_RV, seen_RV[:, :vocab]).log_softmax(-1)


def add_bias(bias: LogitBias, logprobs_RV: Tensor, rows: RuleRows) -> Tensor:
    """Logit bias, presence penalty and frequency penalty."""
    return bias.logprobs(logprobs_RV, rows.history_RS[:, rows.history_RS.shape[1] - rows.n :])


def forbid(tokens_N: Tensor, logprobs_RV: Tensor, rows: RuleRows) -> Tensor:
    """Tokens that may never come."""
    return logprobs_RV.index_fill_(1, tokens_N, -torch.inf)


def forbid_early_ends(
    ends_N: Tensor, shortest_B: Tensor, last: int, logprobs_RV: Tensor, rows: RuleRows
) -> Tensor:
    """Tokens that end a text, before token number ``shortest_B``, which is at most ``last``."""
    if rows.n + 1 >= last:
        return logprobs_RV
    early_R1 = (shortest_B[rows.sentence_R] > rows.n + 1)[:, None]
    ends_RN = logprobs_RV.index_select(1, ends_N).masked_fill_(early_R1, -torch.inf)
    return logprobs_RV.index_copy_(1, ends_N, ends_RN)


def forbid_repeats(size: int, logprobs_RV: Tensor, rows: RuleRows) -> Tensor:
    """Tokens that would repeat an n-gram of ``size`` tokens of prompt and hypothesis."""
    token_RK, repeats_RK = next_of_repeats(rows.history_RS, size)
    limit_RK = logprobs_RV.new_full(token_RK.shape, torch.inf).masked_fill_(repeats_RK, -torch.inf)
    return logprobs_RV.scatter_reduce_(1, token_RK.clamp(min=0), limit_RK, "amin")


def next_of_repeats(history_RS: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Tokens after each earlier run of ``size - 1`` tokens, and whether it is the last run too."""
    if history_RS.shape[1] < size:
        return history_RS[:, :0], history_RS[:, :0].bool()
    runs_RKN = history_RS.unfold(1, size, 1)
    last_R1N = history_RS[:, None, history_RS.shape[1] - size + 1 :]
    next_RK = runs_RKN[..., -1]
    return next_RK, (runs_RKN[..., :-1] == last_R1N).all(-1) & (next_RK >= 0)


def renormalise(logprobs_RV: Tensor, rows: RuleRows) -> Tensor:
    """Probabilities of allowed tokens, which sum to one."""
    return logprobs_RV.log_softmax(-1)


def force(forced_BL: Tensor, within: Sequence[Rule], logprobs_RV: Tensor, rows: RuleRows) -> Tensor:
    """Prefixes; their tokens keep the log-probabilities from before the other rules ``within``."""
    if rows.n >= forced_BL.shape[1]:
        return changed(logprobs_RV, within, rows)
    token_R1 = forced_BL[rows.sentence_R, rows.n, None]
    forced_R1, token_R1 = token_R1 >= 0, token_R1.clamp(min=0)
    before_R1 = logprobs_RV.gather(1, token_R1)
    logprobs_RV = changed(logprobs_RV, within, rows)
    own_R1 = torch.where(forced_R1, before_R1, logprobs_RV.gather(1, token_R1))
    return logprobs_RV.masked_fill_(forced_R1, -torch.inf).scatter_(1, token_R1, own_R1)


def end_at_limit(
    eos: int, longest_B: Tensor, limits: set[int], logprobs_RV: Tensor, rows: RuleRows
) -> Tensor:
    """EOS as the only token at the limit of a hypothesis (one of ``limits``), with log p 0."""
    if rows.n + 1 not in limits:
        return logprobs_RV
    last_R1 = (longest_B[rows.sentence_R] == rows.n + 1)[:, None]
    eos_R1 = logprobs_RV[:, eos, None].masked_fill(last_R1, 0.0)
    logprobs_RV.masked_fill_(last_R1, -torch.inf)[:, eos, None] = eos_R1
    return logprobs_RV


def changed(logprobs_RV: Tensor, rules: Sequence[Rule], rows: RuleRows) -> Tensor:
    """Log-probabilities after rules, one after the other."""
    for rule in rules:
        logprobs_RV = rule(logprobs_RV, rows)
    return logprobs_RV


class TokenRules:
    """Rules of a batch, and the history of its rows."""

    def __init__(
        self,
        constraints: Constraints,
        longest_B: np.ndarray,
        repetition: Repetition,
        bias: LogitBias | None = None,
        forced_BL: np.ndarray | None = None,
        prompts: Sequence[Sequence[int]] | None = None,
        device: torch.device | str = "cpu",
    ):
        def each(values: Sequence[int] | Sequence[list[int]] | np.ndarray) -> Tensor:
            return torch.as_tensor(values, dtype=torch.long).to(device)

        sentences = len(longest_B)
        self.rules, within = list[Rule](), list[Rule]()
        if repetition.penalises:
            self.rules.append(partial(penalise, repetition))
        if bias:
            self.rules.append(partial(add_bias, bias))
        if constraints.forbidden:
            within.append(partial(forbid, each(constraints.forbidden)))
        shortest_B, ends = constraints.shortest_of(sentences), constraints.known_ends
        if ends and shortest_B.max(initial=0) > 1:
            early = each(ends), each(shortest_B), int(shortest_B.max())
            within.append(partial(forbid_early_ends, *early))
        if repetition.no_repeat:
            within.append(partial(forbid_repeats, repetition.no_repeat))
        if constraints.renormalise:
            within.append(renormalise)
        if forced_BL is not None and forced_BL.shape[1]:
            within = [partial(force, each(forced_BL), within)]
        self.rules += within
        if constraints.must_end:
            limits = each(longest_B), set(longest_B.tolist())
            self.rules.append(partial(end_at_limit, constraints.eos, *limits))
        self.reads_history = repetition.penalises or repetition.no_repeat > 0 or bool(bias)
        self.history_RS = torch.zeros(sentences, 0, dtype=torch.long, device=device)
        if prompts is not None and self.reads_history:
            width = max(map(len, prompts), default=0)
            self.history_RS = each([[-1] * (width - len(row)) + [*row] for row in prompts])

    def logprobs(
        self, logprobs_RV: Tensor, normaliser: Callable[[], Tensor], sentence_R: Tensor, n: int
    ) -> Tensor:
        """Log-probabilities of token ``n + 1`` after the rules, -inf for forbidden tokens."""
        rows = RuleRows(sentence_R, self.history_RS, n, normaliser)
        return changed(logprobs_RV, self.rules, rows)

    def select_rows(self, index_R: Tensor) -> None:
        """Drop, repeat or reorder rows."""
        if self.reads_history:
            self.history_RS = self.history_RS[index_R]

    def advance(self, token_R: Tensor) -> None:
        """Add a token to each row."""
        if self.reads_history:
            self.history_RS = torch.cat([self.history_RS, token_R[:, None]], dim=1)
