"""The door of clients of text-embeddings-inference (TEI), and of evaluation harnesses.

The paths name no model: with several that fit, the address has one, as in /embed?model=NAME.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from regard import __version__
from regard.ground.errors import BadInput
from regard.inference.batch_runner import TextOrPair
from regard.inference.embed import EncoderInput
from regard.serving.doors.door import (
    ENCODERS,
    Door,
    DoorRoute,
    Exchange,
    TextsOrIds,
    json_response,
    texts_or_ids,
)
from regard.serving.doors.label_scores import best_first, classifies, label_scores, reranks
from regard.serving.doors.openai import shortened
from regard.serving.doors.tokenization import (
    DecodeRequest,
    DetokenizeRequest,
    TokenizeRequest,
    decode_all,
    detokenize,
    tokenize,
    tokenizer_info,
)
from regard.serving.errors import TooLarge
from regard.serving.served_model import ModelInput, ServedModel, inputs_of

TYPES = {422: "Tokenizer", 429: "Overloaded", 503: "Unhealthy"}  # of errors, by status


class TruncatingRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Longer inputs are cut at their end, unless ``truncate`` is false."""

    truncate: bool | None = None
    truncation_direction: str = "right"

    def check(self) -> None:
        """Refuse what models here cannot do."""
        if self.truncation_direction.lower() != "right":
            raise BadInput("truncation_direction: inputs are cut on the right")


class VectorRequest(TruncatingRequest, kw_only=True):
    inputs: TextsOrIds
    prompt_name: str | None = None

    def check(self) -> None:
        super().check()
        if self.prompt_name is not None:
            raise BadInput("prompt_name: models here have no named prompts")


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


def model_for(exchange: Exchange, fits: Callable[[ServedModel], bool], purpose: str) -> ServedModel:
    """The model of the address, or the only one that fits; encoders go first."""
    name = exchange.request.query_params.get("model")
    return exchange.choose_model(name, fits, purpose, ENCODERS)


def embeds(served: ServedModel) -> bool:
    """Whether a model has vectors of texts."""
    return "embed" in served.components and not served.component("embed").reads_images


async def check_lengths(
    exchange: Exchange,
    served: ServedModel,
    component: str,
    inputs: Sequence[ModelInput],
    truncate: bool | None,
) -> None:
    """Refuse inputs that would be cut, if they may not."""
    runs = served.component(component)
    limit = runs.own_limit
    if truncate is not False or limit is None:
        return

    def longest() -> int:
        texts = [given for given in inputs_of(runs, inputs) if not isinstance(given, list)]
        return max((runs.token_count(text, limit) for text in texts), default=0)

    if (tokens := await exchange.services.threads.run(longest)) > limit:
        raise TooLarge(f"an input has {tokens} tokens, more than {limit}; truncate is false")


async def vectors(
    exchange: Exchange,
    served: ServedModel,
    inputs: Sequence[ModelInput],
    truncate: bool | None = None,
    *,
    normalise: bool | None = True,
) -> list[np.ndarray]:
    """A vector for each input."""
    await check_lengths(exchange, served, "embed", inputs, truncate)
    results = await exchange.results(served, "embed", inputs, {"normalise": normalise})
    return [result.value for result in results]


async def embed(exchange: Exchange) -> Response:
    """A vector for each input."""
    body = exchange.json(NormalizedVectorRequest)
    body.check()
    served, inputs = model_for(exchange, embeds, "/embed"), texts_or_ids(body.inputs, "inputs")
    whole = await vectors(exchange, served, inputs, body.truncate, normalise=body.normalize)
    return await exchange.respond([shortened(vector, body.dimensions) for vector in whole])


async def embed_all(exchange: Exchange) -> Response:
    """A vector for each token of each input."""
    body = exchange.json(VectorRequest)
    body.check()
    served, inputs = model_for(exchange, embeds, "/embed_all"), texts_or_ids(body.inputs, "inputs")
    await check_lengths(exchange, served, "embed", inputs, body.truncate)
    return await exchange.respond(await states(exchange, served, inputs))


async def states(
    exchange: Exchange, served: ServedModel, inputs: Sequence[EncoderInput]
) -> list[np.ndarray]:
    """States (tokens, width) of each input."""
    rows = await exchange.rows(served, "embed", inputs)
    numbers = served.model.runner.embedder().width * sum(row.cost for row in rows)
    if numbers > (most := exchange.engine.limits.max_numbers):
        raise TooLarge(f"vectors of {numbers} numbers are more than the {most} of an answer")

    def run(model: ServedModel, numbers: Sequence[int]) -> Sequence[np.ndarray]:
        return model.model.encode([inputs[number] for number in numbers], as_numpy=True)

    return await exchange.call(served, rows, run)


async def predict(exchange: Exchange) -> Response:
    """The scores of all labels, the highest first."""
    body = exchange.json(PredictRequest)
    body.check()
    served, (inputs, is_batch) = model_for(exchange, classifies, "/predict"), _pairs(body.inputs)
    await check_lengths(exchange, served, "predict", inputs, body.truncate)
    scores = await label_scores(exchange, served, inputs, raw=body.raw_scores)
    answers = [best_first(each) for each in scores]
    return await exchange.respond(answers if is_batch else answers[0])


