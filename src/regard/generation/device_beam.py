"""Beam search on the device: the decisions of ``HostBeam``, with fixed shapes.

Each sentence has ``size`` slots. Every step writes its selections into tables on the device; when
all sentences are done, the host copies the tables once and traces the best hypotheses back.
Sentences that are done continue, ignored, until all are done.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from regard.core.cancellation import check_wanted
from regard.generation.beam_rules import LENGTHS, BeamRules, Divisor
from regard.generation.candidates import place
from regard.generation.constraints import Constraints
from regard.generation.device_rules import AHEAD, AsyncCopy, DeviceRules
from regard.generation.hypothesis import Hypothesis
from regard.generation.step import SearchBatch

TOKEN, SLOT, LOGPROB, TOTAL = range(4)  # of a continuation; SLOT is the slot that it continues


def search_on_device(rules: BeamRules, batch: SearchBatch) -> list[list[Hypothesis]] | None:
    """Hypotheses of a beam search whose steps are CUDA graphs; None if that is not possible.

    Prefixes, the coverage penalty, repeated n-grams and shortest lengths that differ need the host,
    and so does a hypothesis that cannot be continued. Graphs are the same for all exponents of the
    length penalty of one sign, and for all forbidden tokens.
    """
    constraints, longest_B = batch.constraints, batch.longest_B
    needs_host = batch.prefixes is not None or rules.needs_attention or rules.no_repeat
    if needs_host or not constraints.has_one_shortest:
        return None
    fixed = replace(rules, alpha=-1.0 if rules.alpha < 0 else 1.0)
    # Alpha, and these fields, are data of a batch.
    key = (fixed, replace(constraints, bos=0, longest=1, forbidden=()))
    decoder = batch.state.graphed(rules.size, key, partial(DeviceBeam, rules, constraints))
    if decoder is None:
        return None
    decoder.feed(torch.from_numpy(constraints.bos_of(len(longest_B))))
    decoder.selector.start(rules, constraints, longest_B, batch.prompts)
    flags: deque[AsyncCopy] = deque()
    for _ in range(longest_B.max(initial=0)):
        check_wanted()
        decoder.step()
        flags.append(AsyncCopy(decoder.selector.going))
        if len(flags) > AHEAD and not flags.popleft().read():
            break
    return decoder.selector.results(longest_B)


class DeviceBeam:
    """Token selector with tables for ``sentences`` × ``size`` slots and ``capacity`` steps.

    A continuation is four numbers in a float64 tensor: (4, B, W) for one step, (L, 4, B, W) for all
    steps. A total of -inf marks an empty slot.
    """

    def __init__(
        self,
        rules: BeamRules,
        constraints: Constraints,
        sentences: int,
        capacity: int,
        vocab: int,
        device: torch.device,
    ):
        def table(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        def double(*shape: int) -> Tensor:
            return table(*shape, dtype=torch.float64)

        B, k = sentences, rules.size
        self.rules, self.constraints = rules, constraints
        self.allowed = DeviceRules(constraints, rules.repetition, B * k, vocab, device)
        self.first_row_B = torch.arange(B, device=device)[:, None] * k
        self.slot_W = torch.arange(k, dtype=torch.float64, device=device)
        self.count = k + len(constraints.ends)  # continuations of a slot
        self.certain_N = torch.full((self.count,), -torch.inf, device=device)
        self.certain_N[0] = 0.0
        self.n = table(1)
        self.longest_B, self.count_B, self.over_at_B = table(B), table(B), table(B)
        self.total_BW, self.best_BN = double(B, k), double(B, rules.beaten)
        self.going, self.stuck = table(dtype=torch.bool), table(dtype=torch.bool)
        self.alpha = double()
        self.grown, self.ended = double(capacity, 4, B, k), double(capacity, 4, B, k)

    def start(
        self,
        rules: BeamRules,
        constraints: Constraints,
        longest_B: np.ndarray,
        prompts: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Start a batch; unused sentences are done from the start."""
        self.rules, self.constraints = rules, constraints
        self.alpha.fill_(rules.alpha)
        self.allowed.start(constraints.forbidden, prompts, rules.size)
        sentences = len(longest_B)
        self.longest_B[:sentences] = torch.from_numpy(longest_B).to(self.longest_B.device)
        self.over_at_B.fill_(-1)
        self.over_at_B[:sentences] = 0
        self.total_BW.fill_(-torch.inf)
        self.total_BW[:sentences, 0] = 0.0
        self.best_BN.fill_(-torch.inf)
        for counter in (self.n, self.count_B, self.stuck):
            counter.zero_()

    def select(self, logits_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Rank all continuations; keep the first ``size`` that do not end active."""
        size, ranked = self.rules.size, self._ranked(logits_RV)
        ends = self.constraints.is_end(ranked[TOKEN])
        ended = ranked[:, :, :size].clone()
        stopped = self._stopped(ends)
        ended[TOTAL].masked_fill_(~stopped[:, :size], -torch.inf)
        ranked[TOTAL].masked_fill_(ends, -torch.inf)
        on = ends.sort(dim=1, stable=True).indices[:, :size]
        grown = ranked.gather(2, on.expand(4, -1, -1))
        self.ended.index_copy_(0, self.n, ended[None])
        self.grown.index_copy_(0, self.n, grown[None])
        self.n += 1
        self.total_BW.copy_(grown[TOTAL])
        self._settle(ended[TOTAL])
        tokens_R, rows_R = grown[TOKEN].long().flatten(), self._rows(grown[SLOT])
        self.allowed.advance(tokens_R, rows_R)
        return tokens_R, rows_R

    def _rows(self, slot_BW: Tensor) -> Tensor:
        return (slot_BW.long() + self.first_row_B).flatten()

    def _stopped(self, ends: Tensor) -> Tensor:
        """Mask of continuations that count as finished; by transformers' rules all at the limit."""
        if not self.rules.follows_transformers:
            return ends
        return ends | (self.longest_B == self.n + 1)[:, None]

    def _ranked(self, logits_RV: Tensor) -> Tensor:
        """Best continuations of each slot, ranked by sentence.

        Impossible ones come last, as their total is -inf.
        """
        B, k = self.total_BW.shape
        values_RN, tokens_RN = self.allowed.topk(logits_RV, self.n, self.count)
        if self.constraints.must_end:
            last_R = (self.longest_B == self.n + 1).repeat_interleave(k)[:, None]
            values_RN = torch.where(last_R, self.certain_N[: values_RN.shape[1]], values_RN)
            tokens_RN = tokens_RN.masked_fill(last_R, self.constraints.eos)
        values_BWN, tokens_BWN = values_RN.view(B, k, -1), tokens_RN.view(B, k, -1)
        active_BW = (self.total_BW > -torch.inf) & (self.over_at_B == 0)[:, None]
        possible_BW = values_BWN[:, :, 0] > -torch.inf  # not true of NaN
        self.stuck |= (active_BW & ~possible_BW).any()
        slot_BWN = self.slot_W[:, None].expand_as(values_BWN)
        total_BWN = self.total_BW[:, :, None] + values_BWN
        ranked = torch.stack([tokens_BWN, slot_BWN, values_BWN, total_BWN]).flatten(2)
        order = ranked[TOTAL].sort(dim=1, descending=True, stable=True).indices
        return ranked.gather(2, order.expand(4, -1, -1))

    def _settle(self, ended_BW: Tensor) -> None:
        """Mark the sentences that are done: enough finished, none can win, or limit reached."""
        rules, alive_B = self.rules, self.over_at_B == 0
        divide = partial(self._divide, LENGTHS[rules.length][0])
        scores = torch.cat([self.best_BN, ended_BW / divide(self.n)], dim=1)
        best_BN = scores.sort(dim=1, descending=True).values[:, : rules.beaten]
        self.best_BN.copy_(torch.where(alive_B[:, None], best_BN, self.best_BN))
        self.count_B += (ended_BW > -torch.inf).sum(1) * alive_B
        over_B = (self.count_B >= rules.enough) | (self.longest_B == self.n)
        if rules.early:
            n = self.n if rules.bounds_at_current_length else self.longest_B
            needed_B = self.best_BN[:, -1] * divide(n)
            over_B |= self.total_BW[:, 0] <= needed_B
        self.over_at_B.copy_(torch.where(alive_B & over_B, self.n, self.over_at_B))
        torch.any((self.over_at_B == 0) & ~self.stuck, out=self.going)

    def _divide(self, divisor: Divisor, n: Tensor) -> Tensor | float:
        return divisor(n.double(), cast(float, self.alpha))  # a tensor, as graphs read it anew

    def results(self, longest_B: np.ndarray) -> list[list[Hypothesis]] | None:
        """Best hypotheses of each sentence; unfinished ones fill places that are left.

        None: the host must search, as a hypothesis cannot be continued, or a model is broken.
        """
        if self.stuck:
            return None
        steps, sentences = int(self.n), len(longest_B)
        over_at_B = self.over_at_B[:sentences].cpu().numpy()
        ended, grown = (x[:steps, :, :sentences].cpu().numpy() for x in (self.ended, self.grown))
        step_L = np.arange(steps)[:, None, None]
        counted = step_L < over_at_B[:, None]
        last = (step_L == over_at_B[:, None] - 1) & (over_at_B == longest_B)[:, None]
        candidates = DeviceHypotheses.of(ended, counted, self.rules, self.constraints)
        if not self.rules.follows_transformers:
            spare = DeviceHypotheses.of(grown, last, self.rules, self.constraints)
            candidates = DeviceHypotheses(*map(np.concatenate, zip(candidates, spare, strict=True)))
        best = candidates.best(self.rules)
        hypotheses = iter(trace_back(grown, best))
        counts_B = np.bincount(best.sentence, minlength=sentences).tolist()
        return [[next(hypotheses) for _ in range(count)] for count in counts_B]


class DeviceHypotheses(NamedTuple):
    """Hypotheses in the tables: the step at which each ended, its last continuation and score."""

    sentence: np.ndarray
    step: np.ndarray
    finished: np.ndarray
    last: np.ndarray  # (hypotheses, 4)
    score: np.ndarray

    @classmethod
    def of(
        cls, table: np.ndarray, counted: np.ndarray, rules: BeamRules, constraints: Constraints
    ) -> "DeviceHypotheses":
        """Hypotheses of a table at the steps that are ``counted``."""
        total = table[:, TOTAL]
        step, sentence, slot = np.nonzero((total > -np.inf) & counted)
        divide, _ = LENGTHS[rules.length]
        scores = total[step, sentence, slot] / divide(step + 1, rules.alpha)
        last = table[step, :, sentence, slot]
        return cls(sentence, step, constraints.is_end(last[:, TOKEN]), last, scores)

    def best(self, rules: BeamRules) -> "DeviceHypotheses":
        """Best hypotheses by sentence, in the order of ``Beam.sort_key``; ties keep their order."""
        behind = ~(self.finished | rules.follows_transformers)
        order = np.lexsort((-self.score, behind, self.sentence))
        chosen = order[place(self.sentence[order]) < rules.best]
        return DeviceHypotheses(*(column[chosen] for column in self))


def trace_back(grown: np.ndarray, hypotheses: DeviceHypotheses) -> Iterator[Hypothesis]:
    """Hypotheses with their tokens, traced back from their ends, all of them at once."""
    slot = hypotheses.last[:, SLOT].astype(np.int64)
    tokens = np.zeros((len(slot), len(grown)), dtype=np.int64)
    logprobs = np.zeros(tokens.shape)
    for step in range(int(hypotheses.step.max(initial=0)) - 1, -1, -1):
        rows = np.flatnonzero(hypotheses.step > step)
        entries = grown[step, :, hypotheses.sentence[rows], slot[rows]]
        tokens[rows, step], logprobs[rows, step] = entries[:, TOKEN], entries[:, LOGPROB]
        slot[rows] = entries[:, SLOT]
    for row, (step, finished, last, score) in enumerate(zip(*hypotheses[1:], strict=True)):
        text = *tokens[row, :step].tolist(), *(() if finished else (int(last[TOKEN]),))
        each = *logprobs[row, :step].tolist(), float(last[LOGPROB])
        yield Hypothesis(text, float(last[TOTAL]), float(score), each, bool(finished))
