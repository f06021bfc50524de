"""Scores of all labels of texts or pairs, as several APIs return them."""

import math
from collections.abc import Sequence

from msgspec import Struct

from regard.core.errors import BadInput
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.serving.apis.own import has_path
from regard.serving.apis.request import APIRequest
from regard.serving.served_model import ModelInput, ServedModel
from regard.text.label_sets import RegressionSet


def classifies(served: ServedModel) -> bool:
    """Whether a model gives labels to texts or pairs."""
    return has_path(served, "classify")


def reranks(served: ServedModel) -> bool:
    """Whether a model gives one number to each text or pair."""
    return classifies(served) and served.labels is not None and len(served.labels.names) == 1


async def label_scores(
    request: APIRequest, served: ServedModel, inputs: Sequence[ModelInput], *, raw: bool = False
) -> list[dict[str, float]]:
    """The probability of each label of texts, pairs or images; ``raw``: the logits.

    Of a model of numbers, the sigmoid of each number.
    """
    if raw:
        return await _logits(request, served, inputs)
    results = await request.results(served, "predict", inputs)
    scores = [result.value.scores for result in results]
    if served.labels is None or served.labels.problem_type != RegressionSet.problem_type:
        return scores
    return [{name: sigmoid(value) for name, value in each.items()} for each in scores]


async def _logits(
    request: APIRequest, served: ServedModel, inputs: Sequence[ModelInput]
) -> list[dict[str, float]]:
    if served.model.facts.sides != TrunkWithHeads.sides:
        raise BadInput("raw_scores: this model writes its labels; they have no logits")
    rows = await request.rows(served, "predict", inputs)

    def run(model: ServedModel, numbers: Sequence[int]) -> list[dict[str, float]]:
        labels = model.model.predictor.labels
        names = () if labels is None else labels.names
        all_logits = model.model.logits([inputs[n] for n in numbers], as_numpy=True)
        return [dict(zip(names, logits_V.tolist(), strict=True)) for logits_V in all_logits]

    return await request.call(served, rows, run)


def sigmoid(value: float) -> float:
    """The logistic function."""
    if value < 0:
        return math.exp(value) / (1 + math.exp(value))
    return 1 / (1 + math.exp(-value))


class RankedLabel(Struct):
    label: str
    score: float


def best_first(scores: dict[str, float]) -> list[RankedLabel]:
    """Labels with their scores, the highest first."""
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    return [RankedLabel(label, score) for label, score in ordered]
