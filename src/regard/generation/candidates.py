"""Candidates for the next token: a top-k with defined ties, and the rules of CUDA graphs."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from regard.generation.constraints import Constraints, Repetition
from regard.layers.kernels.few_rows import jit, triton

if triton is not None:
    import triton.language as tl

BLOCK = 64
WIDEST, MOST = 65_536, 16  # largest row and count of the kernel


def topk(logprobs_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and indices of the ``count`` highest float32 entries <= 0 of each row, highest first.

    Ties go to the lower index, on every device and in every batch. In a long row the entries lie in
    the ``count`` blocks with the highest maxima (or after the last whole block), and computing
    maxima is limited by memory bandwidth only.
    """
    R, V = logprobs_RV.shape
    lean_V, index_V = _lean(V, logprobs_RV.device)
    if count * BLOCK >= V:
        index = index_V.expand(R, V)
    else:
        whole = V - V % BLOCK
        maxima = logprobs_RV[:, :whole].unflatten(1, (-1, BLOCK)).amax(-1)
        blocks = (maxima * lean_V[: maxima.shape[1]]).topk(count).indices
        index = torch.add(index_V[:BLOCK], blocks[:, :, None], alpha=BLOCK).flatten(1)
        if whole < V:
            index = torch.cat([index, index_V[whole:].expand(R, -1)], dim=1)
    values = logprobs_RV.gather(1, index)
    order = (values * lean_V[index]).topk(min(count, V)).indices
    return values.gather(1, order), index.gather(1, order)


def topk_of_logits(logits_RV: Tensor, bias_V: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``topk`` of log softmax plus ``bias_V`` (0, or -inf for forbidden tokens)."""
    R, V = logits_RV.shape
    count = min(count, V)
    if triton is None or not logits_RV.is_cuda or V > WIDEST or count > MOST:
        return topk(torch.log_softmax(logits_RV.float(), dim=-1) + bias_V, count)
    values = torch.empty(R, count, device=logits_RV.device)
    tokens = torch.empty(R, count, device=logits_RV.device, dtype=torch.long)
    wide = triton.next_power_of_2(V)
    sizes = logits_RV.stride(0), V, count, wide
    _highest[(R,)](
        logits_RV, bias_V, values, tokens, *sizes, num_warps=min(32, max(4, wide // 1024))
    )
    return values, tokens


@jit
def _highest(
    logits, bias, values, tokens, stride, vocab, count: "tl.constexpr", wide: "tl.constexpr"
):
    """Kernel with one program per row, which stays in registers."""
    row, index = tl.program_id(0), tl.arange(0, wide)
    mask = index < vocab
    x = tl.load(logits + row.to(tl.int64) * stride + index, mask=mask, other=float("-inf"))
    x = x.to(tl.float32)
    top = tl.max(x, 0)
    x = x - top - tl.log(tl.sum(tl.exp(x - top), 0))
    x += tl.load(bias + index, mask=mask, other=float("-inf"))
    for rank in tl.static_range(count):
        best = tl.max(x, 0)
        token = tl.min(tl.where(x == best, index, vocab - 1), 0)
        tl.store(values + row * count + rank, best)
        tl.store(tokens + row * count + rank, token.to(tl.int64))
        x = tl.where(index == token, float("-inf"), x)


@cache  # never evicted: captured graphs read these tensors
def _lean(V: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Factors that turn log-probabilities into distinct sort keys, and all indices.

    A float64 has 29 bits more than a float32; they hold the index.
    """
    index_V = torch.arange(V, device=device)
    return 1 + index_V.double() * 2.0**-50, index_V


def place(groups: np.ndarray) -> np.ndarray:
    """Index of each entry within its group, from 0; ``groups`` is sorted."""
    sizes = np.bincount(groups)
    return np.arange(len(groups)) - (sizes.cumsum() - sizes)[groups]


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
