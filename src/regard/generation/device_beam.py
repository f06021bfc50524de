"""Beam search with fixed shapes, whose steps are CUDA graphs.

Sentences that are over continue, ignored, until all are over.
"""

from collections import deque
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from regard.core.cancellation import check_wanted
from regard.core.pytree import AsyncCopy
from regard.generation.beam_loop import SLOT, TOKEN, TOTAL, BeamTables, Ends
from regard.generation.beam_rules import BeamRules
from regard.generation.candidates import DeviceRules
from regard.generation.constraints import Constraints
from regard.generation.hypothesis import Hypothesis
from regard.generation.step import AHEAD, SearchBatch


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
    decoder.selector.start(rules, batch)
    flags: deque[AsyncCopy] = deque()
    for _ in range(longest_B.max(initial=0)):
        check_wanted()
        decoder.step()
        flags.append(AsyncCopy(decoder.selector.going))
        if len(flags) > AHEAD and not flags.popleft().read():
            break
    return decoder.selector.results(longest_B)


class DeviceBeam(BeamTables):
    """Token selector: the steps of ``BeamLoop`` with a log of ``capacity`` steps on the device.

    All rows stay in their slots, and no operator waits for the host.
    """

    n: Tensor

    def __init__(
        self,
        rules: BeamRules,
        constraints: Constraints,
        sentences: int,
        capacity: int,
        vocab: int,
        device: torch.device,
    ):
        super().__init__(rules, constraints, sentences, capacity, device)
        self.allowed = DeviceRules(
            constraints, rules.repetition, sentences * rules.size, vocab, device
        )
        self.certain_N = torch.full((self.count,), -torch.inf, device=device)
        self.certain_N[0] = 0.0
        self.n = torch.zeros(1, dtype=torch.long, device=device)
        self.going = torch.zeros((), dtype=torch.bool, device=device)
        self.stuck = torch.zeros_like(self.going)
        shape = capacity, TOTAL + 1, *self.total_BW.shape
        self.grown, self.ended = (self.total_BW.new_zeros(shape) for _ in range(2))

    def start(self, rules: BeamRules, batch: SearchBatch) -> None:
        """Start a batch; unused sentences are over from the start."""
        self.rules, self.constraints = rules, batch.constraints
        self.start_tables(batch.longest_B)
        self.allowed.start(batch.constraints.forbidden, batch.prompts, rules.size)
        self.n.zero_()
        self.stuck.zero_()

    def select(self, logits_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Rank all continuations; keep the first ``size`` that do not end active."""
        ended, grown = self.split(self._continuations(logits_RV))
        self.ended.index_copy_(0, self.n, ended[None])
        self.grown.index_copy_(0, self.n, grown[None])
        self.n += 1
        self.total_BW.copy_(grown[TOTAL])
        self.settle(ended[TOTAL] / self.divisor_L[self.n])
        torch.any((self.over_at_B == 0) & ~self.stuck, out=self.going)
        tokens_R, rows_R = grown[TOKEN].long().flatten(), self.rows_of(grown[SLOT])
        self.allowed.advance(tokens_R, rows_R)
        return tokens_R, rows_R

    def _continuations(self, logits_RV: Tensor) -> Tensor:
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
        return self.ranked(tokens_BWN, values_BWN)

    def results(self, longest_B: np.ndarray) -> list[list[Hypothesis]] | None:
        """Best hypotheses of each sentence; unfinished ones fill places that are left.

        None: the host must search, as a hypothesis cannot be continued, or a model is broken.
        """
        if self.stuck:
            return None
        steps, sentences = int(self.n), len(longest_B)
        logs = self.grown, self.ended
        grown, ended = (log[:steps, :, :sentences].cpu().numpy() for log in logs)
        ends = Ends.concatenate(self.counted(grown, ended))
        return self.best_hypotheses(grown, ends, self.rules.best)
