"""Beam search on tensors: the steps of every search that branches.

Each sentence has ``size`` slots. A step ranks all continuations of a sentence and writes what it
selects into a log; at the end the host reads the log once and traces the best hypotheses back.
``BeamLoop`` has a row for each slot in use; ``DeviceBeam`` has the same steps with fixed shapes.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.generation.beam_rules import LENGTHS, BeamRules, coverage_term
from regard.generation.candidates import place, topk
from regard.generation.constraints import Constraints
from regard.generation.hypothesis import Hypothesis
from regard.generation.step import SearchBatch, feed, select_rows

TOKEN, SLOT, LOGPROB, TOTAL = range(4)  # of a continuation; SLOT is the slot that it continues
# Ends of hypotheses: without a continuation, by EOS (or by the rules of transformers), at the limit
STUCK, ENDED, UNFINISHED = range(3)


class BeamTables:
    """Tables of ``sentences`` × ``size`` slots, and the decisions of a step.

    A continuation is four numbers in a float64 tensor: (4, B, W) for one step. A total of -inf
    marks an empty slot. ``over_at_B`` is the number of steps of a sentence that is over, else 0.
    """

    n: int | Tensor  # steps

    def __init__(
        self,
        rules: BeamRules,
        constraints: Constraints,
        sentences: int,
        capacity: int,
        device: torch.device,
    ):
        def table(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        def double(*shape: int) -> Tensor:
            return table(*shape, dtype=torch.float64)

        B, k = sentences, rules.size
        self.rules, self.constraints = rules, constraints
        self.count = k + len(constraints.ends)  # continuations of a slot
        self.first_row_B = torch.arange(B, device=device)[:, None] * k
        self.slot_W = torch.arange(k, dtype=torch.float64, device=device)
        self.longest_B, self.count_B, self.over_at_B = table(B), table(B), table(B)
        self.total_BW, self.best_BN = double(B, k), double(B, rules.beaten)
        self.divisor_L, self.divisor_B = double(capacity + 1), double(B)  # of n, of the longest n

    def start_tables(self, longest_B: np.ndarray) -> None:
        """Start a batch; unused sentences are over from the start."""
        sentences, device = len(longest_B), self.longest_B.device
        divide, _ = LENGTHS[self.rules.length]
        lengths = [max(n, 1) for n in range(len(self.divisor_L))]  # 0 tokens count as 1
        divisors = [float(divide(n, self.rules.alpha)) for n in lengths]
        self.divisor_L.copy_(torch.tensor(divisors, dtype=torch.float64))
        self.longest_B[:sentences] = torch.from_numpy(longest_B).to(device)
        self.divisor_B.copy_(self.divisor_L[self.longest_B])
        self.over_at_B.fill_(-1)
        self.over_at_B[:sentences] = 0
        self.total_BW.fill_(-torch.inf)
        self.total_BW[:sentences, 0] = 0.0
        self.best_BN.fill_(-torch.inf)
        self.count_B.zero_()

    def ranked(self, tokens_BWN: Tensor, values_BWN: Tensor) -> Tensor:
        """Continuations (4, B, W·N) of all slots, ranked by sentence.

        Ties go to the earlier slot, then to the lower token. Impossible ones come last, as their
        total is -inf.
        """
        slot_BWN = self.slot_W[:, None].expand_as(values_BWN)
        total_BWN = self.total_BW[:, :, None] + values_BWN
        return by_rank(torch.stack([tokens_BWN, slot_BWN, values_BWN, total_BWN]), TOTAL)

    def split(self, ranked: Tensor) -> tuple[Tensor, Tensor]:
        """Continuations among the first ``size`` that end, and the first that do not end.

        By the rules of transformers all at the limit end.
        """
        size, ends = self.rules.size, self.constraints.is_end(ranked[TOKEN])
        stopped, ended = ends, ranked[:, :, :size].clone()
        if self.rules.follows_transformers:
            stopped = ends | (self.longest_B == self.n + 1)[:, None]
        ended[TOTAL].masked_fill_(~stopped[:, :size], -torch.inf)
        ranked[TOTAL].masked_fill_(ends, -torch.inf)
        on = ends.sort(dim=1, stable=True).indices[:, :size]
        return ended, ranked.gather(2, on.expand(len(ranked), -1, -1))

    def settle(self, score_BW: Tensor) -> None:
        """Mark the sentences that are over: enough finished, none can win, or limit reached.

        ``score_BW`` are scores of the hypotheses that ended in this step, -inf in other places.
        """
        rules, alive_B = self.rules, self.over_at_B == 0
        scores = torch.cat([self.best_BN, score_BW], dim=1)
        best_BN = scores.sort(dim=1, descending=True).values[:, : rules.beaten]
        self.best_BN.copy_(torch.where(alive_B[:, None], best_BN, self.best_BN))
        self.count_B += (score_BW > -torch.inf).sum(1) * alive_B
        over_B = (self.count_B >= rules.enough) | (self.longest_B == self.n)
        if rules.early:
            at_n = rules.bounds_at_current_length
            needed_B = self.best_BN[:, -1] * (self.divisor_L[self.n] if at_n else self.divisor_B)
            over_B |= self.total_BW.amax(1) <= needed_B
        self.over_at_B.copy_(torch.where(alive_B & over_B, self.n, self.over_at_B))

    def rows_of(self, slot_BW: Tensor) -> Tensor:
        """Places of slots among the slots of all sentences."""
        return (slot_BW.long() + self.first_row_B).flatten()

    def counted(self, grown: np.ndarray, ended: np.ndarray) -> list["Ends"]:
        """Ends of hypotheses in a log (L, 4, B, W) that count, or fill places that are left."""
        steps, _, sentences, _ = grown.shape
        over_at_B = self.over_at_B[:sentences].cpu().numpy()
        over_at_B = np.where(over_at_B == 0, steps, over_at_B)  # no row was left
        at_limit_B = over_at_B == self.longest_B[:sentences].cpu().numpy()
        step_LB1 = np.arange(steps)[:, None, None]
        known = ended[:, TOTAL] > -np.inf
        ends = [Ends.of(ENDED, ended, known & (step_LB1 < over_at_B[:, None]))]
        if not self.rules.follows_transformers:
            last_LB1 = (step_LB1 == over_at_B[:, None] - 1) & at_limit_B[:, None]
            ends.append(Ends.of(UNFINISHED, grown, (grown[:, TOTAL] > -np.inf) & last_LB1))
        return ends

    def best_hypotheses(self, grown: np.ndarray, ends: "Ends", best: int) -> list[list[Hypothesis]]:
        """Best hypotheses of each sentence of a log, traced back from their ends."""
        divisor_N = self.divisor_L.cpu().numpy()[ends.written]
        score_N = ends.last[:, TOTAL] / divisor_N
        if self.rules.coverage is not None:
            score_N = score_N + self.rules.coverage * np.nan_to_num(ends.term)
        finished_N = self.constraints.is_end(ends.last[:, TOKEN]) & (ends.cause == ENDED)
        # Equal scores keep their order: by step, and in a step without a continuation, by EOS,
        # at the limit, then by rank.
        ties = ends.slot, ~finished_N, ends.cause, ends.step
        order = np.lexsort((*ties, -score_N, ends.cause != ENDED, ends.sentence))
        chosen = order[place(ends.sentence[order]) < best]
        ends = ends.take(chosen)
        hypotheses = trace_back(grown, ends, score_N[chosen], finished_N[chosen])
        counts_B = np.bincount(ends.sentence, minlength=grown.shape[2]).tolist()
        return [[next(hypotheses) for _ in range(count)] for count in counts_B]


def by_rank(columns: Tensor, key: int) -> Tensor:
    """Continuations (Q, B, W, N) of all slots as (Q, B, W·N), the highest ``key`` first."""
    columns = columns.flatten(2)
    order = columns[key].sort(dim=1, descending=True, stable=True).indices
    return columns.gather(2, order.expand(len(columns), -1, -1))


class Ends(NamedTuple):
    """Ends of hypotheses in a log, one for each entry of the columns."""

    cause: np.ndarray
    step: np.ndarray
    sentence: np.ndarray
    slot: np.ndarray
    written: np.ndarray  # number of tokens
    last: np.ndarray  # the last continuation, (ends, 4)
    term: np.ndarray  # of coverage; NaN: none

    @classmethod
    def of(cls, cause: int, log: np.ndarray, mask_LBW: np.ndarray) -> "Ends":
        """Ends at the places of a mask; hypotheses that are stuck ended in the step before."""
        step, sentence, slot = np.nonzero(mask_LBW)
        written = step + (cause != STUCK)
        last = log[written - 1, :, sentence, slot][:, : TOTAL + 1]
        last = np.where(written[:, None] > 0, last, 0.0)
        causes, term = np.full(len(step), cause), np.full(len(step), np.nan)
        return cls(causes, step, sentence, slot, written, last, term)

    def take(self, index: np.ndarray) -> "Ends":
        """Ends at these places."""
        return Ends(*(column[index] for column in self))

    @classmethod
    def concatenate(cls, parts: list["Ends"]) -> "Ends":
        """Ends of all parts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


