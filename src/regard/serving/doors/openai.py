"""The door of OpenAI's clients: /v1/embeddings, /v1/completions and /v1/models."""

import time
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from starlette.responses import Response

from regard.ground.errors import BadInput
from regard.serving.doors.completions import CompletionRequest, complete, error
from regard.serving.doors.door import (
    Door,
    DoorRoute,
    Exchange,
    TextsOrIds,
    base64_of,
    json_response,
    texts_or_ids,
)
from regard.serving.served_model import ServedModel

STARTED = int(time.time())


class EmbeddingRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Texts, or token ids; vectors of fewer ``dimensions`` are the first numbers of the whole."""

    model: str
    input: TextsOrIds
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    user: str | None = None


async def embed(exchange: Exchange) -> Response:
    """One vector for each input."""
    body = exchange.json(EmbeddingRequest)
    served = exchange.choose_model(body.model, lambda model: "embed" in model.components, "vectors")
    exchange.note_user(body.user)
    results = await exchange.results(served, "embed", texts_or_ids(body.input, "input"))
    vectors = [shortened(result.value, body.dimensions) for result in results]
    written = [base64_of(v) for v in vectors] if body.encoding_format == "base64" else vectors
    tokens = sum(result.usage for result in results)
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(written)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return await exchange.respond(
        {"object": "list", "data": data, "model": served.name, "usage": usage}
    )


def shortened(vector_D: np.ndarray, dimensions: int | None) -> np.ndarray:
    """The first numbers of a vector; of a vector of length 1, with length 1 again."""
    if dimensions is None:
        return vector_D
    if dimensions > len(vector_D):
        raise BadInput(f"dimensions: the vectors of this model have {len(vector_D)}")
    part, length = vector_D[:dimensions], float(np.linalg.norm(vector_D))
    return part / max(float(np.linalg.norm(part)), 1e-12) if abs(length - 1) < 1e-3 else part


def _model(served: ServedModel) -> dict[str, object]:
    return {"id": served.name, "object": "model", "created": STARTED, "owned_by": "regard"}


async def list_models(exchange: Exchange) -> Response:
    """All models."""
    models = [*map(_model, exchange.engine.models.values())]
    return json_response({"object": "list", "data": models})


async def show_model(exchange: Exchange) -> Response:
    """One model."""
    name = exchange.request.path_params["name"]
    return json_response(_model(exchange.choose_model(name, lambda _: True, "anything")))


ROUTES = [
    DoorRoute("POST", "/v1/embeddings", embed, "One vector for each input.", EmbeddingRequest),
    DoorRoute("POST", "/v1/completions", complete, "Continue prompts.", CompletionRequest),
    DoorRoute("GET", "/v1/models", list_models, "All models."),
    DoorRoute("GET", "/v1/models/{name}", show_model, "One model."),
]
DOOR = Door("OpenAI", ROUTES, error)
