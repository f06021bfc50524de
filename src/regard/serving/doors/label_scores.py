"""Scores of all labels of texts or pairs, as several doors return them."""

import math
from collections.abc import Sequence
from typing import Any

from regard.ground.errors import BadInput
from regard.serving.doors.door import Exchange
from regard.serving.doors.own import has_path
from regard.serving.served_model import ServedModel
from regard.text.labels import RegressionSet

TextOrPair = str | tuple[str, str]


def classifies(served: ServedModel) -> bool:
    """Whether a model gives labels to texts or pairs."""
    return has_path(served, "classify")


def reranks(served: ServedModel) -> bool:
    """Whether a model gives one number to each text or pair."""
    return classifies(served) and served.labels is not None and len(served.labels.names) == 1


async def label_scores(
    exchange: Exchange, served: ServedModel, inputs: Sequence[TextOrPair], *, raw: bool = False
) -> list[dict[str, float]]:
    """The probability of each label; of a model of numbers, their sigmoid. ``raw``: the logits."""
    if raw:
        return await _logits(exchange, served, inputs)
    results = await exchange.results(served, "predict", inputs)
    scores = [result.value.scores for result in results]
    if served.labels is None or served.labels.problem_type != RegressionSet.problem_type:
        return scores
    return [{name: sigmoid(value) for name, value in each.items()} for each in scores]


async def _logits(
    exchange: Exchange, served: ServedModel, inputs: Sequence[TextOrPair]
) -> list[dict[str, float]]:
    rows = await exchange.engine.prepare(served.name, "predict", inputs)
    for row in rows:
        if isinstance(row, BadInput):
            raise row
    tokens = sum(row.cost for row in rows if not isinstance(row, BadInput))

    def run(model: ServedModel) -> list[dict[str, float]]:
        component: Any = model.component("predict")
        if not hasattr(component, "logits"):
            raise BadInput("raw_scores: this model writes its labels; they have no logits")
        names = component.labels.names
        return [
            dict(zip(names, logits_V.tolist(), strict=True))
            for logits_V in component.logits([*inputs])
        ]

    return await exchange.engine.call(served.name, run, max(1, tokens), exchange.deadline)


def sigmoid(value: float) -> float:
    """The logistic function."""
    if value < 0:
        return math.exp(value) / (1 + math.exp(value))
    return 1 / (1 + math.exp(-value))


def best_first(scores: dict[str, float]) -> list[dict[str, Any]]:
    """Labels with their scores, the highest first."""
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    return [{"label": label, "score": score} for label, score in ordered]
