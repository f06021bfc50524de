"""The page Heads: the report on all heads, and a model without the least important ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import torch
from msgspec import Meta
from starlette.responses import Response

from regard.api import Model
from regard.ground.errors import BadInput
from regard.inside.heads.text_loss import label_loss, text_loss
from regard.inside.inspected_model import InspectedModel, LabelledRows
from regard.inside.pruning.remove_heads import Head, prunable_sites, remove_heads
from regard.inside.views.view_record import ViewRecord
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead
from regard.models.paper import count_parameters
from regard.serving.doors.door import DoorRoute, Exchange, json_response
from regard.serving.served_model import ServedModel
from regard.studio.text_records import StudioRequest, Text, binary, run

MOST_TEXTS = 64
ROUNDS = 5  # forward passes that are timed


class HeadsRequest(StudioRequest, kw_only=True):
    """Texts on which heads are measured."""

    texts: Annotated[list[Text], Meta(min_length=1, max_length=MOST_TEXTS)]

    def check_input(self, served: ServedModel) -> None:
        if served.model.inspected.reads_images:
            raise BadInput(f"model {served.name} reads images: heads are measured here on texts")
        super().check_input(served)

    @property
    def tokens(self) -> int:
        return 1 + sum(map(len, self.texts)) // 4


def _is_classifier(model: Model) -> bool:
    return LabelHead.name in model.facts.head_names


def _own_labels(model: Model, texts: list[str]) -> list[str] | None:
    """Labels that a classifier predicts, in place of gold labels; None: it is no classifier."""
    return [each.label for each in model.predict(texts)] if _is_classifier(model) else None


async def report(exchange: Exchange) -> Response:
    """What each head does; importance is that for the model's own predictions."""
    body = exchange.json(HeadsRequest)

    def reported(served: ServedModel) -> ViewRecord:
        labels = _own_labels(served.model, body.texts)
        view = served.model.heads(body.texts, labels=labels).view_record()
        return replace(view, json={**view.json, "prunable": _prunable(served)})

    return binary(await run(exchange, body, reported), body.model)


def _prunable(served: ServedModel) -> list[str]:
    """Names of the attention sites whose heads can be removed."""
    try:
        return [site.name for site in prunable_sites(served.facts)]
    except BadInput:
        return []


class PruneRequest(HeadsRequest, kw_only=True):
    """Heads (attention, layer, head) that are removed."""

    heads: Sequence[tuple[str, int, int]] = ()


async def prune(exchange: Exchange) -> Response:
    """Loss, time and size of a model, whole and without some heads."""
    body = exchange.json(PruneRequest)
    removed = [Head(*each) for each in body.heads]

    def compared(served: ServedModel) -> dict[str, Any]:
        model = served.model
        parts = (model.paper, model.facts, model.module, model.tokenizer, model.labels, model.notes)
        whole = LoadedModel(*parts)
        rows = [model.inspected.read(text) for text in body.texts]
        labels = _own_labels(model, body.texts)
        names = model.labels.names if model.labels is not None else ()

        def loss(inspected: InspectedModel) -> Callable[[], float]:
            return _loss_of(inspected, rows, labels, names)

        smaller = remove_heads(whole, removed)
        return {
            "what": "labels of the whole model" if labels is not None else "tokens",
            "before": _measured(whole, loss),
            "after": _measured(smaller, loss),
            "removed": len(removed),
        }

    return json_response(await run(exchange, body, compared))


def _loss_of(
    model: InspectedModel, rows: list[LabelledRows], labels: list[str] | None, names: Sequence[str]
) -> Callable[[], float]:
    """Mean loss over texts, as a function that runs the model once."""
    batch = text_loss(model, rows) if labels is None else label_loss(model, rows, labels, names)
    if batch is None:
        raise BadInput("this model predicts neither tokens nor labels: there is no score to watch")
    inputs, total = batch

    @torch.inference_mode()
    def measured() -> float:
        return float(total(model.run(inputs))) / len(inputs)

    return measured


def _measured(
    model: LoadedModel, loss: Callable[[InspectedModel], Callable[[], float]]
) -> dict[str, float]:
    """Loss, milliseconds of a forward pass over all texts, and parameters."""
    measure, seconds = loss(InspectedModel.of(model)), []
    for _ in range(ROUNDS):
        began = perf_counter()
        value = measure()
        seconds.append(perf_counter() - began)
    parameters = count_parameters(model.module)
    return {"loss": value, "ms": 1_000 * median(seconds), "parameters": parameters}


ROUTES = [
    DoorRoute("POST", "/studio/heads", report, "What each head does.", HeadsRequest),
    DoorRoute("POST", "/studio/prune", prune, "A model without heads.", PruneRequest),
]
