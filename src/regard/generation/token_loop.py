"""Search without branching: every row selects its next token until it ends.

On the device, with fixed shapes, every step is one CUDA graph and writes its tokens into a table.
The host reads them a few steps later, yields them, and ends the search when every row has ended.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.generation.constraints import Constraints, Repetition
from regard.generation.device_rules import AHEAD, AsyncCopy, DeviceRules
from regard.generation.hypothesis import Hypothesis, by_sentence
from regard.generation.logit_bias import LogitBias
from regard.generation.step import (
    DeviceDecoder,
    NextTokens,
    Search,
    SearchBatch,
    TokenSteps,
    feed,
    run,
    select_rows,
    to_host,
)

NONE = -1  # in place of a token, of a row that has ended


class TokenChoice(NamedTuple):
    """Choice of the most probable token, or a draw by temperature, top_k (0: all) and top_p."""

    is_drawn: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


class TokenSearch(Search):
    """Base class of searches that extend ``copies`` hypotheses per sentence token by token.

    Hypotheses are numbered by sentence. A hypothesis that cannot be continued is unfinished.
    """

    streams = True
    no_repeat: int
    repetition_penalty: float
    logit_bias: LogitBias

    @property
    @abstractmethod
    def copies(self) -> int:
        """Number of hypotheses per sentence."""

    @property
    def repetition(self) -> Repetition:
        """Rules against repetition."""
        return Repetition(self.no_repeat, self.repetition_penalty)

    @property
    def selection(self) -> Self:
        """Search without settings that may differ between batches: the key of a CUDA graph."""
        return self

    @property
    def choice(self) -> TokenChoice | None:
        """The choice of tokens, for rows of several searches at once; None: only ``choose``."""
        return None

    @abstractmethod
    def draws(self, ids: Sequence[int], steps: int) -> np.ndarray:
        """Random numbers (hypotheses, steps) for ``choose``; zeros if the search uses none."""

    @abstractmethod
    def choose(self, logprobs_RV: Tensor, draws_R: Tensor) -> Tensor:
        """Choose the next token of each row; shapes depend only on the shapes of the arguments."""

    @abstractmethod
    def probabilities(self, logprobs_RV: Tensor) -> Tensor:
        """Probability that ``choose`` selects each token, (R, V)."""

    def select(
        self, rules: DeviceRules, logits_RV: Tensor, n: Tensor, draws_R: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Log-probability and id of the next token of each row on the device, in step ``n``."""
        logprobs_RV = rules.logprobs(logits_RV, n)
        token_R = self.choose(logprobs_RV, draws_R)
        return logprobs_RV.gather(1, token_R[:, None])[:, 0], token_R

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        return run(self.steps(batch))

    def steps(self, batch: SearchBatch) -> TokenSteps:
        on_device = steps_on_device(self, batch)
        return (yield from self._steps_on_host(batch) if on_device is None else on_device)

    def _steps_on_host(self, batch: SearchBatch) -> TokenSteps:
        """Yield the tokens of each step; return ``copies`` hypotheses for each sentence."""
        rows = TokenRows(self, batch)
        while len(rows):
            logprobs_RV = feed(batch.state, rows.last_R)
            tokens, going = rows.choose(logprobs_RV, batch.state.normaliser)
            yield tokens
            if len(rows):
                select_rows(batch.state, going)
        return rows.hypotheses()


