"""Search without branching: every row selects its next token until it ends."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.search.device.device_rules import DeviceRules
from regard.search.device.device_tokens import steps_on_device
from regard.search.hypothesis import Hypothesis, by_sentence
from regard.search.rules.repetition import Repetition
from regard.search.step import (
    NextTokens,
    Search,
    SearchBatch,
    TokenSteps,
    run,
    select_rows,
    to_host,
)


class TokenSearch(Search):
    """A search that follows ``copies`` hypotheses for each sentence, one token at a time.

    They are numbered by sentence. One that cannot be continued is unfinished.
    """

    @property
    def streams(self) -> bool:
        """It does not branch."""
        return True

    @property
    @abstractmethod
    def copies(self) -> int:
        """Hypotheses of a sentence."""

    @property
    @abstractmethod
    def repetition(self) -> Repetition:
        """The rules against repetition."""

    @property
    def selection(self) -> Self:
        """The search without what differs between its batches: the key of a captured graph."""
        return self

    @abstractmethod
    def draws(self, ids: Sequence[int], steps: int) -> np.ndarray:
        """(hypotheses, steps): the random numbers of each hypothesis, if it needs any."""

    @abstractmethod
    def choose(self, logprobs_RV: Tensor, draws_R: Tensor) -> Tensor:
        """The next token of each row; the shapes are fixed by those of the arguments."""

    @abstractmethod
    def chances(self, logprobs_RV: Tensor) -> Tensor:
        """chances_RV: the probability that ``choose`` takes each token."""

    def select(
        self, rules: DeviceRules, logits_RV: Tensor, n: Tensor, draws_R: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same on the device, in step ``n`` from 0; with the log-probability of the token."""
        logprobs_RV = rules.logprobs(logits_RV, n)
        token_R = self.choose(logprobs_RV, draws_R)
        return logprobs_RV.gather(1, token_R[:, None])[:, 0], token_R

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """For each sentence its hypotheses, the most probable first."""
        return run(self.steps(batch))

    def steps(self, batch: SearchBatch) -> TokenSteps:
        """On the device where the state and the rules allow it."""
        on_device = steps_on_device(self, batch)
        return (yield from self._steps_on_host(batch) if on_device is None else on_device)

    def _steps_on_host(self, batch: SearchBatch) -> TokenSteps:
        """``copies`` hypotheses for each sentence, the most probable first."""
        batch = batch.repeated(self.copies)
        alive, repetition = batch.begin(), self.repetition
        drawn = self.draws(batch.ids[:: self.copies], int(batch.longest_B.max(initial=0)))
        results: dict[int, Hypothesis] = {}
        while len(alive):
            logprobs_RV = batch.step(alive, repetition)
            draws_R = torch.from_numpy(drawn[alive.sentence_R, alive.length])
            token_R = self.choose(logprobs_RV, draws_R.to(logprobs_RV.device))
            logprob_R = to_host(logprobs_RV.gather(1, token_R[:, None])[:, 0])
            grown = alive.grow(np.arange(len(alive)), token_R.cpu().numpy(), logprob_R)
            stuck = ~np.isfinite(logprob_R)
            ended = (grown.last_R == batch.constraints.eos) & ~stuck
            at_limit = batch.longest_B[grown.sentence_R] == grown.length
            over = stuck | ended | at_limit | batch.stopped(grown)
            for row in np.flatnonzero(over).tolist():
                last = alive if stuck[row] else grown
                number = int(alive.sentence_R[row])
                results[number] = last.hypothesis(row, finished=bool(ended[row]))
            selected = np.flatnonzero(~stuck)
            yield NextTokens(grown.sentence_R[selected].tolist(), grown.last_R[selected].tolist())
            going = np.flatnonzero(~over)
            alive = grown.take(going)
            if len(alive):
                select_rows(batch.state, going)
        return by_sentence([results[number] for number in range(len(results))], self.copies)
