"""Scores of sacreBLEU's metrics: of a corpus, of two systems compared, by length of the source."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sacrebleu.metrics.base import Metric

from regard.core.checks import listed
from regard.core.errors import BadInput, shown
from regard.metrics.intervals import (
    SAMPLES,
    SEED,
    FloatArray,
    Interval,
    interval,
    paired_p_value,
    resampled,
)
from regard.metrics.paired import ExampleStatistics

Lines = Sequence[str]


@dataclass(frozen=True)
class MetricScore:
    """A corpus score in percent, and the signature of the metric.

    Higher is better, except for TER, which counts edits and may exceed 100, and perplexity.
    """

    name: str
    value: float
    signature: str
    interval: Interval | None = None
    statistics: ExampleStatistics | None = field(default=None, repr=False, compare=False)
    """Statistics of each example, for paired tests."""

    def __str__(self) -> str:
        around = f" [{self.interval.low:.2f}, {self.interval.high:.2f}]" if self.interval else ""
        return f"{self.name} {self.value:.2f}{around}  {self.signature}"


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences, and the p-value of their difference.

    ``p_value`` is None below 50 sentences (see ``paired_p_value``). Scores with different
    signatures are refused.
    """

    baseline: MetricScore
    system: MetricScore
    p_value: float | None

    def __post_init__(self) -> None:
        first, second = (f"{it.name} {it.signature}" for it in (self.baseline, self.system))
        if first != second:
            raise BadInput(
                f"scores of different signatures cannot be compared: {first} and {second}"
            )

    @property
    def difference(self) -> float:
        """The score of the system minus the score of the baseline."""
        return self.system.value - self.baseline.value


def measured(
    metric: Metric, hypotheses: Lines, references: Sequence[Lines], with_interval: bool = False
) -> MetricScore:
    """The corpus score of a sacreBLEU metric, with a bootstrap interval on request."""
    return scored(metric, segment_statistics(metric, hypotheses, references), with_interval)


def scored(metric: Metric, statistics: FloatArray, with_interval: bool = False) -> MetricScore:
    """The score from some or all rows of ``segment_statistics``."""
    return _score(metric, statistics, _resampled(metric, statistics) if with_interval else None)


def compare(
    metric: Metric, baseline: Lines, system: Lines, references: Sequence[Lines]
) -> Comparison:
    """Paired bootstrap test of two systems that translated the same sentences."""
    systems = {"the baseline": baseline, "the system": system}
    rows = [segment_statistics(metric, systems[name], references, [name]) for name in systems]
    draws = [_resampled(metric, statistics) for statistics in rows]
    first, second = (_score(metric, *both) for both in zip(rows, draws, strict=True))
    difference = second.value - first.value
    p_value = paired_p_value(draws[0], draws[1], difference, len(rows[0]))
    return Comparison(first, second, p_value)


def segment_statistics(
    metric: Metric, hypotheses: Lines, references: Sequence[Lines], names: Sequence[str] = ()
) -> FloatArray:
    """Match counts and lengths, one row per segment; ``metric`` is a function of their sums."""
    hypotheses, references = check_parallel(hypotheses, references, names)
    # sacreBLEU has no public door to these; a test compares what follows with `corpus_score`.
    return np.array(metric._extract_corpus_statistics(hypotheses, references), dtype=np.float64)


def check_parallel(
    hypotheses: Lines, references: Sequence[Lines], names: Sequence[str] = ()
) -> tuple[list[str], list[list[str]]]:
    """Return hypotheses and references as lists; every reference needs a line per hypothesis.

    ``names`` are the files of hypotheses and references, for the message.
    """
    system: list[str] = listed(hypotheses)
    streams: list[list[str]] = [listed(lines) for lines in listed(references, "references")]
    numbered = [f"reference {number}" for number in range(1, len(streams) + 1)]
    called = [*names, *["the hypotheses", *numbered][len(names) :]]
    if not streams:
        raise BadInput(f"{called[0]}: no references to score against")
    for name, lines in zip(called[1:], streams, strict=True):
        if len(lines) != len(system):
            differ = f"line counts differ: {len(system)} in {called[0]}, {len(lines)} in {name}"
            raise BadInput(f"{differ}; every hypothesis needs a line in every reference")
    if not system:
        raise BadInput(f"{called[0]}: no lines to score")
    for name, lines in zip(called, (system, *streams), strict=True):
        for number, line in enumerate(lines, start=1):
            if not isinstance(line, str):
                raise BadInput(f"{name}: line {number} is {shown(line)}, not a text")
    return system, streams


def _resampled(metric: Metric, statistics: FloatArray) -> FloatArray:
    return resampled(statistics, partial(_corpus_score, metric))


def _corpus_score(metric: Metric, sums: FloatArray) -> float:
    return float(metric._compute_score_from_stats(list(sums)).score)


def _score(metric: Metric, statistics: FloatArray, draws: FloatArray | None) -> MetricScore:
    result = metric._compute_score_from_stats(list(statistics.sum(axis=0)))
    metric.n_bootstrap, metric.seed = (None, None) if draws is None else (SAMPLES, SEED)
    around = None if draws is None else interval(draws)
    signature = metric.get_signature().format()
    examples = ExampleStatistics.of_sums(statistics, partial(_corpus_score, metric))
    return MetricScore(result.name, float(result.score), signature, around, examples)


@dataclass(frozen=True)
class LengthBucket:
    """Sentences of ``shortest`` to ``longest`` words, their number, mean length and score."""

    shortest: int
    longest: int
    sentences: int
    mean: float
    score: MetricScore

    def __str__(self) -> str:
        if self.shortest == self.longest:
            return str(self.shortest)
        return f"{self.shortest}–{self.longest}"


def by_length(
    metric: Metric,
    hypotheses: Lines,
    references: Sequence[Lines],
    lengths: Sequence[int],
    buckets: int = 5,
) -> list[LengthBucket]:
    """Scores over buckets of about equally many sentences; each length is in one bucket."""
    statistics = segment_statistics(metric, hypotheses, references)
    length_N = np.asarray(lengths)
    scored_buckets = []
    for shortest, longest in limits(lengths, buckets):
        chosen_N = (length_N >= shortest) & (length_N <= longest)
        score = scored(metric, statistics[chosen_N])
        mean = float(length_N[chosen_N].mean())
        scored_buckets.append(LengthBucket(shortest, longest, int(chosen_N.sum()), mean, score))
    return scored_buckets


def limits(lengths: Sequence[int], buckets: int) -> list[tuple[int, int]]:
    """Shortest and longest source length of each bucket."""
    values, counts = np.unique(np.asarray(lengths), return_counts=True)
    middles = (counts.cumsum() - counts / 2) / max(1, counts.sum())
    number = np.minimum((middles * buckets).astype(int), buckets - 1)
    lengths_of = (values[number == bucket] for bucket in np.unique(number))
    return [(int(inside.min()), int(inside.max())) for inside in lengths_of]
