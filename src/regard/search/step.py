"""The protocol between decoding and search: a state that gives the next distribution."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.search.constraints import Constraints, Repetition, restrict, table
from regard.search.hypothesis import ActiveHypotheses, Hypothesis
from regard.text.continuation import Decode

Selector = TypeVar("Selector")
NewSelector = Callable[[int, int, int, torch.device], Selector]


class DeviceDecoder(Protocol[Selector]):
    """A decoder whose ``selector`` chooses the next tokens on the device."""

    selector: Selector

    @property
    def step(self) -> Callable[[], None]: ...
    def feed(self, first_B: Tensor) -> None: ...


class SearchState(Protocol):
    """A decoder between two steps: one row for each active hypothesis.

    A new state has one row per sentence (source or prompt), and the first tokens fed are BOS or
    the last tokens of the prompts. Classes that inherit from it need no more than its first four
    members.
    """

    @property
    def rows(self) -> int:
        """R, the active rows."""

    @property
    def device(self) -> torch.device:
        """Where tokens and indices must lie."""

    def step(self, tokens_R: Tensor) -> Tensor:
        """Feed one token per row; float32 log-probabilities_RV of the next token.

        The search may overwrite the tensor, until the next step.
        """

    def select_rows(self, index_R: Tensor) -> None:
        """Drop, repeat or reorder rows: row i becomes what row ``index_R[i]`` was."""

    def attention(self) -> Tensor:
        """weights_RS of the last step, over the source; NaN beyond a row's own source."""
        raise BadInput("a coverage penalty needs attention weights, and this model gives none")

    def normaliser(self) -> Tensor:
        """(R,): the logits of the last step minus its log-probabilities; 0 if there are none."""
        return torch.zeros(self.rows, device=self.device)

    def graphed(
        self, copies: int, key: Hashable, selector: NewSelector[Selector]
    ) -> "DeviceDecoder[Selector] | None":
        """A decoder whose steps are CUDA graphs, with ``copies`` rows per sentence; None: none.

        ``selector`` makes its token selector, of sentences, steps, vocabulary and device.
        """
        return None


StopTest = Callable[[Sequence[int]], bool]
"""Whether a hypothesis of these tokens ends here, though EOS has not come."""


@dataclass(frozen=True)
class SearchBatch:
    """The sentences of a new state, their constraints, forced prefixes, ids and prompts."""

    state: SearchState
    constraints: Constraints
    prefixes: Sequence[Sequence[int]] | None
    ids: Sequence[int]
    prompts: Sequence[Sequence[int]] | None = None
    stop_test: StopTest | None = None

    @cached_property
    def longest_B(self) -> np.ndarray:
        """The most tokens a hypothesis may have."""
        return self.constraints.longest_of(len(self.ids))

    @cached_property
    def forced_BL(self) -> np.ndarray:
        """The prefixes, -1 where nothing is forced."""
        return self.constraints.forced(self.prefixes, len(self.ids))

    def repeated(self, copies: int) -> "SearchBatch":
        """``copies`` of each sentence, one after the other, as rows of the same state."""
        each = np.repeat(np.arange(len(self.ids)), copies)
        select_rows(self.state, each)
        return replace(
            self,
            constraints=self.constraints.repeated(len(self.ids), copies),
            prefixes=_repeated(self.prefixes, copies),
            ids=[self.ids[i] for i in each.tolist()],
            prompts=_repeated(self.prompts, copies),
        )

    def begin(self) -> ActiveHypotheses:
        """One empty hypothesis per sentence."""
        if self.prompts is None:
            return ActiveHypotheses.begin(self.constraints.bos_of(len(self.ids))[:, None])
        widest = max(map(len, self.prompts), default=0) + 1
        return ActiveHypotheses.begin(
            np.array([[-1] * (widest - len(prompt)) + [*prompt] for prompt in self.prompts])
        )

    def step(self, alive: ActiveHypotheses, repetition: Repetition) -> Tensor:
        """Feed the last tokens; log-probabilities_RV of the next, -inf where it is forbidden."""
        logprobs_RV = feed(self.state, alive.last_R)
        if repetition.penalises:
            logits = (self.state.normaliser(), alive.seen_RL)
            logprobs_RV = repetition.logprobs(logprobs_RV, *logits)
        restrict(logprobs_RV, alive, self.constraints, self.forced_BL, repetition.no_repeat)
        return logprobs_RV

    def stopped(self, rows: ActiveHypotheses) -> np.ndarray:
        """Which rows end by the stop test."""
        if self.stop_test is None:
            return np.zeros(len(rows), dtype=bool)
        return np.array([self.stop_test(row) for row in rows.written_RL.tolist()], dtype=bool)


def _repeated(lists: Sequence[Sequence[int]] | None, copies: int) -> list[Sequence[int]] | None:
    return None if lists is None else [one for one in lists for _ in range(copies)]


