"""Metrics of SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016, 2018): exact match and F1 of answers.

For a question without gold answers, only a prediction that normalises to "" is right.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from math import isfinite, nextafter
from typing import NamedTuple

import numpy as np

from regard.core.errors import BadInput
from regard.metrics.classification import in_percent
from regard.metrics.intervals import ExampleStatistics, FloatArray, resampled
from regard.metrics.translation import Lines, MetricScore

Golds = Sequence[Lines]  # the answers to each question
Match = Callable[[str, str], float]
"""From a gold answer and a predicted one to a number from 0 to 1."""

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


class Threshold(NamedTuple):
    """The no-answer threshold, and the score in percent that it reaches."""

    value: float
    score: float


def normalised(answer: str) -> str:
    """Normalise an answer: lower case, single spaces, no punctuation and articles."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(gold: str, predicted: str) -> float:
    """Exact match: 1 if both are equal after normalisation, else 0."""
    return float(normalised(gold) == normalised(predicted))


def token_f1(gold: str, predicted: str) -> float:
    """F1 of the bags of words; 1 if both are empty."""
    golden, named = normalised(gold).split(), normalised(predicted).split()
    if not golden or not named:
        return float(golden == named)
    shared = (Counter(golden) & Counter(named)).total()
    return 2 * shared / (len(golden) + len(named))


MATCHES: dict[str, Match] = {"exact match": exact_match, "F1": token_f1}


def answer_scores(golds: Golds, predicted: Lines, with_interval: bool = False) -> list[MetricScore]:
    """Exact match and F1 with the best-matching gold answer of each question, in percent.

    If some questions have no answer, also over the questions that have one (HasAns) and those that
    have none (NoAns).
    """
    _check(golds, predicted)
    answerable_N = np.array([any(answers) for answers in golds])
    parts = {"": np.full(len(golds), True)}
    if not answerable_N.all():
        parts |= {"HasAns ": answerable_N, "NoAns ": ~answerable_N}
    matched = {name: _matched(match, golds, predicted) for name, match in MATCHES.items()}
    return [
        _mean_score(part + name, matched_N[chosen_N], with_interval)
        for part, chosen_N in parts.items()
        if chosen_N.any()
        for name, matched_N in matched.items()
    ]


def best_threshold(
    golds: Golds, predicted: Lines, no_answer_scores: Sequence[float]
) -> dict[str, Threshold]:
    """The best threshold on ``no_answer_scores`` for each of ``MATCHES``.

    ``predicted`` are the best non-empty answers; questions above the threshold get none. The lowest
    of equally good thresholds is returned.
    """
    _check(golds, predicted)
    if len(no_answer_scores) != len(golds):
        raise BadInput(f"{len(no_answer_scores)} no-answer scores for {len(golds)} questions")
    if not all(map(isfinite, no_answer_scores)):
        raise BadInput("no-answer scores: not all of them are finite numbers")
    return {
        name: _best(golds, predicted, no_answer_scores, _matched(match, golds, predicted))
        for name, match in MATCHES.items()
    }


def _best(
    golds: Golds, predicted: Lines, no_answer_scores: Sequence[float], matched_N: FloatArray
) -> Threshold:
    """Try all thresholds, from no question answered to all; equal scores stay together."""
    right = float(sum(not any(answers) for answers in golds))
    matched = matched_N.tolist()
    # 0 lies below all probabilities, though not below all differences of logits
    best = Threshold(min(0.0, nextafter(min(no_answer_scores), -np.inf)), right)
    in_order = sorted(range(len(golds)), key=no_answer_scores.__getitem__)
    for value, together in groupby(in_order, key=no_answer_scores.__getitem__):
        for number in together:
            right += matched[number] if any(golds[number]) else -bool(predicted[number])
        if right > best.score:
            best = Threshold(value, right)
    return best._replace(score=100 * best.score / len(golds))


def _matched(match: Match, golds: Golds, predicted: Lines) -> FloatArray:
    """Match of each question with its best-matching gold answer.

    As in the script of SQuAD 2.0, gold answers that normalise to "" are ignored.
    """

    def best(answers: Sequence[str], prediction: str) -> float:
        return max(match(gold, prediction) for gold in [*filter(normalised, answers)] or [""])

    return np.array([*map(best, golds, predicted)])


def _mean_score(name: str, matched_N: FloatArray, with_interval: bool) -> MetricScore:
    size = len(matched_N)
    drawn = resampled(matched_N[:, None], lambda sums: sums[0] / size) if with_interval else None
    binary = bool(np.isin(matched_N, (0, 1)).all())
    examples = ExampleStatistics(matched_N[:, None], _percent_of_matches, binary)
    return in_percent(name, float(matched_N.mean()), f"questions:{size}", drawn, examples)


def _percent_of_matches(matched_N1: FloatArray) -> float:
    return 100 * float(matched_N1.mean())


def _check(golds: Golds, predicted: Lines) -> None:
    if any(isinstance(answers, str) for answers in golds):
        raise TypeError("golds: a list of answers for each question")
    if len(golds) != len(predicted):
        raise BadInput(f"{len(predicted)} answers predicted for {len(golds)} questions")
    if not golds:
        raise BadInput("no questions to score against")
