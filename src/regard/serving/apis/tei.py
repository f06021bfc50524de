"""The API of clients of text-embeddings-inference (TEI), and of evaluation harnesses.

The paths name no model: with several that fit, the address has one, as in /embed?model=NAME.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from regard import __version__
from regard.core.cancellation import check_wanted
from regard.core.errors import BadInput
from regard.inference.embed import EncoderInput
from regard.inference.row_batches import TextOrPair
from regard.serving.apis.json_body import TextsOrIds, texts_or_ids
from regard.serving.apis.label_scores import (
    RankedLabel,
    best_first,
    classifies,
    label_scores,
    reranks,
)
from regard.serving.apis.openai import shortened
from regard.serving.apis.request import API, ENCODERS, APIRequest, Routes
from regard.serving.apis.tokenization import (
    DecodedPrompt,
    DecodeRequest,
    DetokenizeRequest,
    PromptTokens,
    Token,
    TokenizeRequest,
    decode_all,
    detokenize,
    tokenize,
    tokenizer_info,
)
from regard.serving.request_errors import TooLarge
from regard.serving.served_model import NO_OPTIONS, ModelInput, Options, ServedModel, inputs_of

ROUTES = Routes()
TYPES = {422: "Tokenizer", 429: "Overloaded", 503: "Unhealthy"}  # of errors, by status


class TruncatingRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Longer inputs are refused, unless ``truncate`` is true: then they are cut at their end."""

    truncate: bool | None = None
    truncation_direction: str = "right"

    @property
    def cuts(self) -> bool:
        """Whether longer inputs are cut."""
        return bool(self.truncate)

    def check(self) -> None:
        """Refuse what models here cannot do."""
        if self.truncation_direction.lower() != "right":
            raise BadInput("truncation_direction: inputs are cut on the right")


class VectorRequest(TruncatingRequest, kw_only=True):
    inputs: TextsOrIds
    prompt_name: str | None = None


class NormalizedVectorRequest(VectorRequest, kw_only=True):
    normalize: bool = True
    dimensions: Annotated[int, Meta(ge=1)] | None = None


class PredictRequest(TruncatingRequest, kw_only=True):
    """A flat list of two texts is one pair."""

    inputs: str | list[str | list[str]]
    raw_scores: bool = False


class RerankRequest(TruncatingRequest, kw_only=True):
    query: str
    texts: list[str]
    raw_scores: bool = False
    return_text: bool = False


class Rank(Struct):
    """A text by its index in the request, with its score."""

    index: int
    score: float
    text: str | UnsetType = UNSET


class Similarity(Struct, forbid_unknown_fields=True):
    source_sentence: str
    sentences: list[str]


class SimilarityParameters(TruncatingRequest, kw_only=True):
    prompt_name: str | None = None


class SimilarityRequest(Struct, forbid_unknown_fields=True):
    inputs: Similarity
    parameters: SimilarityParameters | None = None


def model_for(
    request: APIRequest, fits: Callable[[ServedModel], bool], purpose: str
) -> ServedModel:
    """The model of the address, or the only one that fits; encoders go first."""
    name = request.http.query_params.get("model")
    return request.choose_model(name, fits, purpose, ENCODERS)


def embeds(served: ServedModel) -> bool:
    """Whether a model has vectors of texts."""
    return "embed" in served.components and not served.component("embed").reads_images


async def check_lengths(
    request: APIRequest,
    served: ServedModel,
    component: str,
    inputs: Sequence[ModelInput],
    *,
    cuts: bool,
    options: Options = NO_OPTIONS,
) -> None:
    """Refuse inputs that would be cut, unless ``cuts``."""
    request.engine.check_inputs(inputs)
    runs = served.component(component, options)
    limit = runs.own_limit
    if cuts or limit is None:
        return

    def count_tokens() -> int:
        texts = [item for item in inputs_of(runs, inputs) if not isinstance(item, list)]
        longest = 0
        for text in texts:
            check_wanted()
            longest = max(longest, runs.token_count(text, limit))
        return longest

    if (tokens := await request.services.threads.run(count_tokens)) > limit:
        raise TooLarge(f"an input has {tokens} tokens, more than {limit}; truncate = true cuts it")


async def vectors(
    request: APIRequest,
    served: ServedModel,
    inputs: Sequence[ModelInput],
    *,
    cuts: bool,
    normalise: bool | None = True,
    prompt_name: str | None = None,
) -> list[np.ndarray]:
    """A vector for each input."""
    options = {"normalise": normalise, "prompt_name": prompt_name}
    await check_lengths(request, served, "embed", inputs, cuts=cuts, options=options)
    results = await request.results(served, "embed", inputs, options)
    return [result.value for result in results]


@ROUTES.post("/embed", NormalizedVectorRequest, list[list[float]])
async def embed(request: APIRequest, body: NormalizedVectorRequest) -> object:
    """A vector for each input."""
    body.check()
    served, inputs = model_for(request, embeds, "/embed"), texts_or_ids(body.inputs, "inputs")
    whole = await vectors(
        request,
        served,
        inputs,
        cuts=body.cuts,
        normalise=body.normalize,
        prompt_name=body.prompt_name,
    )
    return [shortened(vector, body.dimensions) for vector in whole]


@ROUTES.post("/embed_all", VectorRequest, list[list[list[float]]])
async def embed_all(request: APIRequest, body: VectorRequest) -> object:
    """A vector for each token."""
    body.check()
    served, inputs = model_for(request, embeds, "/embed_all"), texts_or_ids(body.inputs, "inputs")
    options = {"prompt_name": body.prompt_name}
    await check_lengths(request, served, "embed", inputs, cuts=body.cuts, options=options)
    return await states(request, served, inputs, options)


