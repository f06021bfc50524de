"""The page Heads: the report on all heads, and a model without the least important ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import torch
from msgspec import Meta

from regard.api import Model
from regard.core.errors import BadInput
from regard.inference.model_runner import ModelRunner
from regard.inside.heads.text_loss import losses_in_batches
from regard.inside.pruning.remove_heads import Head, prunable_sites, remove_heads
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead
from regard.models.paper import count_parameters
from regard.serving.apis.request import APIRequest, Routes
from regard.serving.served_model import ServedModel
from regard.studio.text_records import StudioRequest, Text, binary, run
from regard.text.segmentation import LabelledRows
from regard.views.view_record import ViewRecord

ROUTES = Routes()
MOST_TEXTS = 64
ROUNDS = 5  # forward passes that are timed


class HeadsRequest(StudioRequest, kw_only=True):
    """Texts on which heads are measured."""

    texts: Annotated[list[Text], Meta(min_length=1, max_length=MOST_TEXTS)]

    def check_input(self, served: ServedModel) -> None:
        if served.model.runner.reads_images:
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


@ROUTES.post("/studio/heads", HeadsRequest)
async def report(request: APIRequest, body: HeadsRequest) -> object:
    """What each head does."""

    def reported(served: ServedModel) -> ViewRecord:
        labels = _own_labels(served.model, body.texts)
        view = served.model.heads(body.texts, labels=labels).view_record()
        return replace(view, json={**view.json, "prunable": _prunable(served)})

    return binary(await run(request, body, reported), body.model)


def _prunable(served: ServedModel) -> list[str]:
    """Names of the attention sites whose heads can be removed."""
    try:
        return [site.name for site in prunable_sites(served.model.facts)]
    except BadInput:
        return []


class PruneRequest(HeadsRequest, kw_only=True):
    """Heads (attention, layer, head) that are removed."""

    heads: Sequence[tuple[str, int, int]] = ()


@ROUTES.post("/studio/prune", PruneRequest)
async def prune(request: APIRequest, body: PruneRequest) -> object:
    """A model without heads."""
    removed = [Head(*each) for each in body.heads]

    def compared(served: ServedModel) -> dict[str, Any]:
        model = served.model
        parts = (model.paper, model.facts, model.module, model.tokenizer, model.labels, model.notes)
        whole = LoadedModel(*parts)
        rows = [model.runner.read(text) for text in body.texts]
        labels = _own_labels(model, body.texts)
        names = model.labels.names if model.labels is not None else ()

        def loss(inspected: ModelRunner) -> Callable[[], float]:
            return _loss_of(inspected, rows, labels, names)

        smaller = remove_heads(whole, removed)
        return {
            "what": "labels of the whole model" if labels is not None else "tokens",
            "before": _measured(whole, loss),
            "after": _measured(smaller, loss),
            "removed": len(removed),
        }

    return await run(request, body, compared)


def _loss_of(
    model: ModelRunner, rows: list[LabelledRows], labels: list[str] | None, names: Sequence[str]
) -> Callable[[], float]:
    """Mean loss over texts, as a function that runs the model on all of them."""
    batches = losses_in_batches(model, rows, labels, names)
    if batches is None:
        raise BadInput("this model predicts neither tokens nor labels: there is no score to watch")

    @torch.inference_mode()
    def measured() -> float:
        return sum(float(total(model.run(inputs))) for inputs, total in batches) / len(rows)

    return measured


def _measured(
    model: LoadedModel, loss: Callable[[ModelRunner], Callable[[], float]]
) -> dict[str, float]:
    """Loss, milliseconds of a forward pass over all texts, and parameters."""
    measure, seconds = loss(Model(model).runner), []
    for _ in range(ROUNDS):
        began = perf_counter()
        value = measure()
        seconds.append(perf_counter() - began)
    parameters = count_parameters(model.module)
    return {"loss": value, "ms": 1_000 * median(seconds), "parameters": parameters}
