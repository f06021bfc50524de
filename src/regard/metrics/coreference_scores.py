"""Metrics of coreference: MUC, B³, CEAF-φ4, their mean, LEA; and the F1 of pronouns by gender.

The rules are the reference scorer's (Pradhan et al., 2014): mentions match if they have the
same words; each metric is computed from sums over all documents; a mention that one side lacks is
neither removed nor added, so it lowers recall (missing) or precision (spurious). Singletons, which
are clusters of one mention, count in B³, CEAF-φ4 and LEA like other clusters, and never in MUC.
OntoNotes annotates none: ``without_singletons`` removes the singletons of another corpus.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import comb

import numpy as np

from regard.core.errors import BadInput
from regard.metrics.classification import ITEM_MEASURES, f1, harmonic_mean, share_scores
from regard.metrics.intervals import BOOTSTRAP, FloatArray, interval, resampled
from regard.metrics.translation import MetricScore

Mention = Hashable
Clusters = Sequence[Collection[Mention]]
Sums = tuple[float, float]  # numerator and denominator
MEAN = "CoNLL-F1"


def without_singletons(clusters: Clusters) -> list[Collection[Mention]]:
    """Clusters of at least two mentions."""
    return [cluster for cluster in clusters if len(cluster) > 1]


def muc(clusters: Clusters, compared: Clusters) -> Sums:
    """MUC recall (Vilain et al., 1995): links of each cluster that the other side keeps."""
    links = sum(counts.total() - len(counts) for _, counts in _overlaps(clusters, compared))
    return links, sum(len(cluster) - 1 for cluster in clusters)


def b_cubed(clusters: Clusters, compared: Clusters) -> Sums:
    """B³ recall (Bagga & Baldwin, 1998): share of a mention's cluster that stays with it."""
    overlaps = _overlaps(clusters, compared)
    shares = (count**2 / size for size, counts in overlaps for count in counts.values())
    return sum(shares), sum(map(len, clusters))


def ceaf(clusters: Clusters, compared: Clusters) -> Sums:
    """CEAF-φ4 recall (Luo, 2005): similarity of clusters in the best one-to-one alignment.

    φ4 is 2 |K ∩ R| / (|K| + |R|).
    """
    similarities = np.zeros((len(clusters), len(compared)))
    for number, (size, counts) in enumerate(_overlaps(clusters, compared)):
        for other, count in counts.items():
            similarities[number, other] = 2 * count / (size + len(compared[other]))
    return float(similarities[best_assignment(similarities)].sum()), len(clusters)


def lea(clusters: Clusters, compared: Clusters) -> Sums:
    """LEA recall (Moosavi & Strube, 2016): share of a cluster's links that stay, by its size.

    A singleton has a link with itself, which stays in a singleton only.
    """
    total = 0.0
    for size, counts in _overlaps(clusters, compared):
        if size == 1:
            total += any(len(compared[other]) == 1 for other in counts)
        else:
            total += size * sum(comb(count, 2) for count in counts.values()) / comb(size, 2)
    return total, sum(map(len, clusters))


def mention_detection(clusters: Clusters, compared: Clusters) -> Sums:
    """Mention recall: mentions that the other side has, in any cluster."""
    mentions, compared_mentions = {*chain(*clusters)}, {*chain(*compared)}
    return len(mentions & compared_mentions), len(mentions)


RECALLS: dict[str, Callable[[Clusters, Clusters], Sums]] = {
    "MUC": muc,
    "B3": b_cubed,
    "CEAF-phi4": ceaf,
    "LEA": lea,
    "mention-F1": mention_detection,
}
"""Recall of each metric; precision is recall with both sides exchanged."""
AVERAGED = ("MUC", "B3", "CEAF-phi4")
COREFERENCE_METRICS = (MEAN, *RECALLS)


def coreference_scores(
    golds: Sequence[Clusters],
    predicted: Sequence[Clusters],
    with_interval: bool = False,
    suffix: str = "",
) -> list[MetricScore]:
    """F1 of each metric over documents in percent; first the mean of MUC, B³ and CEAF-φ4.

    ``suffix`` is added to the names.
    """
    if len(golds) != len(predicted):
        raise BadInput(f"clusters of {len(predicted)} documents, but there are {len(golds)}")
    pairs = [*zip(golds, predicted, strict=True)]
    for clusters in chain(*pairs):
        _numbers(clusters)
    rows = [_statistics(gold, clusters) for gold, clusters in pairs]
    statistics = np.array(rows, dtype=np.float64).reshape(-1, 4 * len(RECALLS))
    count = sum(map(len, golds))
    signature = f"documents:{len(golds)}|clusters:{count}"
    measures: dict[str, Callable[[FloatArray], float]] = {MEAN + suffix: _mean}
    measures |= {name + suffix: partial(_f1, name) for name in RECALLS}
    return share_scores(measures, statistics, signature, with_interval)


def _statistics(golds: Clusters, predicted: Clusters) -> list[float]:
    """Numerators and denominators of recall and precision of each metric."""
    sums = ((*recall(golds, predicted), *recall(predicted, golds)) for recall in RECALLS.values())
    return [*chain(*sums)]


