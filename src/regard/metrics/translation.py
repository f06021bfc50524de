"""Scores of sacreBLEU's metrics: of a corpus, of two systems compared, by length of the source.

BLEU (Papineni et al., 2002) is clipped n-gram precisions, their geometric mean and a brevity
penalty: ``bleu`` is sacreBLEU's score; ``explain`` computes the same score step by step.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import add
from typing import Literal

import numpy as np
from sacrebleu.metrics import BLEU
from sacrebleu.metrics.base import Metric

from regard.core.checks import listed
from regard.core.errors import BadInput, did_you_mean, reason_of, shown
from regard.metrics.intervals import (
    SAMPLES,
    SEED,
    ExampleStatistics,
    FloatArray,
    Interval,
    interval,
    paired_p_value,
    resampled,
)

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


TOKENIZERS = tuple(BLEU.TOKENIZERS)
LONGEST = 4

Smoothing = Literal["exp", "none"]


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    smoothing: Smoothing = "exp",
    with_interval: bool = False,
) -> MetricScore:
    """Corpus BLEU. ``references``: one list of lines per reference, any number of them."""
    metric = bleu_metric(tokenize, lowercase, smoothing)
    return measured(metric, hypotheses, references, with_interval)


def bleu_metric(
    tokenize: str = "13a", lowercase: bool = False, smoothing: Smoothing = "exp"
) -> BLEU:
    """BLEU of sacreBLEU; an unknown or missing tokeniser is a ``BadInput``."""
    if tokenize not in TOKENIZERS:
        raise BadInput(f"unknown tokeniser {tokenize!r}{did_you_mean(tokenize, TOKENIZERS)}")
    forced = tokenize == "none"  # sacreBLEU then has no reason to warn of tokenised text
    try:
        return BLEU(lowercase=lowercase, force=forced, tokenize=tokenize, smooth_method=smoothing)
    except (ImportError, RuntimeError, OSError) as error:
        reason = reason_of(error)
        raise BadInput(f"tokeniser {tokenize!r} cannot be used here: {reason}") from error


@dataclass(frozen=True)
class Ngram:
    """Counts of one n-gram, summed over the segments whose hypothesis contains it.

    ``count`` is its count in the hypothesis, ``in_references`` the maximum over references,
    ``clipped`` the smaller of the two, which BLEU counts as matches. ``unclipped`` is ``count`` if
    any reference contains it: the matches without clipping.
    """

    tokens: tuple[str, ...]
    count: int
    in_references: int
    clipped: int
    unclipped: int


@dataclass(frozen=True)
class NgramOrder:
    """The n-grams of one length, most frequent first."""

    n: int
    ngrams: tuple[Ngram, ...]

    @cached_property
    def total(self) -> int:
        return sum(ngram.count for ngram in self.ngrams)

    @cached_property
    def clipped(self) -> int:
        return sum(ngram.clipped for ngram in self.ngrams)

    @cached_property
    def unclipped(self) -> int:
        return sum(ngram.unclipped for ngram in self.ngrams)


@dataclass(frozen=True)
class Explanation:
    """All intermediate results of BLEU.

    ``closest_length`` sums the lengths of the references that are closest in length to their
    hypotheses (the shorter one of a tie).
    """

    orders: tuple[NgramOrder, ...]
    hypothesis_length: int
    reference_lengths: tuple[int, ...]
    closest_length: int
    smoothing: Smoothing
    signature: str

    @property
    def weight(self) -> float:
        return 1 / len(self.orders)

    @property
    def precisions(self) -> tuple[float, ...]:
        return tuple(_precisions(self.orders, self.smoothing))

    @property
    def brevity_penalty(self) -> float:
        if self.hypothesis_length >= self.closest_length:
            return 1.0
        if self.hypothesis_length == 0:
            return 0.0
        return math.exp(1 - self.closest_length / self.hypothesis_length)

    @property
    def bleu(self) -> float:
        if min(self.precisions) == 0:
            return 0.0
        mean = sum(self.weight * math.log(precision) for precision in self.precisions)
        return 100 * self.brevity_penalty * math.exp(mean)


def explain(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    smoothing: Smoothing = "exp",
) -> Explanation:
    """BLEU with its intermediate results; ``Explanation.bleu`` equals ``bleu(...).value``."""
    hypotheses, references = check_parallel(hypotheses, references)
    metric = bleu_metric(tokenize, lowercase, smoothing)
    metric.num_refs = len(references)

    def tokens(line: str) -> list[str]:
        return metric.tokenizer((line.lower() if lowercase else line).rstrip()).split()

    ours = [tokens(line) for line in hypotheses]
    theirs = [[tokens(line) for line in lines] for lines in zip(*references, strict=True)]
    return Explanation(
        orders=tuple(_order(n, ours, theirs) for n in range(1, LONGEST + 1)),
        hypothesis_length=sum(map(len, ours)),
        reference_lengths=tuple(sum(map(len, stream)) for stream in zip(*theirs, strict=True)),
        closest_length=sum(map(_closest_length, ours, theirs)),
        smoothing=smoothing,
        signature=metric.get_signature().format(),
    )


def _order(n: int, ours: list[list[str]], theirs: list[list[list[str]]]) -> NgramOrder:
    sums: dict[tuple[str, ...], list[int]] = {}
    for hypothesis, references in zip(ours, theirs, strict=True):
        reference_counts = [_ngrams(reference, n) for reference in references]
        for tokens, count in _ngrams(hypothesis, n).items():
            most = max(reference.get(tokens, 0) for reference in reference_counts)
            counts = (count, most, min(count, most), count if most else 0)
            sums[tokens] = [*map(add, sums.get(tokens, (0,) * 4), counts)]
    ngrams = (Ngram(tokens, *numbers) for tokens, numbers in sums.items())
    return NgramOrder(n, tuple(sorted(ngrams, key=lambda ngram: -ngram.count)))


def _ngrams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


def _closest_length(hypothesis: list[str], references: list[list[str]]) -> int:
    return min(map(len, references), key=lambda size: (abs(size - len(hypothesis)), size))


def _precisions(orders: Sequence[NgramOrder], smoothing: Smoothing) -> Iterator[float]:
    """Clipped precisions; with "exp", the k-th order without a match counts 1/2ᵏ matches (NIST)."""
    credit = 1.0 if smoothing == "exp" and any(order.clipped for order in orders) else 0.0
    for order in orders:
        if order.total == 0:
            yield 0.0
        elif order.clipped:
            yield order.clipped / order.total
        else:
            credit /= 2
            yield credit / order.total
