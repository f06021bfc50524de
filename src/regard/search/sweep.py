"""Which score ranks n-best lists best: all length and coverage penalties, by BLEU."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics import BLEU

from regard.metrics.intervals import FloatArray
from regard.metrics.translation import MetricScore, scored, segment_statistics
from regard.search.beam_rules import Length, formula
from regard.search.nbest import NBestLists


@dataclass(frozen=True)
class Setting:
    """A length penalty, its exponent, and the weight of the coverage penalty."""

    length: Length
    alpha: float
    coverage: float

    @property
    def formula(self) -> str:
        """The score; n is the number of tokens, EOS included."""
        return formula(self.length, self.alpha, self.coverage)


def settings(alphas: Sequence[float], coverages: Iterable[float]) -> list[Setting]:
    """All combinations, simple ones first; ``none`` and ``mean`` have no exponent."""
    rules: list[tuple[Length, float]] = [("none", 0.0), ("mean", 1.0)]
    rules += [("gnmt", alpha) for alpha in alphas] + [("power", alpha) for alpha in alphas]
    return [Setting(*rule, coverage) for coverage in coverages for rule in rules]


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a ranking: the index of one hypothesis per sentence, and its scores."""

    name: str
    chosen: np.ndarray
    score: MetricScore
    brevity: float
    mean_n: float
    setting: Setting | None = None


@dataclass(frozen=True, eq=False)
class Sweep:
    """n-best lists with the BLEU statistics of every hypothesis, which only have to be summed."""

    stored: NBestLists
    statistics: FloatArray
    metric: BLEU

    @classmethod
    def of(cls, stored: NBestLists, references: Sequence[Sequence[str]], metric: BLEU) -> "Sweep":
        """Count the matches of each hypothesis with the references of its sentence."""
        repeated = [[lines[i] for i in stored.sentence] for lines in references]
        return cls(stored, segment_statistics(metric, stored.texts, repeated), metric)

    def tried(self, settings: Iterable[Setting]) -> list[Outcome]:
        """The outcome of each setting, the best first; ties in the order given."""
        outcomes = [
            self.outcome(one.formula, self.stored.ranked_first(**vars(one)), setting=one)
            for one in settings
        ]
        return sorted(outcomes, key=lambda one: -one.score.value)

    def as_stored(self) -> Outcome:
        """The first of each list."""
        return self.outcome("the first of each list, as stored", self.stored.first)

    def oracle(self) -> Outcome:
        """The hypothesis of each list with the highest sentence BLEU: an upper bound of ranking.

        Sentence BLEU is smoothed and uses the effective order, as sacreBLEU's.
        """
        alone = np.array([_sentence_bleu(row) for row in self.statistics])
        return self.outcome("oracle: the highest sentence BLEU", self.stored.highest(alone))

    def outcome(
        self,
        name: str,
        chosen: np.ndarray,
        with_interval: bool = False,
        setting: Setting | None = None,
    ) -> Outcome:
        """The corpus BLEU of these hypotheses."""
        statistics = self.statistics[chosen]
        score = scored(self.metric, statistics, with_interval)
        mean_n = float(self.stored.n[chosen].mean())
        return Outcome(name, chosen, score, _brevity(statistics), mean_n, setting)

    def with_interval(self, one: Outcome) -> Outcome:
        """The outcome, its score with a bootstrap interval."""
        return self.outcome(one.name, one.chosen, True, one.setting)


def _brevity(statistics: FloatArray) -> float:
    ours, theirs = statistics[:, :2].sum(axis=0)
    return float(np.exp(min(0.0, 1 - theirs / ours))) if ours else 0.0


def _sentence_bleu(row: FloatArray) -> float:
    ours, theirs, *counts = row.tolist()
    matches, totals = counts[: len(counts) // 2], counts[len(counts) // 2 :]
    return BLEU.compute_bleu(
        matches, totals, int(ours), int(theirs), smooth_method="exp", effective_order=True
    ).score