def trace_back(
    grown: np.ndarray, ends: Ends, score_N: np.ndarray, finished_N: np.ndarray
) -> Iterator[Hypothesis]:
    """Hypotheses with their tokens, traced back from their ends, all of them at once."""
    slot = ends.last[:, SLOT].astype(np.int64)
    longest = int(ends.written.max(initial=1))
    tokens, logprobs = (
        np.zeros((len(slot), longest), dtype=np.int64),
        np.zeros((len(slot), longest)),
    )
    rows = np.flatnonzero(ends.written)
    tokens[rows, ends.written[rows] - 1] = ends.last[rows, TOKEN]
    logprobs[rows, ends.written[rows] - 1] = ends.last[rows, LOGPROB]
    for step in range(longest - 2, -1, -1):
        rows = np.flatnonzero(ends.written > step + 1)
        entries = grown[step, :, ends.sentence[rows], slot[rows]]
        tokens[rows, step], logprobs[rows, step] = entries[:, TOKEN], entries[:, LOGPROB]
        slot[rows] = entries[:, SLOT]
    columns = ends.written, score_N, finished_N, ends.last[:, TOTAL], ends.term
    texts = zip(tokens, logprobs, *(column.tolist() for column in columns), strict=True)
    for token_L, logprob_L, written, score, finished, total, term in texts:
        text, each = token_L[: written - finished].tolist(), logprob_L[:written].tolist()
        coverage = None if np.isnan(term) else term
        yield Hypothesis(tuple(text), total, score, tuple(each), finished, coverage)


