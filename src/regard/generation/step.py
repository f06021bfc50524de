"""Protocol between decoding and search: a state that returns next-token distributions."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.core.cancellation import check_wanted
from regard.core.errors import BadInput
from regard.generation.constraints import Constraints, Repetition, restrict, table
from regard.generation.hypothesis import ActiveHypotheses, Hypothesis
from regard.generation.logit_bias import NO_BIAS, LogitBias
from regard.text.continuation import Decode

Selector = TypeVar("Selector")
NewSelector = Callable[[int, int, int, torch.device], Selector]


class DeviceDecoder(Protocol[Selector]):
    """Decoder whose ``selector`` selects the next tokens on the device."""

    selector: Selector

    @property
    def step(self) -> Callable[[], None]: ...
    def feed(self, first_B: Tensor) -> None: ...


class SearchState(Protocol):
    """Decoder between two steps: one row for each active hypothesis.

    A new state has one row per sentence (source or prompt), and the first tokens fed are BOS or
    the last tokens of the prompts. Subclasses must define the first four members.
    """

    @property
    def rows(self) -> int:
        """Number of active rows, R."""

    @property
    def device(self) -> torch.device:
        """Device of tokens and indices."""

    def step(self, tokens_R: Tensor) -> Tensor:
        """Feed one token per row; return float32 log-probabilities_RV of the next token.

        The search may overwrite the tensor, until the next step.
        """

    def select_rows(self, index_R: Tensor) -> None:
        """Drop, repeat or reorder rows: row i becomes a copy of row ``index_R[i]``."""

    def attention(self) -> Tensor:
        """Attention weights_RS of the last step over the source; NaN at padding."""
        raise BadInput("a coverage penalty needs attention weights, but this model has none")

    def normaliser(self) -> Tensor:
        """Logits of the last step minus its log-probabilities, (R,); 0 without logits."""
        return torch.zeros(self.rows, device=self.device)

    def graphed(
        self, copies: int, key: Hashable, selector: NewSelector[Selector]
    ) -> "DeviceDecoder[Selector] | None":
        """Decoder whose steps are CUDA graphs, with ``copies`` rows per sentence, or None.

        ``selector(sentences, steps, vocab, device)`` makes its token selector.
        """
        return None


StopTest = Callable[[Sequence[int]], bool]
"""Test whether a hypothesis of these tokens ends here, without EOS."""


@dataclass(frozen=True)
class SearchBatch:
    """Sentences of a new state, with constraints, forced prefixes, ids and prompts."""

    state: SearchState
    constraints: Constraints
    prefixes: Sequence[Sequence[int]] | None
    ids: Sequence[int]
    prompts: Sequence[Sequence[int]] | None = None
    stop_test: StopTest | None = None

    def __post_init__(self) -> None:
        for name, values in {"ids": self.ids, "prompts": self.prompts}.items():
            if values is not None and len(values) != self.state.rows:
                raise ValueError(f"{len(values)} {name} for {self.state.rows} sentences")

    @cached_property
    def longest_B(self) -> np.ndarray:
        """Maximum number of tokens of a hypothesis, for each sentence."""
        return self.constraints.longest_of(len(self.ids))

    @cached_property
    def forced_BL(self) -> np.ndarray:
        """Prefixes as a table, -1 after the end of each."""
        return self.constraints.forced(self.prefixes, len(self.ids))

    def repeated(self, copies: int) -> "SearchBatch":
        """Batch with ``copies`` of each sentence, adjacent, as rows of the same state."""
        each = np.repeat(np.arange(len(self.ids)), copies)
        select_rows(self.state, each)
        return replace(
            self,
            constraints=self.constraints.repeated(len(self.ids), copies),
            prefixes=_repeated(self.prefixes, copies),
            ids=[self.ids[i] for i in each.tolist()],
            prompts=_repeated(self.prompts, copies),
        )

    def initial_hypotheses(self) -> ActiveHypotheses:
        """One empty hypothesis per sentence."""
        if self.prompts is None:
            return ActiveHypotheses.initial(self.constraints.bos_of(len(self.ids))[:, None])
        width = max(map(len, self.prompts), default=0) + 1
        padded = [[-1] * (width - len(prompt)) + [*prompt] for prompt in self.prompts]
        return ActiveHypotheses.initial(np.array(padded))

    def step(self, alive: ActiveHypotheses, repetition: Repetition) -> Tensor:
        """Feed the last tokens; return log-probabilities_RV, -inf for forbidden tokens."""
        logprobs_RV = feed(self.state, alive.last_R)
        return self.restricted(logprobs_RV, self.state.normaliser, alive, repetition)

    def restricted(
        self,
        logprobs_RV: Tensor,
        normaliser: Callable[[], Tensor],
        alive: ActiveHypotheses,
        repetition: Repetition,
        bias: LogitBias = NO_BIAS,
    ) -> Tensor:
        """Log-probabilities_RV of a step after the rules, -inf for forbidden tokens."""
        if repetition.penalises:
            logprobs_RV = repetition.logprobs(logprobs_RV, normaliser(), alive.seen_RL)
        if bias:
            logprobs_RV = bias.logprobs(logprobs_RV, alive.written_RL)
        restrict(logprobs_RV, alive, self.constraints, self.forced_BL, repetition.no_repeat)
        return logprobs_RV

    def stopped(self, rows: ActiveHypotheses) -> np.ndarray:
        """Mask of the rows that end by the stop test."""
        if self.stop_test is None:
            return np.zeros(len(rows), dtype=bool)
        return np.array([self.stop_test(row) for row in rows.written_RL.tolist()], dtype=bool)


def _repeated(lists: Sequence[Sequence[int]] | None, copies: int) -> list[Sequence[int]] | None:
    return None if lists is None else [tokens for tokens in lists for _ in range(copies)]


class Search(ABC):
    """Base class of searches: ``Greedy``, ``Beam``, ``Diverse``, ``Exact``, ``Sample``, …"""

    @property
    def needs_attention(self) -> bool:
        """Whether states must record attention weights."""
        return False

    streams = False  # whether ``stream`` is supported: only without branching

    def with_decode(self, decode: Decode | None) -> Self:
        """Return the search with ``decode``, if it compares texts; else the search itself."""
        return self

    @torch.inference_mode()
    def __call__(
        self,
        state: SearchState,
        constraints: Constraints,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
        *,
        prompts: Sequence[Sequence[int]] | None = None,
        stop_test: StopTest | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each sentence, best first.

        ``prefixes`` are the tokens that each sentence's hypotheses must begin with. ``ids`` number
        the sentences, so that samples do not depend on the batch; by default from 0. Rules against
        repetition also read ``prompts``, which the state has read up to the last token. Searches
        without branching end a hypothesis, unfinished, when ``stop_test`` is true for its tokens.
        """
        ids = range(state.rows) if ids is None else ids
        return self.search(SearchBatch(state, constraints, prefixes, ids, prompts, stop_test))

    @abstractmethod
    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """Hypotheses of each sentence of a batch, best first."""

    @torch.inference_mode()
    def stream(
        self,
        state: SearchState,
        constraints: Constraints,
        ids: Sequence[int] | None = None,
        *,
        prompts: Sequence[Sequence[int]] | None = None,
        stop_test: StopTest | None = None,
    ) -> Generator["NextTokens", None, list[list[Hypothesis]]]:
        """Yield tokens as they are chosen, if the search does not branch; return the hypotheses."""
        ids = range(state.rows) if ids is None else ids
        batch = SearchBatch(state, constraints, None, ids, prompts, stop_test)
        return (yield from self.steps(batch))

    def steps(self, batch: SearchBatch) -> "TokenSteps":
        """Yield the tokens of each step, as in ``stream``."""
        raise BadInput(f"{type(self).__name__} cannot stream: its tokens are known only at its end")