class TokenRows:
    """Hypotheses of a token search between two steps of a state, which may have other rows too."""

    def __init__(self, search: TokenSearch, batch: SearchBatch):
        self.search, self.batch = search, batch.repeated(search.copies)
        self.alive = self.batch.initial_hypotheses()
        steps = int(self.batch.longest_B.max(initial=0))
        self.draws_RL = search.draws(batch.ids, steps)
        self.results: dict[int, Hypothesis] = {}

    def __len__(self) -> int:
        return len(self.alive)

    @property
    def last_R(self) -> np.ndarray:
        """Tokens to be fed in the next step."""
        return self.alive.last_R

    def choose(
        self, logprobs_RV: Tensor, normaliser: Callable[[], Tensor]
    ) -> tuple[NextTokens, np.ndarray]:
        """Choose the next token of each row; also the rows that go on, by their indices."""
        batch, alive = self.batch, self.alive
        rules = self.search.repetition, self.search.logit_bias
        logprobs_RV = batch.restricted(logprobs_RV, normaliser, alive, *rules)
        draws_R = torch.from_numpy(self.draws_RL[alive.sentence_R, alive.length])
        token_R = self.search.choose(logprobs_RV, draws_R.to(logprobs_RV.device))
        logprob_R = to_host(logprobs_RV.gather(1, token_R[:, None])[:, 0])
        grown = alive.grow(np.arange(len(alive)), token_R.cpu().numpy(), logprob_R)
        stuck = ~np.isfinite(logprob_R)
        ended = batch.constraints.is_end(grown.last_R) & ~stuck
        at_limit = batch.longest_B[grown.sentence_R] == grown.length
        over = stuck | ended | at_limit | batch.stopped(grown)
        for row in np.flatnonzero(over).tolist():
            last, number = alive if stuck[row] else grown, int(alive.sentence_R[row])
            self.results[number] = last.hypothesis(row, finished=bool(ended[row]))
        selected = np.flatnonzero(~stuck)
        tokens = NextTokens(grown.sentence_R[selected].tolist(), grown.last_R[selected].tolist())
        going = np.flatnonzero(~over)
        self.alive = grown.take(going)
        return tokens, going

    def drop(self, sentence: int) -> np.ndarray:
        """Drop the hypotheses of a sentence; the rows that go on, by their indices."""
        going = np.flatnonzero(self.alive.sentence_R // self.search.copies != sentence)
        self.alive = self.alive.take(going)
        return going

    def has_ended(self, sentence: int) -> bool:
        """Whether all hypotheses of a sentence have ended."""
        return all(number in self.results for number in self._numbers(sentence))

    def nbest(self, sentence: int) -> list[Hypothesis]:
        """Hypotheses of a sentence that has ended, the most probable first."""
        results = [self.results[number] for number in self._numbers(sentence)]
        return by_sentence(results, self.search.copies)[0]

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Hypotheses of all sentences, the most probable first."""
        return [self.nbest(n) for n in range(len(self.batch.ids) // self.search.copies)]

    def _numbers(self, sentence: int) -> range:
        return range(sentence * self.search.copies, (sentence + 1) * self.search.copies)


def steps_on_device(search: TokenSearch, batch: SearchBatch) -> TokenSteps | None:
    """Steps of a search as CUDA graphs; None if that is not possible.

    Prefixes, repeated n-grams and changed logits need the host.
    """
    needs_host = batch.prefixes is not None or search.repetition.no_repeat or search.logit_bias
    if needs_host or not batch.constraints.has_one_shortest:
        return None
    constraints = batch.constraints
    # These fields are data of a batch.
    key = (search.selection, replace(constraints, bos=0, longest=1, forbidden=()))
    selector = partial(DeviceTokens, search.selection, constraints, search.copies)
    decoder = batch.state.graphed(search.copies, key, selector)
    return None if decoder is None else _steps(search, batch, decoder)


def _steps(
    search: TokenSearch, batch: SearchBatch, decoder: "DeviceDecoder[DeviceTokens]"
) -> TokenSteps:
    sentences, steps = len(batch.ids), int(batch.longest_B.max(initial=0))
    decoder.feed(torch.from_numpy(batch.constraints.bos_of(sentences)))
    decoder.selector.start(batch, search.draws(batch.ids, steps))
    host_tokens = HostTokens(batch, search.copies)
    copies: deque[AsyncCopy] = deque()
    for step in range(steps + AHEAD):
        if step < steps:
            decoder.step()
            copies.append(AsyncCopy(decoder.selector.latest_R))
        if step >= AHEAD and copies:
            yield host_tokens.add(copies.popleft().read().numpy())
            if not host_tokens.live:
                break
    return by_sentence(host_tokens.hypotheses(decoder.selector.logprob_LR), search.copies)


class HostTokens:
    """Host-side copy of the tokens of all rows, and the rows that have not ended."""

    def __init__(self, batch: SearchBatch, copies: int):
        self.batch, self.longest_R = batch, np.repeat(batch.longest_B, copies).tolist()
        self.tokens: list[list[int]] = [[] for _ in self.longest_R]
        self.live = list(range(len(self.tokens)))

    def add(self, latest_R: np.ndarray) -> NextTokens:
        """Add one more token to each row that has not ended."""
        rows = [row for row in self.live if latest_R[row] != NONE]
        new = latest_R[rows].tolist()
        for row, token in zip(rows, new, strict=True):
            self.tokens[row].append(token)
        self.live = [row for row in rows if not self._has_ended(row)]
        return NextTokens(rows, new)

    def _has_ended(self, row: int) -> bool:
        tokens, test = self.tokens[row], self.batch.stop_test
        at_end = self._at_eos(tokens) or len(tokens) == self.longest_R[row]
        return at_end or (test is not None and test(tokens))

    def _at_eos(self, tokens: list[int]) -> bool:
        return bool(tokens) and tokens[-1] in self.batch.constraints.ends

    def hypotheses(self, logprob_LR: Tensor) -> list[Hypothesis]:
        """Hypotheses of all rows, with the log-probabilities of their tokens."""
        steps = max(map(len, self.tokens), default=0)
        logprob_RL = logprob_LR[:steps, : len(self.tokens)].double().T.cpu().numpy()
        return [self._hypothesis(*pair) for pair in zip(self.tokens, logprob_RL, strict=True)]

    def _hypothesis(self, tokens: list[int], logprob_L: np.ndarray) -> Hypothesis:
        logprobs = logprob_L[: len(tokens)]
        if np.isnan(logprobs).any():
            raise FloatingPointError("the model's log-probabilities are not numbers")
        finished, total = self._at_eos(tokens), float(logprobs.sum())
        text = tokens[:-1] if finished else tokens
        return Hypothesis(tuple(text), total, total, tuple(logprobs.tolist()), finished)


class DeviceTokens:
    """Token selector with tables for ``sentences`` × ``copies`` rows and ``capacity`` steps."""

    def __init__(
        self,
        search: TokenSearch,
        constraints: Constraints,
        copies: int,
        sentences: int,
        capacity: int,
        vocab: int,
        device: torch.device,
    ):
        def table(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        rows = sentences * copies
        self.search, self.constraints, self.copies = search, constraints, copies
        self.rules = DeviceRules(constraints, search.repetition, rows, vocab, device)
        self.n, self.longest_R = table(1), table(rows)
        self.ended_R, self.latest_R = table(rows, dtype=torch.bool), table(rows)
        self.logprob_LR = table(capacity, rows, dtype=torch.float32)
        self.draws_LR = table(capacity, rows, dtype=torch.float64)

    def start(self, batch: SearchBatch, draws: np.ndarray) -> None:
        """Start a batch; unused rows have ended from the start."""
        rows, steps = draws.shape
        longest_R = torch.from_numpy(np.repeat(batch.longest_B, self.copies))
        self.longest_R[:rows] = longest_R.to(self.longest_R.device)
        self.draws_LR[:steps, :rows] = torch.tensor(draws.T).to(self.draws_LR.device)
        self.ended_R.fill_(True)
        self.ended_R[:rows] = False
        self.n.zero_()
        self.rules.start(batch.constraints.forbidden, batch.prompts, self.copies)

    def select(self, logits_RV: Tensor) -> tuple[Tensor, None]:
        """Select the next token of each row; the second result is None, as rows stay in place."""
        draws_R = self.draws_LR.index_select(0, self.n)[0]
        logprob_R, token_R = self.search.select(self.rules, logits_RV, self.n, draws_R)
        at_limit_R = self.longest_R == self.n + 1
        if self.constraints.must_end:
            token_R = token_R.masked_fill(at_limit_R, self.constraints.eos)
            logprob_R = logprob_R.masked_fill(at_limit_R, 0.0)
        self.ended_R |= logprob_R == -torch.inf  # no token may follow
        self.latest_R.copy_(token_R.masked_fill(self.ended_R, NONE))
        self.ended_R |= self.constraints.is_end(token_R) | at_limit_R
        self.logprob_LR.index_copy_(0, self.n, logprob_R[None])
        self.rules.advance(token_R)
        self.n += 1
        return token_R, None
