"""Semantic roles: precision, recall and F1 of arguments by the rules of srl-eval.pl (CoNLL-2005).

- An argument is correct if its label and all its words are. The argument "V", the predicate itself,
  is not counted.
- Spans labelled C-X continue the last X before them: together they are one argument X, which is
  correct as a whole. A C-X without such an X is an argument X.
- R-X, a reference to the argument X such as "who", is a label of its own.
- Frames are compared by the position of their predicate. A gold frame that was not predicted has
  only missed arguments; a predicted frame without a gold one is left out.
- A frame is perfect if no argument is missed and none is predicted in excess.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regard.core.errors import BadInput
from regard.metrics.classification import (
    ITEM_MEASURES,
    LabelScore,
    Measure,
    label_table,
    share_scores,
)
from regard.metrics.classification import f1 as f1_of_counts
from regard.metrics.entities import LabelledSpan
from regard.metrics.intervals import FloatArray
from regard.metrics.translation import MetricScore

VERB, CONTINUED = "V", "C-"
Frames = Mapping[int, Sequence[LabelledSpan]]
"""The arguments of each predicate of a sentence, by the index of its word."""


class Argument(NamedTuple):
    """A label and its words: one span (start, end), or several."""

    label: str
    spans: tuple[tuple[int, int], ...]


def join_continuations(spans: Iterable[LabelledSpan]) -> list[Argument]:
    """Arguments of a frame, in order, with their continuations C-X."""
    arguments: list[Argument] = []
    last: dict[str, int] = {}  # the last argument of each label
    for start, end, label in sorted(spans):
        name = label.removeprefix(CONTINUED)
        if label.startswith(CONTINUED) and name in last:
            begun = arguments[last[name]]
            arguments[last[name]] = Argument(name, (*begun.spans, (start, end)))
        else:
            last[name] = len(arguments)
            arguments.append(Argument(name, ((start, end),)))
    return arguments


def role_scores(
    golds: Sequence[Frames], predicted: Sequence[Frames], with_interval: bool = False
) -> list[MetricScore]:
    """Precision, recall and F1 of arguments, and the share of perfect frames, in percent.

    Each sentence has frames; intervals resample sentences.
    """
    sentences = [_counts(*both) for both in _pairs(golds, predicted)]
    statistics = np.array(sentences, dtype=np.float64)
    _, arguments, _, _, frames = statistics.sum(axis=0).astype(int)
    signature = f"sentences:{len(golds)}|predicates:{frames}|arguments:{arguments}"
    measures = {name: _of_arguments(measure) for name, measure in ITEM_MEASURES.items()}
    measures["perfect frames"] = _perfect_frames
    return share_scores(measures, statistics, signature, with_interval)


def role_table(golds: Sequence[Frames], predicted: Sequence[Frames]) -> list[LabelScore]:
    """The scores of each label that occurs, sorted."""
    return label_table(frame for both in _pairs(golds, predicted) for frame in _compared(*both))


def predicate_f1(
    golds: Sequence[Frames], predicted: Sequence[Iterable[int]], with_interval: bool = False
) -> list[MetricScore]:
    """F1 of predicates that a model found by itself, in percent."""
    pairs = [({*gold}, {*named}) for gold, named in zip(golds, predicted, strict=True)]
    counts = [(len(gold & named), len(gold), len(named)) for gold, named in pairs]
    signature = f"sentences:{len(golds)}|predicates:{sum(len(gold) for gold, _ in pairs)}"
    statistics = np.array(counts, dtype=np.float64)
    return share_scores({"predicate F1": f1_of_counts}, statistics, signature, with_interval)


def _compared(gold: Frames, prediction: Frames) -> list[tuple[set[Argument], set[Argument]]]:
    """Gold and predicted arguments of each gold frame."""
    return [(_counted(spans), _counted(prediction.get(at, ()))) for at, spans in gold.items()]


def _counted(spans: Iterable[LabelledSpan]) -> set[Argument]:
    return {argument for argument in join_continuations(spans) if argument.label != VERB}


def _counts(gold: Frames, prediction: Frames) -> tuple[int, int, int, int, int]:
    """Correct, gold and predicted arguments of a sentence; perfect frames, and all."""
    frames = _compared(gold, prediction)
    right = sum(len(of_gold & of_prediction) for of_gold, of_prediction in frames)
    golden, named = (sum(len(frame[side]) for frame in frames) for side in range(2))
    perfect = sum(of_gold == of_prediction for of_gold, of_prediction in frames)
    return right, golden, named, perfect, len(frames)


def _of_arguments(measure: Measure) -> Measure:
    return lambda sums: measure(sums[:3])


def _perfect_frames(sums: FloatArray) -> float:
    return float(sums[3] / sums[4]) if sums[4] else 0.0


def _pairs(golds: Sequence[Frames], predicted: Sequence[Frames]) -> list[tuple[Frames, Frames]]:
    if len(golds) != len(predicted):
        raise BadInput(f"frames for {len(predicted)} of {len(golds)} sentences")
    if not golds:
        raise BadInput("no sentences to score against")
    return [*zip(golds, predicted, strict=True)]
