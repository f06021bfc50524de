"""Beam search: at every step the k best hypotheses stay active, and those that end are stored."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from regard.core.errors import BadInput, shown
from regard.generation.beam_rules import BeamRules, coverage_term, logprob_to_beat, normalised
from regard.generation.candidates import Candidates, rank
from regard.generation.device_beam import search_on_device
from regard.generation.hypothesis import ActiveHypotheses, Hypothesis
from regard.generation.step import Search, SearchBatch, SearchState, select_rows


class FinishedHypotheses:
    """Finished hypotheses by sentence: their number ``count_B``, the ``best``-th score ``bar_B``.

    ``spare`` holds unfinished hypotheses, which fill places that are left.
    """

    def __init__(self, sentences: int, best: int):
        self.best = best
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.spare: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.count_B = np.zeros(sentences, dtype=np.int64)
        self.bar_B = np.full(sentences, -np.inf)

    def add(self, sentence_R: np.ndarray, hypotheses: Iterable[Hypothesis], counts: bool) -> None:
        """Add hypotheses as finished ones, or as spare ones if they do not count."""
        lists = self.finished if counts else self.spare
        for sentence, hypothesis in zip(sentence_R, hypotheses, strict=True):
            lists[sentence].append(hypothesis)
        for sentence in np.unique(sentence_R) if counts else ():
            finished = self.finished[sentence]
            self.count_B[sentence] = len(finished)
            if len(finished) >= self.best:
                self.bar_B[sentence] = _ranked(finished)[self.best - 1].score

    def ranked(self, best: int) -> list[list[Hypothesis]]:
        """Best hypotheses of each sentence; spare ones fill places that are left."""
        pairs = zip(self.finished, self.spare, strict=True)
        return [(_ranked(finished) + _ranked(spare))[:best] for finished, spare in pairs]


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Hypotheses, best first; ties keep their order."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


class HostBeam(Search):
    """Beam search of one batch by ``rules``, on any state; ``results`` stores hypotheses."""

    batch: SearchBatch
    results: FinishedHypotheses

    def __init__(self, rules: BeamRules):
        self.rules = rules

    @property
    def needs_attention(self) -> bool:
        return self.rules.needs_attention

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        self.batch = batch
        self.results = FinishedHypotheses(len(batch.ids), self.rules.beaten)
        alive = batch.initial_hypotheses()
        while len(alive):
            logprobs_RV = batch.step(alive, self.rules.repetition)
            looked = add_coverage(batch.state, alive) if self.needs_attention else alive
            candidates = self.rank(alive, logprobs_RV)
            self.store_stuck(alive, candidates)
            alive, going = self.advance(looked, candidates)
            if len(alive):
                select_rows(batch.state, candidates.parent[going])
        return self.results.ranked(self.rules.best)

    def rank(self, alive: ActiveHypotheses, logprobs_RV: Tensor) -> Candidates:
        """Candidates of all sentences, ranked."""
        return rank(alive, logprobs_RV, self.rules.size, self.batch.constraints)

    def store_stuck(self, alive: ActiveHypotheses, candidates: Candidates) -> None:
        """Store hypotheses that cannot be continued."""
        self.store(alive.take(candidates.stuck(len(alive))), False, counts=False)

    def advance(
        self, alive: ActiveHypotheses, candidates: Candidates
    ) -> tuple[ActiveHypotheses, np.ndarray]:
        """Store hypotheses that end; return those that stay active, and their candidates."""
        ended, going = candidates.select(self.rules.size, self.batch.constraints)
        finished, grown = candidates.grow(alive, ended), candidates.grow(alive, going)
        at_limit = self.batch.longest_B[grown.sentence_R] == grown.length
        first = candidates.place[going] < self.rules.size
        stopped = at_limit & first if self.rules.follows_transformers else at_limit
        self.store(finished, True, counts=True)
        self.store(grown.take(stopped), False, counts=self.rules.follows_transformers)
        on = np.flatnonzero(~at_limit & ~self.is_done(grown))
        return grown.take(on), going[on]

    def store(self, rows: ActiveHypotheses, finished: bool, counts: bool) -> None:
        """Score these rows and add them to the results."""
        if not len(rows):
            return
        scores_R = normalised(rows.total_R, rows.length, self.rules.length, self.rules.alpha)
        terms_R: list[float] | list[None] = [None] * len(rows)
        if rows.coverage_RS is not None and self.rules.coverage is not None:
            terms_R = [coverage_term(coverage_S) for coverage_S in rows.coverage_RS]
            scores_R = scores_R + self.rules.coverage * np.array(terms_R)
        pairs = enumerate(zip(scores_R.tolist(), terms_R, strict=True))
        hypotheses = [rows.hypothesis(row, finished, *scores) for row, scores in pairs]
        self.results.add(rows.sentence_R, hypotheses, counts)

    def is_done(self, rows: ActiveHypotheses) -> np.ndarray:
        """Mask of rows whose sentence needs no further step."""
        rules, sentence_R, longest_B = self.rules, rows.sentence_R, self.batch.longest_B
        enough = self.results.count_B[sentence_R] >= rules.enough
        if not rules.early:
            return enough
        n_R = rows.length if rules.bounds_at_current_length else longest_B[sentence_R]
        needed_R = logprob_to_beat(self.results.bar_B[sentence_R], n_R, rules.length, rules.alpha)
        return enough | (best_totals(rows, len(longest_B)) <= needed_R)


def best_totals(rows: ActiveHypotheses, sentences: int) -> np.ndarray:
    """Highest log p in the sentence of each row."""
    highest_B = np.full(sentences, -np.inf)
    np.maximum.at(highest_B, rows.sentence_R, rows.total_R)
    return highest_B[rows.sentence_R]


def add_coverage(state: SearchState, alive: ActiveHypotheses) -> ActiveHypotheses:
    """Add the attention weights of the last step to the coverage of each hypothesis."""
    weights_RS = state.attention().float().cpu().numpy()
    if alive.coverage_RS is None:
        return replace(alive, coverage_RS=weights_RS)
    source = weights_RS.shape[1]  # may shrink when the row with the longest source leaves
    return replace(alive, coverage_RS=alive.coverage_RS[:, :source] + weights_RS)


@dataclass(frozen=True)
class Beam(BeamRules, Search):
    """Beam search with ``size`` active hypotheses per sentence, which returns the ``best``.

    At each step all continuations of a sentence are ranked by log p. Those among the first ``size``
    that end are stored as finished; the first ``size`` that do not end stay active. The search for
    a sentence ends when

    - ``finished`` hypotheses are finished (default: ``size``, or ``best`` if that is more);
    - or no active hypothesis can still be among the best (``early``): no log p is above the
      ``logprob_to_beat`` of the last of them, and the coverage term is at most 0;
    - or its limit is reached. Then active hypotheses, which are unfinished, fill the places among
      the best that finished ones leave. One that cannot be continued is unfinished as well.

    With another ``stop`` it ends when ``generate`` of transformers 5 does, with ``size`` as
    num_beams (1: greedy search), ``best`` as num_return_sequences, ``length="power"``, ``alpha`` as
    length_penalty and ``no_repeat`` as no_repeat_ngram_size; ``formula`` gives the condition. Then
    the first ``size`` continuations at the limit count as finished, whether they end or not. In
    ``Constraints`` max_length is ``longest + 1`` (it counts BOS), max_new_tokens ``longest``,
    min_length ``shortest``, forced_eos_token_id ``must_end``, single tokens of bad_words_ids
    ``forbidden``. Where transformers fills its list with copies of score -1e9, fewer are returned.

    Scores follow ``formula``, where n counts the tokens with EOS and without BOS. The length
    penalty and the coverage penalty rank finished hypotheses; active ones are ranked by log p. With
    a ``coverage``, even 0, hypotheses have a coverage term. With ``no_repeat`` no n-gram of that
    many tokens occurs twice in a hypothesis and its prompt; with a ``repetition_penalty`` the log p
    of a token that has occurred is multiplied by it, in scores as well.
    """

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        hypotheses = search_on_device(self, batch)
        return HostBeam(self).search(batch) if hypotheses is None else hypotheses


def check_beam(search: object, what: str) -> Beam:
    """Return a search that must be a ``Beam``; ``what`` needs it."""
    if not isinstance(search, Beam):
        raise BadInput(f"{what} needs a Beam, not {shown(search)}")
    return search
