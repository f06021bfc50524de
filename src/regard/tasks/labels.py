"""Labels of texts and of words: their table, class weights and scores."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.core.config import Config
from regard.core.errors import BadInput
from regard.metrics.classification import (
    class_table,
    classification_scores,
    confusion,
    several_scores,
)
from regard.metrics.regression import regression_scores
from regard.tasks.task import TaskScores
from regard.text.label_sets import LabelSet, MultiLabelSet, RegressionSet, SingleLabelSet

ClassWeights = dict[str, Annotated[float, Field(gt=0)]] | Literal["balanced"]


class AnyLabelsConfig(Config):
    """Base class of tables ``[labels]``; ``unread``: keys that a kind of labels does not use."""

    unread: ClassVar[Mapping[str, tuple[str, ...]]]
    kind: str

    @model_validator(mode="after")
    def _keys_fit_the_kind(self) -> Self:
        for key in self.unread[self.kind]:
            if getattr(self, key) not in (None, False):
                raise ValueError(f"{key} cannot be used with labels of kind {self.kind!r}")
        return self


def class_weights(
    labels: LabelSet,
    weights: Mapping[str, float] | str | None,
    occurring: Iterable[int],
    *,
    complete: bool = True,
) -> tuple[float, ...] | None:
    """Weight of each class in the loss; "balanced": every class has the same total weight.

    If ``complete``, balanced classes must all occur in the examples; otherwise a class that does
    not occur has the weight 1.
    """
    if weights is None:
        return None
    if isinstance(weights, str):
        counts = Counter(occurring)
        missing = [name for number, name in enumerate(labels.names) if not counts[number]]
        if missing and complete:
            raise BadInput(f"labels.weights: balanced, but no example has the label {missing[0]!r}")
        share = counts.total() / (len(labels) - len(missing))
        return tuple(share / counts[n] if counts[n] else 1.0 for n in range(len(labels)))
    by_name = {labels.name(name, "labels.weights"): weight for name, weight in weights.items()}
    return tuple(by_name.get(name, 1.0) for name in labels.names)


def _score_classes(
    golds: Any, values: Any, with_interval: bool, positive: str | None = None
) -> TaskScores:
    scores = classification_scores(golds, values, with_interval, positive)
    return TaskScores(scores, class_table(golds, values), confusion(golds, values))


SCORES: dict[str, Callable[..., TaskScores]] = {
    SingleLabelSet.problem_type: _score_classes,
    MultiLabelSet.problem_type: lambda *given: TaskScores(several_scores(*given[:3])),
    RegressionSet.problem_type: lambda *given: TaskScores(regression_scores(*given[:3])),
}
"""Scoring functions by kind of labels: (golds, values, with_interval[, class of F1]) to scores."""