async def states(
    request: APIRequest,
    served: ServedModel,
    inputs: Sequence[EncoderInput],
    options: Options = NO_OPTIONS,
) -> list[np.ndarray]:
    """States (tokens, width) of each input, with a prompt."""
    rows = await request.rows(served, "embed", inputs, options)
    numbers = served.model.runner.embedder().width * sum(row.cost for row in rows)
    if numbers > (most := request.engine.limits.max_numbers):
        raise TooLarge(f"vectors of {numbers} numbers are more than the {most} of an answer")

    def run(model: ServedModel, numbers: Sequence[int]) -> Sequence[np.ndarray]:
        return model.model.encode([rows[number].given for number in numbers], as_numpy=True)

    return await request.call(served, rows, run)


@ROUTES.post("/predict", PredictRequest, list[RankedLabel | list[RankedLabel]])
async def predict(request: APIRequest, body: PredictRequest) -> object:
    """The scores of all labels."""
    body.check()
    served, (inputs, is_batch) = model_for(request, classifies, "/predict"), _pairs(body.inputs)
    await check_lengths(request, served, "predict", inputs, cuts=body.cuts)
    scores = await label_scores(request, served, inputs, raw=body.raw_scores)
    answers = [best_first(each) for each in scores]
    return answers if is_batch else answers[0]


def _pairs(items: str | list[str | list[str]]) -> tuple[list[TextOrPair], bool]:
    """Texts and pairs, and whether there is a list of them."""
    if isinstance(items, str):
        return [items], False
    texts = [each for each in items if isinstance(each, str)]
    lists = [each for each in items if isinstance(each, list)]
    if not items or (texts and lists):
        raise BadInput("inputs: write a text, two texts as a pair, or a list of lists of texts")
    return ([_text_or_pair(texts)], False) if texts else ([*map(_text_or_pair, lists)], True)


def _text_or_pair(texts: list[str]) -> TextOrPair:
    if len(texts) not in (1, 2):
        raise BadInput("inputs: a list has one text or two; write several as [[text], [text]]")
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])


@ROUTES.post("/rerank", RerankRequest, list[Rank])
async def rerank(request: APIRequest, body: RerankRequest) -> object:
    """Texts in the order of their scores."""
    body.check()
    served = model_for(request, reranks, "/rerank")
    pairs = [(body.query, text) for text in body.texts]
    await check_lengths(request, served, "predict", pairs, cuts=body.cuts)
    scores = await label_scores(request, served, pairs, raw=body.raw_scores)
    ranks = [
        Rank(index, next(iter(each.values())), text if body.return_text else UNSET)
        for index, (each, text) in enumerate(zip(scores, body.texts, strict=True))
    ]
    return sorted(ranks, key=lambda rank: -rank.score)


@ROUTES.post("/similarity", SimilarityRequest, list[float])
async def similarity(request: APIRequest, body: SimilarityRequest) -> object:
    """Cosines of sentences."""
    served = model_for(request, embeds, "/similarity")
    parameters = body.parameters or SimilarityParameters()
    parameters.check()
    name = parameters.prompt_name
    return await cosines(request, served, body.inputs, cuts=parameters.cuts, prompt_name=name)


async def cosines(
    request: APIRequest,
    served: ServedModel,
    inputs: Similarity,
    *,
    cuts: bool,
    prompt_name: str | None = None,
) -> list[float]:
    """The cosine of the source sentence with each of the others."""
    if not inputs.sentences:
        raise BadInput("sentences: there is no sentence")
    texts = [inputs.source_sentence, *inputs.sentences]
    source_D, *sentences = await vectors(request, served, texts, cuts=cuts, prompt_name=prompt_name)
    return [float(source_D @ other_D) for other_D in sentences]


class ServerInfo(Struct):
    """The model and the limits of the server."""

    model_id: str
    model_dtype: str
    served_model_name: str
    model_type: dict[str, dict[str, object]]
    max_concurrent_requests: int
    max_input_length: int | None
    max_batch_tokens: int
    max_client_batch_size: int
    version: str
    auto_truncate: bool = False
    tokenization_workers: int = 1
    model_sha: None = None
    max_batch_requests: None = None
    sha: None = None
    docker_label: None = None


ROUTES.post("/tokenize", TokenizeRequest, list[list[Token]] | PromptTokens)(tokenize)
ROUTES.post("/decode", DecodeRequest, list[str])(decode_all)


@ROUTES.get("/info", ServerInfo)
async def info(request: APIRequest) -> object:
    """The model and the limits of the server."""
    served, limits = model_for(request, embeds, "/info"), request.engine.limits
    return ServerInfo(
        served.name,
        str(next(served.model.module.parameters()).dtype)[6:],
        served.name,
        _model_type(served),
        limits.max_queued_requests,
        served.component("embed").own_limit,
        limits.max_batch_tokens,
        limits.max_inputs,
        __version__,
    )


def _model_type(served: ServedModel) -> dict[str, dict[str, object]]:
    if not classifies(served) or served.labels is None:
        return {"embedding": {"pooling": served.model.runner.embedder().pool}}
    names = served.labels.names
    labels: dict[str, object] = {
        "id2label": {str(id_): name for id_, name in enumerate(names)},
        "label2id": {name: id_ for id_, name in enumerate(names)},
    }
    return {"reranker" if reranks(served) else "classifier": labels}


ROUTES.post("/detokenize", DetokenizeRequest, DecodedPrompt)(detokenize)
ROUTES.get("/tokenizer_info", dict[str, str | int | None])(tokenizer_info)


def error(status: int, kind: str, message: str) -> dict[str, str]:
    """The body of an error."""
    fallback = "Backend" if status >= 500 else "Validation"
    return {"error": message, "error_type": TYPES.get(status, fallback)}


TEI = API("TEI", ROUTES, error, names_model=True)
