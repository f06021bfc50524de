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
from regard.generation.constraints import Constraints, Repetition, TokenRules, table
from regard.generation.hypothesis import Hypothesis, StopTest
from regard.generation.logit_bias import LogitBias
from regard.text.continuation import Decode

Selector = TypeVar("Selector")
AHEAD = 3  # steps that the host launches before it polls whether the first of them was the last
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

    captures: bool = False  # whether ``graphed`` may return a decoder

    def graphed(
        self, copies: int, key: Hashable, selector: NewSelector[Selector]
    ) -> "DeviceDecoder[Selector] | None":
        """Decoder whose steps are CUDA graphs, with ``copies`` rows per sentence, or None.

        ``selector(sentences, steps, vocab, device)`` makes its token selector.
        """
        return None


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
        select_rows(self.state, torch.from_numpy(each))
        return replace(
            self,
            constraints=self.constraints.repeated(len(self.ids), copies),
            prefixes=_repeated(self.prefixes, copies),
            ids=[self.ids[i] for i in each.tolist()],
            prompts=_repeated(self.prompts, copies),
        )

    @property
    def first_tokens(self) -> Tensor:
        """First token fed, for each sentence."""
        return torch.from_numpy(self.constraints.bos_of(len(self.ids))).to(self.state.device)

    def rules(self, repetition: Repetition, bias: LogitBias | None = None) -> TokenRules:
        """Rules for the next tokens of one hypothesis per sentence."""
        limits = self.constraints, self.longest_B, repetition, bias
        return TokenRules(*limits, self.forced_BL, self.prompts, self.state.device)


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


def feed(state: SearchState, tokens_R: Tensor) -> Tensor:
    """Step a state, unless its results are no longer wanted."""
    check_wanted()
    return state.step(tokens_R)


def select_rows(state: SearchState, index_R: Tensor) -> None:
    """Select rows of a state, unless nothing changes."""
    every_R = torch.arange(state.rows, device=index_R.device)
    if len(index_R) != len(every_R) or not torch.equal(index_R, every_R):
        state.select_rows(index_R.to(state.device))


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
        select_rows(state, torch.from_numpy(going))
        sentence_R = sentence_R[going]
        logprobs_RV = feed(state, torch.from_numpy(last_R[going]).to(state.device))
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
