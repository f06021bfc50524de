"""The API of OpenAI's clients: /v1/embeddings, /v1/completions and /v1/models."""

import time
from typing import Annotated, Literal

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from regard.core.errors import BadInput
from regard.serving.apis.completions import CompletionAnswer, CompletionRequest, complete, error
from regard.serving.apis.json_body import TextsOrIds, base64_of, texts_or_ids
from regard.serving.apis.request import API, APIRequest, Routes
from regard.serving.served_model import ServedModel

ROUTES = Routes()
STARTED = int(time.time())


class EmbeddingRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Texts, or token ids; vectors of fewer ``dimensions`` are the first numbers of the whole.

    ``prompt_name`` is not OpenAI's: a prompt of the model, which is put before each text.
    """

    model: str
    input: TextsOrIds
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    prompt_name: str | None = None
    user: str | None = None


class EmbeddingItem(Struct):
    """A vector, as numbers or in base64."""

    index: int
    embedding: list[float] | str
    object: Literal["embedding"] = "embedding"


class EmbeddingUsage(Struct):
    prompt_tokens: int
    total_tokens: int


class EmbeddingAnswer(Struct):
    """Vectors; ``truncated`` are the indices of inputs that were cut."""

    data: list[EmbeddingItem]
    model: str
    usage: EmbeddingUsage
    object: Literal["list"] = "list"
    truncated: list[int] | UnsetType = UNSET


class ModelEntry(Struct):
    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "regard"


class ModelEntries(Struct):
    data: list[ModelEntry]
    object: Literal["list"] = "list"


@ROUTES.post("/v1/embeddings", EmbeddingRequest, EmbeddingAnswer)
async def embed(request: APIRequest, body: EmbeddingRequest) -> object:
    """One vector for each input."""
    served = request.choose_model(body.model, lambda model: "embed" in model.components, "vectors")
    request.note_user(body.user)
    inputs, options = texts_or_ids(body.input, "input"), {"prompt_name": body.prompt_name}
    results = await request.results(served, "embed", inputs, options)
    vectors = [shortened(result.value, body.dimensions) for result in results]
    written = [base64_of(v) for v in vectors] if body.encoding_format == "base64" else vectors
    tokens = sum(result.usage for result in results)
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(written)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer: dict[str, object] = {
        "object": "list",
        "data": data,
        "model": served.name,
        "usage": usage,
    }
    if cut := [index for index, result in enumerate(results) if result.cut]:
        answer["truncated"] = cut
    return answer


ROUTES.post("/v1/completions", CompletionRequest, CompletionAnswer)(complete)


def shortened(vector_D: np.ndarray, dimensions: int | None) -> np.ndarray:
    """The first numbers of a vector; of a vector of length 1, with length 1 again."""
    if dimensions is None:
        return vector_D
    if dimensions > len(vector_D):
        raise BadInput(f"dimensions: the vectors of this model have {len(vector_D)}")
    part, length = vector_D[:dimensions], float(np.linalg.norm(vector_D))
    return part / max(float(np.linalg.norm(part)), 1e-12) if abs(length - 1) < 1e-3 else part


def _model(served: ServedModel) -> ModelEntry:
    return ModelEntry(served.name, STARTED)


@ROUTES.get("/v1/models", ModelEntries)
async def list_models(request: APIRequest) -> object:
    """All models."""
    models = [*map(_model, request.engine.models.values())]
    return ModelEntries(models)


@ROUTES.get("/v1/models/{name}", ModelEntry)
async def show_model(request: APIRequest) -> object:
    """One model."""
    name = request.http.path_params["name"]
    return _model(request.choose_model(name, lambda _: True, "anything"))


OPENAI = API("OpenAI", ROUTES, error, prefix="/v1/")