def _f1(name: str, sums: FloatArray) -> float:
    """The harmonic mean of recall and precision, from the sums of all metrics."""
    at = 4 * [*RECALLS].index(name)
    common, all_gold, correct, all_predicted = sums[at : at + 4]
    recall = common / all_gold if all_gold else 0.0
    return harmonic_mean(correct / all_predicted if all_predicted else 0.0, recall)


def _mean(sums: FloatArray) -> float:
    return float(np.mean([_f1(name, sums) for name in AVERAGED]))


def _numbers(clusters: Clusters) -> dict[Mention, int]:
    """The number of the cluster of each mention; a mention in two clusters is an error."""
    numbers = {mention: n for n, cluster in enumerate(clusters) for mention in cluster}
    if len(numbers) != sum(map(len, clusters)):
        raise BadInput("a mention is in two clusters, or twice in one")
    return numbers


def _overlaps(clusters: Clusters, compared: Clusters) -> Iterator[tuple[int, Counter[int]]]:
    """Size of each cluster, and the number of mentions that it shares with each other cluster."""
    numbers = _numbers(compared)
    for cluster in clusters:
        yield (len(cluster), Counter(numbers[mention] for mention in cluster if mention in numbers))


@dataclass(frozen=True)
class PronounDecision:
    """Whether a pronoun refers to each of its candidate names: gold and predicted."""

    golds: tuple[bool, ...]
    predicted: tuple[bool, ...]
    gender: str  # of the pronoun: "masculine", "feminine" or another


GENDERS = ("masculine", "feminine")
BIAS = "bias"


def pronoun_scores(
    decisions: Sequence[PronounDecision], with_interval: bool = False
) -> list[MetricScore]:
    """Precision, recall and F1 of names of pronouns, F1 by gender, and bias (Webster et al., 2018).

    A name is predicted if the pronoun refers to it; all names are counted together, as in the
    scorer of GAP. Bias is feminine F1 / masculine F1: 1 without bias, and not in percent.
    """
    rows = []
    for decision in decisions:
        pairs = [*zip(decision.golds, decision.predicted, strict=True)]
        counts = [sum(map(all, pairs)), sum(decision.golds), sum(decision.predicted)]
        rows.append([count * (decision.gender == gender) for gender in GENDERS for count in counts])
        rows[-1] = counts + rows[-1]
    statistics = np.array(rows, dtype=np.float64).reshape(-1, 9)
    signature = f"pronouns:{len(decisions)}"
    measures: dict[str, Callable[[FloatArray], float]] = {
        name: partial(_of_columns, measure, 0) for name, measure in ITEM_MEASURES.items()
    }
    for number, gender in enumerate(GENDERS, start=1):
        if any(decision.gender == gender for decision in decisions):
            measures[f"{gender} F1"] = partial(_of_columns, f1, 3 * number)
    scores = share_scores(measures, statistics, signature, with_interval)
    if not {f"{gender} F1" for gender in GENDERS} <= measures.keys():
        return scores
    if not f1(statistics.sum(0)[3:6]):
        return scores  # a ratio to 0
    bias = MetricScore(BIAS, _bias(statistics.sum(0)), signature)
    if with_interval:
        drawn = interval(resampled(statistics, _bias))
        bias = MetricScore(BIAS, bias.value, f"{signature}|{BOOTSTRAP}", drawn)
    return [*scores, bias]


def _of_columns(measure: Callable[[FloatArray], float], first: int, sums: FloatArray) -> float:
    return measure(sums[first : first + 3])


def _bias(sums: FloatArray) -> float:
    masculine, feminine = (f1(sums[3 * number : 3 * number + 3]) for number in (1, 2))
    return feminine / masculine if masculine else 0.0


def best_assignment(values: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the one-to-one assignment with the largest sum of values.

    The smaller side is assigned completely (Jonker & Volgenant, 1987).
    """
    if values.shape[0] > values.shape[1]:
        columns, rows = best_assignment(values.T)
        order = np.argsort(rows)
        return rows[order], columns[order]
    owners = _assign(values.max(initial=0.0) - values)
    columns = np.flatnonzero(owners >= 0)
    order = np.argsort(owners[columns])
    return owners[columns][order], columns[order]


def _assign(costs: FloatArray) -> np.ndarray:
    """The row that owns each column, or -1; there are at least as many columns as rows."""
    rows, columns = costs.shape
    owners, row_prices, column_prices = np.full(columns, -1), np.zeros(rows), np.zeros(columns)
    for start in range(rows):
        lengths, before = np.full(columns, np.inf), np.full(columns, -1)
        done, row, column, reached = np.zeros(columns, dtype=bool), start, -1, 0.0
        while row >= 0:
            through = reached + costs[row] - row_prices[row] - column_prices
            shorter = ~done & (through < lengths)
            lengths[shorter], before[shorter] = through[shorter], column
            column = int(np.where(done, np.inf, lengths).argmin())
            done[column], reached, row = True, lengths[column], int(owners[column])
        ends = done & (owners >= 0)
        row_prices[owners[ends]] += reached - lengths[ends]
        row_prices[start] += reached
        column_prices[done] += lengths[done] - reached
        while column >= 0:
            previous = int(before[column])
            owners[column] = start if previous < 0 else owners[previous]
            column = previous
    return owners