class NextTokens(NamedTuple):
    """Next tokens of the hypotheses ``rows``, which are numbered by sentence; EOS included."""

    rows: list[int]
    tokens: list[int]


TokenSteps = Generator[NextTokens, None, list[list[Hypothesis]]]


def run(steps: TokenSteps) -> list[list[Hypothesis]]:
    """Run a stream to its end; return its hypotheses."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def feed(state: SearchState, tokens_R: np.ndarray) -> Tensor:
    """Step a state with tokens on the host."""
    check_wanted()
    return state.step(torch.from_numpy(tokens_R).to(state.device))


def select_rows(state: SearchState, index_R: np.ndarray) -> None:
    """Select rows of a state by indices on the host, unless nothing changes."""
    if not np.array_equal(index_R, np.arange(state.rows)):
        state.select_rows(torch.from_numpy(index_R).to(state.device))


def to_host(logprobs: Tensor) -> np.ndarray:
    """Copy log-probabilities to the host; NaN raises an error, -inf marks a forbidden token."""
    values = logprobs.cpu().numpy()
    if np.isnan(values).any():
        raise FloatingPointError("the model's log-probabilities are not numbers")
    return values


@torch.inference_mode()
def score(
    state: SearchState, targets: Sequence[Sequence[int]], constraints: Constraints
) -> list[list[float]]:
    """Log-probabilities of the tokens of each target, and of EOS.

    Only BOS and EOS of ``constraints`` are used: targets may have any length and any token.
    """
    if len(targets) != state.rows:
        raise ValueError(f"{len(targets)} targets for {state.rows} sentences")
    target_BL = table([[*target, constraints.eos] for target in targets])
    scores_BL = np.zeros(target_BL.shape)
    sentence_R = np.arange(len(targets))
    last_R = constraints.bos_of(len(targets))
    for at in range(target_BL.shape[1]):
        going = np.flatnonzero(target_BL[sentence_R, at] >= 0)
        select_rows(state, going)
        sentence_R = sentence_R[going]
        logprobs_RV = feed(state, last_R[going])
        last_R = target_BL[sentence_R, at]
        scores_BL[sentence_R, at] = to_host(logprobs_RV[np.arange(len(last_R)), last_R])
    return [row[: len(target) + 1].tolist() for row, target in zip(scores_BL, targets, strict=True)]


MEANS = ("mean of probabilities", "mean of log-probabilities")


@dataclass(frozen=True)
class Ensemble(SearchState):
    """Ensemble of states of models with one vocabulary, opened on the same sentences.

    The mean of log-probabilities (geometric mean) is normalised again.
    """

    states: Sequence[SearchState]
    how: Literal["mean of probabilities", "mean of log-probabilities"] = "mean of probabilities"

    def __post_init__(self) -> None:
        if not self.states:
            raise BadInput("an ensemble needs at least one model")
        if self.how not in MEANS:
            raise BadInput(
                f"the mean of an ensemble must be {' or '.join(MEANS)}, not {self.how!r}"
            )
        if len({state.rows for state in self.states}) > 1:
            raise ValueError("the states of an ensemble have different numbers of rows")

    @property
    def rows(self) -> int:
        return self.states[0].rows

    @property
    def device(self) -> torch.device:
        return self.states[0].device

    def step(self, tokens_R: Tensor) -> Tensor:
        each = torch.stack([state.step(tokens_R) for state in self.states])
        if self.how == "mean of log-probabilities":
            return each.mean(0).log_softmax(-1)
        return each.logsumexp(0) - math.log(len(self.states))

    def select_rows(self, index_R: Tensor) -> None:
        for state in self.states:
            state.select_rows(index_R)