class Search(ABC):
    """From a state to hypotheses: ``Greedy``, ``Beam``, ``Diverse``, ``Exact``, ``Sample``, …"""

    @property
    def needs_attention(self) -> bool:
        """Whether its states must give attention weights."""
        return False

    @property
    def streams(self) -> bool:
        """Whether it can ``stream``: it does not branch."""
        return False

    def with_decode(self, decode: Decode | None) -> Self:
        """The same; if it compares texts, those that ``decode`` makes, unless it has its own."""
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
        """For each sentence its hypotheses, best first.

        ``prefixes`` are the tokens that each sentence's hypotheses must begin with. ``ids`` number
        the sentences, so that samples do not depend on the batch; by default from 0. The tokens of
        ``prompts``, which the state has read up to the last, count as repeated. Searches without
        branching end a hypothesis, unfinished, where ``stop_test`` is true of its tokens.
        """
        return self.search(_batch(state, constraints, prefixes, ids, prompts, stop_test))

    @abstractmethod
    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """See ``__call__``."""

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
        """Tokens as they come, if the search does not branch; it returns what a call does."""
        return (yield from self.steps(_batch(state, constraints, None, ids, prompts, stop_test)))

    def steps(self, batch: SearchBatch) -> "TokenSteps":
        """See ``stream``."""
        raise BadInput(f"{type(self).__name__} cannot stream: its tokens are known at its end")


class NextTokens(NamedTuple):
    """One more token of some hypotheses, EOS included; they are numbered by sentence."""

    numbers: list[int]
    tokens: list[int]


TokenSteps = Generator[NextTokens, None, list[list[Hypothesis]]]


def run(steps: TokenSteps) -> list[list[Hypothesis]]:
    """What a stream returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _batch(
    state: SearchState,
    constraints: Constraints,
    prefixes: Sequence[Sequence[int]] | None,
    ids: Sequence[int] | None,
    prompts: Sequence[Sequence[int]] | None,
    stop_test: StopTest | None,
) -> SearchBatch:
    ids = range(state.rows) if ids is None else ids
    for name, given in {"ids": ids, "prompts": ids if prompts is None else prompts}.items():
        if len(given) != state.rows:
            raise ValueError(f"{len(given)} {name} for {state.rows} sentences")
    return SearchBatch(state, constraints, prefixes, ids, prompts, stop_test)


def feed(state: SearchState, tokens_R: np.ndarray) -> Tensor:
    """Step with tokens on the host."""
    return state.step(torch.from_numpy(tokens_R).to(state.device))


def select_rows(state: SearchState, index_R: np.ndarray) -> None:
    """Select rows by indices on the host, unless every row stays where it is."""
    if not np.array_equal(index_R, np.arange(state.rows)):
        state.select_rows(torch.from_numpy(index_R).to(state.device))


def to_host(logprobs: Tensor) -> np.ndarray:
    """Log-probabilities on the host; -inf is a forbidden token, NaN raises an error."""
    values = logprobs.cpu().numpy()
    if np.isnan(values).any():
        raise FloatingPointError("the model's log-probabilities are not numbers")
    return values


@torch.inference_mode()
def score(
    state: SearchState, targets: Sequence[Sequence[int]], constraints: Constraints
) -> list[list[float]]:
    """For each target the log-probability of each of its tokens, and then of EOS.

    Of ``constraints`` only BOS and EOS are read: targets may have any length and any token.
    """
    if len(targets) != state.rows:
        raise ValueError(f"{len(targets)} targets for {state.rows} sentences")
    wanted_BL = table([[*target, constraints.eos] for target in targets])
    found_BL = np.zeros(wanted_BL.shape)
    sentence_R = np.arange(len(targets))
    fed_R = constraints.bos_of(len(targets))
    for at in range(wanted_BL.shape[1]):
        going = np.flatnonzero(wanted_BL[sentence_R, at] >= 0)
        select_rows(state, going)
        sentence_R = sentence_R[going]
        logprobs_RV = feed(state, fed_R[going])
        fed_R = wanted_BL[sentence_R, at]
        found_BL[sentence_R, at] = to_host(logprobs_RV[np.arange(len(fed_R)), fed_R])
    return [row[: len(target) + 1].tolist() for row, target in zip(found_BL, targets, strict=True)]


MEANS = ("mean of probabilities", "mean of log-probabilities")


@dataclass(frozen=True)
class Ensemble(SearchState):
    """States of models with one vocabulary, opened on the same sentences.

    The mean of log-probabilities is normalised again: the geometric mean.
    """

    states: Sequence[SearchState]
    how: Literal["mean of probabilities", "mean of log-probabilities"] = "mean of probabilities"

    def __post_init__(self) -> None:
        if not self.states:
            raise BadInput("an ensemble needs at least one model")
        if self.how not in MEANS:
            raise BadInput(f"an ensemble averages by {' or '.join(MEANS)}, not {self.how!r}")
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
