"""Rules for next tokens with fixed shapes, as CUDA graphs need them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.generation.candidates import topk, topk_of_logits
from regard.generation.constraints import Constraints, Repetition


class DeviceRules:
    """Rules for next tokens on the device: forbidden tokens, shortest length, repetition penalty.

    Repeated n-grams and prefixes need the host.
    """

    def __init__(
        self,
        constraints: Constraints,
        rule: Repetition,
        rows: int,
        vocab: int,
        device: torch.device,
    ):
        self.constraints, self.repetition = constraints, rule
        (self.shortest,) = constraints.shortest_of(1).tolist()
        self.bias_V = torch.zeros(
            vocab, device=device
        )  # filled for each batch, as are allowed ends
        self.ends = torch.tensor(constraints.known_ends, dtype=torch.long, device=device)
        self.allowed_ends = self.bias_V[self.ends]
        self.never = torch.full_like(self.allowed_ends, -torch.inf)
        self.seen_RV: Tensor | None = None
        if rule.penalises:
            self.seen_RV = torch.zeros(rows, vocab, dtype=torch.bool, device=device)

    def start(
        self, forbidden: Sequence[int], prompts: Sequence[Sequence[int]] | None, copies: int
    ) -> None:
        """Set the forbidden tokens of a new batch, and its prompts, each for ``copies`` rows."""
        self.bias_V.zero_()
        self.bias_V[list(forbidden)] = -torch.inf
        self.allowed_ends.copy_(self.bias_V[self.ends])
        if self.seen_RV is None:
            return
        self.seen_RV.zero_()
        for number, prompt in enumerate(prompts or []):
            rows, tokens = slice(number * copies, (number + 1) * copies), torch.tensor(prompt)
            self.seen_RV[rows].index_fill_(1, tokens.to(self.seen_RV.device), True)

    def topk(self, logits_RV: Tensor, n: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Log-probabilities and ids of the most probable tokens in step ``n``, from 0."""
        if self.repetition.penalises and not self.repetition.of_logits:
            return topk(self.logprobs(logits_RV, n), count)
        logits_RV, bias_V = self._penalised(logits_RV), self._bias(n)
        if self.constraints.renormalise:
            logits_RV = logits_RV + bias_V
        return topk_of_logits(logits_RV, bias_V, count)

    def logprobs(self, logits_RV: Tensor, n: Tensor) -> Tensor:
        """All log-probabilities of step ``n``, from 0; -inf for forbidden tokens."""
        bias_V = self._bias(n)
        if self.repetition.of_logits:
            logprobs_RV = torch.log_softmax(self._penalised(logits_RV).float(), dim=-1)
        else:
            logprobs_RV = self._penalised(torch.log_softmax(logits_RV.float(), dim=-1))
        logprobs_RV = logprobs_RV + bias_V
        return logprobs_RV.log_softmax(-1) if self.constraints.renormalise else logprobs_RV

    def advance(self, tokens_R: Tensor, index_R: Tensor | None = None) -> None:
        """Replace row i by row ``index_R[i]`` with one more token."""
        if self.seen_RV is None:
            return
        if index_R is not None:
            self.seen_RV.copy_(self.seen_RV[index_R])
        self.seen_RV.scatter_(1, tokens_R[:, None], True)

    def _bias(self, n: Tensor) -> Tensor:
        if self.shortest > 1:
            early = n + 1 < self.shortest
            now = torch.where(early, self.never, self.allowed_ends)
            self.bias_V.index_copy_(0, self.ends, now)
        return self.bias_V

    def _penalised(self, scores_RV: Tensor) -> Tensor:
        if self.seen_RV is None:
            return scores_RV
        return self.repetition.penalised(scores_RV.float(), self.seen_RV)
