"""BLEU (Papineni et al., 2002): clipped n-gram precisions, their geometric mean, brevity penalty.

``bleu`` is sacreBLEU's score; ``explain`` computes the same score step by step.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import Literal

from sacrebleu.metrics import BLEU

from regard.core.errors import BadInput, did_you_mean, reason_of
from regard.metrics.translation import MetricScore, check_parallel, measured

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
