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

from regard.core.pytree import AsyncCopy
from regard.generation.candidates import DeviceRules
from regard.generation.constraints import Constraints, Repetition
from regard.generation.hypothesis import Hypothesis, RowTokens, by_sentence
from regard.generation.logit_bias import LogitBias
from regard.generation.step import (
    AHEAD,
    DeviceDecoder,
    NextTokens,
    Search,
    SearchBatch,
    TokenSteps,
    feed,
    run,
    select_rows,
)


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
        on_device = steps_on_device(self, batch) if batch.state.captures else None
        return (yield from self._steps_on_host(batch) if on_device is None else on_device)

    def _steps_on_host(self, batch: SearchBatch) -> TokenSteps:
        """Yield the tokens of each step; return ``copies`` hypotheses for each sentence."""
        rows = TokenRows(self, batch)
        while len(rows):
            logprobs_RV = feed(batch.state, rows.token_R)
            tokens, going_R = rows.extend(logprobs_RV, batch.state.normaliser)
            yield tokens
            if len(rows):
                select_rows(batch.state, going_R)
        return rows.hypotheses()


class HostRows:
    """Hypotheses of a batch on the host, ``copies`` of each sentence; ``live`` ones go on."""

    def __init__(self, batch: SearchBatch, copies: int):
        ends, self.copies = batch.constraints.ends, copies
        longest_R = np.repeat(batch.longest_B, copies).tolist()
        self.rows = [RowTokens(longest, ends, batch.stop_test) for longest in longest_R]
        self.live = list(range(len(self.rows)))

    def add(self, latest_R2: np.ndarray) -> NextTokens:
        """Add a token with its log-probability to each live hypothesis; return the tokens."""
        rows, tokens = list[int](), list[int]()
        for number, (token, logprob) in zip(self.live, latest_R2.tolist(), strict=True):
            if self.rows[number].add(int(token), logprob):
                rows.append(number)
                tokens.append(int(token))
        self.live = [number for number in self.live if not self.rows[number].has_ended]
        return NextTokens(rows, tokens)

    def has_ended(self, sentence: int) -> bool:
        """Whether all hypotheses of a sentence have ended."""
        return all(row.has_ended for row in self._rows(sentence))

    def nbest(self, sentence: int) -> list[Hypothesis]:
        """Hypotheses of a sentence, the most probable first."""
        hypotheses = [row.hypothesis for row in self._rows(sentence)]
        return by_sentence(hypotheses, self.copies)[0]

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Hypotheses of all sentences, the most probable first."""
        return [self.nbest(n) for n in range(len(self.rows) // self.copies)]

    def _rows(self, sentence: int) -> list[RowTokens]:
        return self.rows[sentence * self.copies : (sentence + 1) * self.copies]


class TokenRows(HostRows):
    """Rows of a token search between two steps of a state, which may have other rows too."""

    def __init__(self, search: TokenSearch, batch: SearchBatch):
        super().__init__(batch, search.copies)
        self.search, self.n, repeated = search, 0, batch.repeated(search.copies)
        self.rules = repeated.rules(search.repetition, search.logit_bias)
        self.token_R = repeated.first_tokens
        self.number_R = torch.arange(len(self.rows), device=self.token_R.device)
        draws_RL = search.draws(batch.ids, int(batch.longest_B.max(initial=0)))
        self.draws_RL = torch.from_numpy(draws_RL).to(self.token_R.device)

    def __len__(self) -> int:
        return len(self.token_R)

    def extend(
        self, logprobs_RV: Tensor, normaliser: Callable[[], Tensor]
    ) -> tuple[NextTokens, Tensor]:
        """Choose the next token of each row; also the rows that go on, by their indices."""
        logprobs_RV = self.rules.logprobs(logprobs_RV, normaliser, self.number_R, self.n)
        self.token_R = self.search.choose(logprobs_RV, self.draws_RL[self.number_R, self.n])
        logprob_R = logprobs_RV.gather(1, self.token_R[:, None])[:, 0]
        self.rules.advance(self.token_R)
        numbers, self.n = self.live, self.n + 1
        latest_R2 = torch.stack([self.token_R.double(), logprob_R.double()], 1)
        tokens = self.add(latest_R2.cpu().numpy())
        return tokens, self._select(np.flatnonzero(np.isin(numbers, self.live)))

    def drop(self, sentence: int) -> Tensor:
        """Drop the hypotheses of a sentence; return the rows that go on, by their indices."""
        going = [at for at, number in enumerate(self.live) if number // self.copies != sentence]
        self.live = [self.live[at] for at in going]
        return self._select(np.array(going, dtype=np.int64))

    def clear(self) -> None:
        """Drop all hypotheses."""
        self.live = []
        self._select(np.zeros(0, dtype=np.int64))

    def _select(self, going: np.ndarray) -> Tensor:
        if len(going) < len(self):
            index_R = torch.from_numpy(going).to(self.token_R.device)
            self.token_R, self.number_R = self.token_R[index_R], self.number_R[index_R]
            self.rules.select_rows(index_R)
        return torch.from_numpy(going)


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
    rows, copies = HostRows(batch, search.copies), deque[AsyncCopy]()
    for step in range(steps + AHEAD):
        if step < steps:
            decoder.step()
            copies.append(AsyncCopy(decoder.selector.latest_R2))
        if step >= AHEAD and copies:
            yield rows.add(copies.popleft().read().numpy()[rows.live])
            if not rows.live:
                break
    return rows.hypotheses()


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
        self.latest_R2 = table(rows, 2, dtype=torch.float64)  # token and log-probability
        self.draws_LR = table(capacity, rows, dtype=torch.float64)

    def start(self, batch: SearchBatch, draws: np.ndarray) -> None:
        """Start a batch; rows that it does not use select tokens that nobody reads."""
        rows, steps = draws.shape
        longest_R = torch.from_numpy(np.repeat(batch.longest_B, self.copies))
        self.longest_R[:rows] = longest_R.to(self.longest_R.device)
        self.draws_LR[:steps, :rows] = torch.tensor(draws.T).to(self.draws_LR.device)
        self.n.zero_()
        self.rules.start(batch.constraints.forbidden, batch.prompts, self.copies)

    def select(self, logits_RV: Tensor) -> tuple[Tensor, None]:
        """Select the next token of each row; the second result is None, as rows stay in place."""
        draws_R = self.draws_LR.index_select(0, self.n)[0]
        logprob_R, token_R = self.search.select(self.rules, logits_RV, self.n, draws_R)
        if self.constraints.must_end:
            at_limit_R = self.longest_R == self.n + 1
            token_R = token_R.masked_fill(at_limit_R, self.constraints.eos)
            logprob_R = logprob_R.masked_fill(at_limit_R, 0.0)
        self.latest_R2[:, 0] = token_R
        self.latest_R2[:, 1] = logprob_R
        self.rules.advance(token_R)
        self.n += 1
        return token_R, None