Observer = Callable[["BeamLoop", Tensor, Tensor], None]


class BeamLoop(BeamTables):
    """Beam search of a batch on any state; a row leaves when its slot is empty.

    Its tables are on the host: they are small, and on a GPU each operator would cost a launch.
    ``observer`` is called after each step, with the totals before it and the continuations.
    """

    n: int

    def __init__(self, rules: BeamRules, batch: SearchBatch, observer: Observer | None = None):
        capacity = int(batch.longest_B.max(initial=0))
        device = torch.device("cpu")
        super().__init__(rules, batch.constraints, len(batch.ids), capacity, device)
        self.start_tables(batch.longest_B)
        self.batch, self.observer, self.n = batch, observer, 0
        self.slot_R = self.first_row_B[:, 0]
        self.token_rules = batch.rules(rules.repetition)
        self.coverage = Coverage() if rules.needs_attention else None
        self.grown, self.ended, self.stuck = list[Tensor](), list[Tensor](), list[Tensor]()

    def run(self) -> list[list[Hypothesis]]:
        """Search; return the best hypotheses of each sentence."""
        state, token_R = self.batch.state, self.batch.first_tokens
        while len(self.slot_R):
            logprobs_RV, rows_R = feed(state, token_R), self.slot_R // self.rules.size
            rows = rows_R.to(state.device), self.n
            logprobs_RV = self.token_rules.logprobs(logprobs_RV, state.normaliser, *rows)
            token_R, index_R = self.branch(logprobs_RV)
            if len(token_R):
                token_R = token_R.to(state.device)
                select_rows(state, index_R)
                self.token_rules.select_rows(index_R.to(state.device))
                self.token_rules.advance(token_R)
        return self.hypotheses(self.rules.best)

    def branch(self, logprobs_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Select continuations; return the tokens of the next rows, and the rows they continue."""
        before_BW = self.total_BW
        ranked, possible_BW = self.continuations(logprobs_RV)
        self.stuck.append(before_BW.masked_fill(possible_BW, -torch.inf))
        ended, grown = self.split(ranked)
        self.ended.append(ended)
        self.grown.append(grown)
        self.n += 1
        score_BW = ended[TOTAL] / self.divisor_L[self.n]
        if self.coverage is not None:
            score_BW += self.coverage.add_step(self)
        self.total_BW = grown[TOTAL]
        self.settle(score_BW)
        if self.observer is not None:
            self.observer(self, before_BW, ranked)
        self.total_BW = self.total_BW.masked_fill((self.over_at_B > 0)[:, None], -torch.inf)
        slots_R, self.slot_R = self.slot_R, (self.total_BW.flatten() > -torch.inf).nonzero()[:, 0]
        index_R = torch.searchsorted(slots_R, self.rows_of(grown[SLOT])[self.slot_R])
        if self.coverage is not None:
            self.coverage.select_rows(index_R)
        return grown[TOKEN].flatten()[self.slot_R].long(), index_R

    def continuations(self, logprobs_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Continuations of all slots, ranked, and the mask of slots that can be continued."""
        values_RN, tokens_RN = topk(logprobs_RV, self.count)
        tokens_BWN, values_BWN = self.in_slots([tokens_RN, values_RN], self.slot_R)
        return self.ranked(tokens_BWN, values_BWN), values_BWN[:, :, 0] > -torch.inf

    def in_slots(self, columns_RN: list[Tensor], slot_R: Tensor) -> Tensor:
        """Columns of rows in the places of their slots, (Q, B, W, N); -inf in empty slots."""
        columns = torch.stack([column_RN.double() for column_RN in columns_RN]).cpu()
        if columns.isnan().any():
            raise FloatingPointError("the model's log-probabilities are not numbers")
        sizes = len(columns), self.total_BW.numel(), columns.shape[2]
        spread = columns.new_full(sizes, -torch.inf).index_copy_(1, slot_R, columns)
        return spread.unflatten(1, self.total_BW.shape)

    def hypotheses(self, best: int) -> list[list[Hypothesis]]:
        """Best hypotheses of each sentence; unfinished ones fill places that are left."""
        if not self.n:
            return []
        logs = self.grown, self.ended, self.stuck
        grown, ended, stuck = (torch.stack(log).numpy() for log in logs)
        ends = Ends.concatenate(
            [Ends.of(STUCK, grown, stuck > -np.inf), *self.counted(grown, ended)]
        )
        if self.coverage is not None:
            places = ends.cause, ends.step, ends.sentence, ends.slot
            ends = ends._replace(term=np.stack(self.coverage.terms, axis=1)[places])
        return self.best_hypotheses(grown, ends, best)


class Coverage:
    """Attention of the rows summed over the steps, and the coverage terms of a log."""

    def __init__(self) -> None:
        self.attention_RS: np.ndarray | None = None
        self.terms: list[np.ndarray] = []  # by step: (causes, B, W); NaN: none

    def add_step(self, loop: BeamLoop) -> Tensor:
        """Add the attention of the last step; return what it adds to the scores of ended rows."""
        stuck, ended, grown = (log[-1].numpy() for log in (loop.stuck, loop.ended, loop.grown))
        slots_R, first_B1 = loop.slot_R.numpy(), loop.first_row_B.numpy()
        own_BW = np.broadcast_to(np.arange(loop.rules.size), stuck.shape)

        def terms(slot_BW: np.ndarray, mask_BW: np.ndarray) -> np.ndarray:
            terms_BW = np.full(mask_BW.shape, np.nan)
            if self.attention_RS is not None and mask_BW.any():
                rows = np.searchsorted(slots_R, (slot_BW + first_B1)[mask_BW])
                terms_BW[mask_BW] = [coverage_term(self.attention_RS[row]) for row in rows]
            return terms_BW

        before = terms(own_BW, stuck > -np.inf)
        weights_RS = loop.batch.state.attention().float().cpu().numpy()
        if self.attention_RS is None:
            self.attention_RS = weights_RS
        else:  # the source is shorter if the row with the longest one has left
            self.attention_RS = self.attention_RS[:, : weights_RS.shape[1]] + weights_RS
        at_limit_B1 = (loop.longest_B == loop.n).numpy()[:, None]
        finished = terms(ended[SLOT], ended[TOTAL] > -np.inf)
        unfinished = terms(grown[SLOT], (grown[TOTAL] > -np.inf) & at_limit_B1)
        self.terms.append(np.stack([before, finished, unfinished]))
        return torch.from_numpy((loop.rules.coverage or 0.0) * np.nan_to_num(finished))

    def select_rows(self, index_R: Tensor) -> None:
        """Drop, repeat or reorder rows."""
        assert self.attention_RS is not None
        self.attention_RS = self.attention_RS[index_R.numpy()]
