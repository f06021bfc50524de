"""Search over length and coverage penalties: how well each ranks n-best lists, by BLEU."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics import BLEU

from regard.generation.beam_rules import Length, formula
from regard.generation.nbest import NBestLists
from regard.metrics.intervals import FloatArray
from regard.metrics.translation import MetricScore, scored, segment_statistics


@dataclass(frozen=True)
class Setting:
    """Length penalty, its exponent, and the weight of the coverage penalty."""

    length: Length
    alpha: float
    coverage: float

    @property
    def formula(self) -> str:
        """Formula of the score; n is the number of tokens, EOS included."""
        return formula(self.length, self.alpha, self.coverage)


def settings(alphas: Sequence[float], coverages: Iterable[float]) -> list[Setting]:
    """All combinations of penalties, simple ones first; ``none`` and ``mean`` have no exponent."""
    rules: list[tuple[Length, float]] = [("none", 0.0), ("mean", 1.0)]
    rules += [("gnmt", alpha) for alpha in alphas] + [("power", alpha) for alpha in alphas]
    return [Setting(*rule, coverage) for coverage in coverages for rule in rules]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a ranking: the index of one hypothesis per sentence, and its scores."""

    name: str
    chosen: np.ndarray
    score: MetricScore
    brevity: float
    mean_n: float
    setting: Setting | None = None


@dataclass(frozen=True, eq=False)
class Sweep:
    """n-best lists with the BLEU statistics of every hypothesis, which are summed for a corpus."""

    stored: NBestLists
    statistics: FloatArray
    metric: BLEU

    @classmethod
    def of(cls, stored: NBestLists, references: Sequence[Sequence[str]], metric: BLEU) -> "Sweep":
        """Count the n-gram matches of each hypothesis with the references of its sentence."""
        repeated = [[lines[i] for i in stored.sentence] for lines in references]
        return cls(stored, segment_statistics(metric, stored.texts, repeated), metric)

    def tried(self, settings: Iterable[Setting]) -> list[Outcome]:
        """Outcome of each setting, the best first; ties keep their order."""
        outcomes = [
            self.outcome(each.formula, self.stored.ranked_first(**vars(each)), setting=each)
            for each in settings
        ]
        return sorted(outcomes, key=lambda outcome: -outcome.score.value)

    def as_stored(self) -> Outcome:
        """Outcome of the first hypothesis of each list."""
        return self.outcome("the first of each list, as stored", self.stored.first)

    def oracle(self) -> Outcome:
        """Outcome of the hypotheses with the highest sentence BLEU: an upper bound of ranking.

        Sentence BLEU is smoothed and uses the effective order, as in sacreBLEU.
        """
        alone = np.array([_sentence_bleu(row) for row in self.statistics])
        return self.outcome("oracle: the highest sentence BLEU", self.stored.highest(alone))

    def outcome(
        self, name: str, chosen: np.ndarray, interval: bool = False, setting: Setting | None = None
    ) -> Outcome:
        """Corpus BLEU of the chosen hypotheses."""
        statistics = self.statistics[chosen]
        score = scored(self.metric, statistics, interval)
        mean_n = float(self.stored.n[chosen].mean())
        return Outcome(name, chosen, score, _brevity(statistics), mean_n, setting)

    def with_interval(self, outcome: Outcome) -> Outcome:
        """Outcome with a bootstrap interval of its score."""
        return self.outcome(outcome.name, outcome.chosen, True, outcome.setting)


def _brevity(statistics: FloatArray) -> float:
    ours, theirs = statistics[:, :2].sum(axis=0)
    return float(np.exp(min(0.0, 1 - theirs / ours))) if ours else 0.0


def _sentence_bleu(row: FloatArray) -> float:
    ours, theirs, *counts = row.tolist()
    matches, totals = counts[: len(counts) // 2], counts[len(counts) // 2 :]
    return BLEU.compute_bleu(
        matches, totals, int(ours), int(theirs), smooth_method="exp", effective_order=True
    ).score