def _pairs(given: str | list[str | list[str]]) -> tuple[list[TextOrPair], bool]:
    """Texts and pairs, and whether there is a list of them."""
    if isinstance(given, str):
        return [given], False
    texts = [each for each in given if isinstance(each, str)]
    lists = [each for each in given if isinstance(each, list)]
    if not given or (texts and lists):
        raise BadInput("inputs: write a text, two texts as a pair, or a list of lists of texts")
    return ([_text_or_pair(texts)], False) if texts else ([*map(_text_or_pair, lists)], True)


def _text_or_pair(texts: list[str]) -> TextOrPair:
    if len(texts) not in (1, 2):
        raise BadInput("inputs: a list has one text or two; write several as [[text], [text]]")
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])


async def rerank(exchange: Exchange) -> Response:
    """The texts in the order of their scores with the query."""
    body = exchange.json(RerankRequest)
    body.check()
    served = model_for(exchange, reranks, "/rerank")
    pairs = [(body.query, text) for text in body.texts]
    await check_lengths(exchange, served, "predict", pairs, body.truncate)
    scores = await label_scores(exchange, served, pairs, raw=body.raw_scores)
    ranks = [
        Rank(index, next(iter(each.values())), text if body.return_text else UNSET)
        for index, (each, text) in enumerate(zip(scores, body.texts, strict=True))
    ]
    return json_response(sorted(ranks, key=lambda rank: -rank.score))


async def similarity(exchange: Exchange) -> Response:
    """The cosine of a sentence with each of several others."""
    body = exchange.json(SimilarityRequest)
    served, parameters = model_for(exchange, embeds, "/similarity"), body.parameters
    if parameters is not None:
        parameters.check()
        if parameters.prompt_name is not None:
            raise BadInput("prompt_name: models here have no named prompts")
    truncate = None if parameters is None else parameters.truncate
    return json_response(await cosines(exchange, served, body.inputs, truncate))


async def cosines(
    exchange: Exchange, served: ServedModel, inputs: Similarity, truncate: bool | None = None
) -> list[float]:
    """The cosine of the source sentence with each of the others."""
    if not inputs.sentences:
        raise BadInput("sentences: there is no sentence")
    texts = [inputs.source_sentence, *inputs.sentences]
    source_D, *others = await vectors(exchange, served, texts, truncate)
    return [float(source_D @ other_D) for other_D in others]


async def info(exchange: Exchange) -> Response:
    """The model and the limits of the server."""
    served, limits = model_for(exchange, embeds, "/info"), exchange.engine.limits
    return json_response(
        {
            "model_id": served.name,
            "model_sha": None,
            "model_dtype": str(next(served.model.module.parameters()).dtype)[6:],
            "served_model_name": served.name,
            "model_type": _model_type(served),
            "max_concurrent_requests": limits.max_queued_requests,
            "max_input_length": served.component("embed").own_limit,
            "max_batch_tokens": limits.max_batch_tokens,
            "max_batch_requests": None,
            "max_client_batch_size": limits.max_inputs,
            "auto_truncate": True,
            "tokenization_workers": 1,
            "version": __version__,
            "sha": None,
            "docker_label": None,
        }
    )


def _model_type(served: ServedModel) -> dict[str, object]:
    if not classifies(served) or served.labels is None:
        return {"embedding": {"pooling": served.model.runner.embedder().pool}}
    names = served.labels.names
    labels = {
        "id2label": {str(id_): name for id_, name in enumerate(names)},
        "label2id": {name: id_ for id_, name in enumerate(names)},
    }
    return {"reranker" if reranks(served) else "classifier": labels}


def error(status: int, kind: str, message: str) -> dict[str, str]:
    """The body of an error."""
    fallback = "Backend" if status >= 500 else "Validation"
    return {"error": message, "error_type": TYPES.get(status, fallback)}


ROUTES = [
    DoorRoute("POST", "/embed", embed, "A vector for each input.", NormalizedVectorRequest),
    DoorRoute("POST", "/embed_all", embed_all, "A vector for each token.", VectorRequest),
    DoorRoute("POST", "/predict", predict, "The scores of all labels.", PredictRequest),
    DoorRoute("POST", "/rerank", rerank, "Texts in the order of their scores.", RerankRequest),
    DoorRoute("POST", "/similarity", similarity, "Cosines of sentences.", SimilarityRequest),
    DoorRoute("POST", "/tokenize", tokenize, "Tokens of texts.", TokenizeRequest),
    DoorRoute("POST", "/decode", decode_all, "Texts of token ids.", DecodeRequest),
    DoorRoute("GET", "/info", info, "The model and the limits of the server."),
    DoorRoute("POST", "/detokenize", detokenize, "The text of token ids.", DetokenizeRequest),
    DoorRoute("GET", "/tokenizer_info", tokenizer_info, "Special tokens by role."),
]
DOOR = Door("TEI", ROUTES, error)
