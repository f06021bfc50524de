"""The API of huggingface_hub's InferenceClient, which posts every task to the address of a model.

The model decides the task of /models/NAME, and of / on a server with one model. Every model also
has /models/NAME/pipeline/feature-extraction and .../sentence-similarity.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct

from regard.core.errors import BadInput, did_you_mean, shown
from regard.inference.component import Result
from regard.inference.fill_mask import FilledText
from regard.inference.generator import Ending
from regard.inference.tagger import TaggedText
from regard.serving.apis.json_body import MANY, StopStrings
from regard.serving.apis.label_scores import RankedLabel, best_first, label_scores, sigmoid
from regard.serving.apis.openai import shortened
from regard.serving.apis.own import path_of_predictor
from regard.serving.apis.request import API, APIRequest, Routes
from regard.serving.apis.request_images import EncodedImage
from regard.serving.apis.tei import Similarity, TruncatingRequest, cosines, vectors
from regard.serving.request_errors import NotFound, TooLarge
from regard.serving.searches import NewTokens, method_of
from regard.serving.served_model import Options, ServedModel
from regard.text.tokenizers.subwords import Subwords

Top = Annotated[int, Meta(ge=1, le=1_000)]
Value = TypeVar("Value")
JSONInputs = str | list[str | dict[str, str]] | dict[str, str | list[str]]
MOST_SEQUENCES = 16 << 20  # characters of filled texts, which are repeated for every candidate
Scalar = bool | int | float | str | None
ScalarOrList = Scalar | list[Scalar | list[Scalar]]
Parameter = ScalarOrList | dict[str, ScalarOrList]
TYPES = {429: "overloaded"}  # of errors, by status


class TaskRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Inputs and parameters of a task; vectors have their parameters beside the inputs."""

    inputs: JSONInputs
    parameters: dict[str, Parameter] | None = None
    stream: bool = False
    normalize: bool | None = None
    truncate: bool | None = None
    truncation_direction: str | None = None
    prompt_name: str | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    encoding_format: str | None = None

    @property
    def of_vectors(self) -> dict[str, Parameter]:
        """Parameters of vectors that are set."""
        fields = msgspec.structs.asdict(self)
        own = (name for name in fields if name not in ("inputs", "parameters", "stream"))
        return {name: fields[name] for name in own if fields[name] is not None}


def converted(value: object, kind: type[Value], name: str) -> Value:
    """A value of JSON as a value of a type; anything else is BadInput."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"{name}: {error}") from None


def texts_of(inputs: object) -> tuple[list[str], bool]:
    """One text or several, and whether there is a list of them."""
    if isinstance(inputs, str):
        return [inputs], False
    return converted(inputs, list[str], "inputs"), True


class VectorParameters(TruncatingRequest, kw_only=True):
    """Longer inputs are cut at their end, unless ``truncate`` is false."""

    normalize: bool | None = None
    prompt_name: str | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None


async def extract_features(
    request: APIRequest, served: ServedModel, inputs: object, settings: VectorParameters
) -> object:
    """A vector for each text."""
    settings.check()
    texts, _ = texts_of(inputs)
    whole = await vectors(
        request,
        served,
        texts,
        cuts=settings.truncate is not False,
        normalise=settings.normalize,
        prompt_name=settings.prompt_name,
    )
    return [shortened(vector, settings.dimensions) for vector in whole]


class NoParameters(Struct, forbid_unknown_fields=True):
    """The task has no parameters."""


async def compare(
    request: APIRequest, served: ServedModel, inputs: object, settings: NoParameters
) -> object:
    """The cosine of a sentence with each of several others."""
    return await cosines(request, served, converted(inputs, Similarity, "inputs"), cuts=True)


class LabelParameters(Struct, forbid_unknown_fields=True):
    top_k: Top | None = None
    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None

    def best(self, scores: dict[str, float]) -> list[RankedLabel]:
        """The labels with the highest scores."""
        if self.function_to_apply == "sigmoid":
            scores = {label: sigmoid(logit) for label, logit in scores.items()}
        if self.function_to_apply == "softmax":
            exponentials = np.exp(np.array([*scores.values()]) - max(scores.values()))
            shares = (exponentials / exponentials.sum()).tolist()
            scores = dict(zip(scores, shares, strict=True))
        return best_first(scores)[: self.top_k]


async def classify(
    request: APIRequest, served: ServedModel, inputs: object, settings: LabelParameters
) -> object:
    """The labels of each text, or pair {"text", "text_pair"}."""
    items = inputs if isinstance(inputs, list) else [inputs]
    pairs = [_text_or_pair(each) for each in items]
    raw = settings.function_to_apply is not None
    scores = await label_scores(request, served, pairs, raw=raw)
    return [settings.best(each) for each in scores]


class TextPair(Struct, forbid_unknown_fields=True):
    text: str
    text_pair: str | None = None


def _text_or_pair(item: object) -> str | tuple[str, str]:
    if isinstance(item, str):
        return item
    pair = converted(item, TextPair, "inputs")
    return pair.text if pair.text_pair is None else (pair.text, pair.text_pair)


async def label_image(
    request: APIRequest, served: ServedModel, inputs: object, settings: LabelParameters
) -> object:
    """The labels of an image: its bytes, or in base64."""
    most = request.limits.pixels
    if isinstance(inputs, bytes):
        image = EncodedImage(inputs, most)
    else:
        image = EncodedImage.of_text(inputs, most)
    raw = settings.function_to_apply is not None
    async with request.services.images.decoded_one(image) as pixels:
        (scores,) = await label_scores(request, served, [pixels], raw=raw)
    return settings.best(scores)


class TagParameters(Struct, forbid_unknown_fields=True):
    """Words have tags ("none"), or are joined to entities ("simple", or not given)."""

    aggregation_strategy: str | None = None
    ignore_labels: Annotated[tuple[str, ...], Meta(max_length=1_024)] = ("O",)
    stride: int | None = None


async def tag(
    request: APIRequest, served: ServedModel, inputs: object, settings: TagParameters
) -> object:
    """The entities of each text, or the tags of its words."""
    if settings.aggregation_strategy not in (None, "none", "simple"):
        raise BadInput("aggregation_strategy: none and simple are known here")
    if settings.stride is not None:
        raise BadInput("stride: the model's own is used")
    joins = settings.aggregation_strategy != "none" and _finds_entities(served)
    texts, is_list = texts_of(inputs)
    results = await request.results(served, "predict", texts)
    lists = [
        _entities(result.value, settings.ignore_labels)
        if joins
        else _tags(result.value, settings.ignore_labels)
        for result in results
    ]
    return lists if is_list else lists[0]


def _finds_entities(served: ServedModel) -> bool:
    """Whether the tags of a model are parts of entities."""
    try:
        return bool(served.component("predict", {"entities": True}))
    except BadInput:
        return False


def _entities(tagged: TaggedText, ignored: Sequence[str]) -> list[dict[str, object]]:
    return [
        {
            "entity_group": entity.label,
            "score": entity.probability,
            "word": entity.text,
            "start": entity.start,
            "end": entity.end,
        }
        for entity in tagged.entities
        if entity.label not in ignored
    ]


def _tags(tagged: TaggedText, ignored: Sequence[str]) -> list[dict[str, object]]:
    return [
        {
            "entity": word.label,
            "score": word.probability if word.value is None else word.value,
            "word": word.text,
            "start": word.start,
            "end": word.end,
        }
        for word in tagged.words
        if word.label not in ignored
    ]


class AnswerParameters(Struct, forbid_unknown_fields=True):
    top_k: Top = 1
    handle_impossible_answer: bool | None = None


class QuestionInput(Struct, forbid_unknown_fields=True):
    question: str
    context: str


async def answer(
    request: APIRequest, served: ServedModel, inputs: object, settings: AnswerParameters
) -> object:
    """The best answer to a question in its context, or the ``top_k`` best."""
    pair = converted(inputs, QuestionInput, "inputs")
    (result,) = await request.results(served, "predict", [(pair.question, pair.context)])
    answers = [
        {"answer": span.text, "score": span.probability, "start": span.start, "end": span.end}
        for span in result.value.best
    ]
    if settings.handle_impossible_answer:
        none = {"answer": "", "score": result.value.no_answer_probability, "start": 0, "end": 0}
        answers = sorted([*answers, none], key=lambda each: -each["score"])
    if settings.top_k > 1:
        return answers[: settings.top_k]
    if not answers:
        raise BadInput("inputs: the context has no answer")
    return answers[0]


class FillParameters(Struct, forbid_unknown_fields=True):
    top_k: Top = 5


async def fill(
    request: APIRequest, served: ServedModel, inputs: object, settings: FillParameters
) -> object:
    """The most probable words for the mask of a text; of several masks, a list for each."""
    texts, is_list = texts_of(inputs)
    mask = served.model.encoder.filler().mask
    size = settings.top_k * sum(text.count(mask) * len(text) for text in texts)
    if size > MOST_SEQUENCES:
        raise TooLarge(
            f"sequences of {size} characters are more than the {MOST_SEQUENCES} of an answer; "
            "ask for fewer (top_k), or send fewer masks or texts"
        )
    results = await request.results(served, "fill", texts, {"top": settings.top_k})
    lists = await request.beside(
        lambda: [_fills(served, *pair) for pair in zip(texts, results, strict=True)],
        large=size >= MANY,
    )
    return lists if is_list else lists[0]


@lru_cache(32)
def _ids_by_piece(words: Subwords) -> dict[str, int]:
    return {piece: id_ for id_, piece in enumerate(words.pieces(range(len(words))))}


def _fills(served: ServedModel, text: str, result: Result[FilledText]) -> object:
    filler = served.model.encoder.filler()
    tokenizer, mask = filler.tokenizer, filler.mask
    ids = _ids_by_piece(tokenizer.words)
    parts = text.split(mask)

    def sequence(place: int, word: str) -> str:
        before, after = mask.join(parts[: place + 1]), mask.join(parts[place + 1 :])
        return tokenizer.join(before, word) + after

    lists = [
        [
            {
                "score": each.probability,
                "token": ids[each.word],
                "token_str": each.word.replace("▁", " "),
                "sequence": sequence(place, each.word),
            }
            for each in top
        ]
        for place, top in enumerate(result.value.blanks)
    ]
    return lists[0] if len(lists) == 1 else lists


class GenerateParameters(Struct, forbid_unknown_fields=True):
    """Parameters of text generation; a parameter of sampling implies ``do_sample``."""

    max_new_tokens: NewTokens | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    stop: StopStrings = []
    return_full_text: bool = False
    details: bool = False
    decoder_input_details: bool = False
    watermark: bool = False

    def options(self, served: ServedModel) -> Options:
        """Options of the component."""
        for name in ("details", "decoder_input_details", "watermark"):
            if getattr(self, name):
                raise BadInput(f"{name}: not offered; /v1/completions has log-probabilities")
        sampling = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "seed")}
        samples = self.do_sample or any(value is not None for value in sampling.values())
        if samples and self.seed is None:
            sampling["seed"] = secrets.randbits(63)
        search = "sample" if samples else "greedy" if self.do_sample is False else None
        settings = sampling | {"search": search, "repetition_penalty": self.repetition_penalty}
        method = method_of(served.model.generator, settings)
        return {"method": method, "ending": Ending.of(self.max_new_tokens, 0, self.stop)}


async def generate(
    request: APIRequest, served: ServedModel, inputs: object, settings: GenerateParameters
) -> object:
    """The continuation of each prompt."""
    texts, _ = texts_of(inputs)
    results = await request.results(served, "generate", texts, settings.options(served))
    return [
        {"generated_text": (text if settings.return_full_text else "") + result.value.texts[0].text}
        for text, result in zip(texts, results, strict=True)
    ]


class TextLimit(Struct, forbid_unknown_fields=True):
    max_new_tokens: NewTokens | None = None


class TranslateParameters(Struct, forbid_unknown_fields=True):
    src_lang: str | None = None
    tgt_lang: str | None = None
    generate_parameters: TextLimit | None = None

    @property
    def options(self) -> Options:
        """Options of the component."""
        limits = self.generate_parameters or TextLimit()
        most = limits.max_new_tokens
        return {} if most is None else {"max_new_tokens": most}


async def translate(
    request: APIRequest, served: ServedModel, inputs: object, settings: TranslateParameters
) -> object:
    """The translation of each text."""
    codes = (
        ("src_lang", settings.src_lang, served.source),
        ("tgt_lang", settings.tgt_lang, served.target),
    )
    for name, code, known in codes:
        if code is not None and code != known:
            own = "unknown; leave it out" if known is None else repr(known)
            raise BadInput(f"{name}: {shown(code)}, but that of this model is {own}")
    texts, _ = texts_of(inputs)
    results = await request.results(served, "translate", texts, settings.options)
    return [{"translation_text": result.value.texts[0].text} for result in results]


Task = Callable[[APIRequest, ServedModel, object, Mapping[str, Parameter]], Awaitable[object]]


def with_parameters(
    kind: type[Value], run: Callable[[APIRequest, ServedModel, object, Value], Awaitable[object]]
) -> Task:
    """A task whose parameters are read as values of a type."""

    def read_and_run(
        request: APIRequest, served: ServedModel, inputs: object, values: Mapping[str, Parameter]
    ) -> Awaitable[object]:
        return run(request, served, inputs, converted(values, kind, "parameters"))

    return read_and_run


TASKS: dict[str, Task] = {
    "feature-extraction": with_parameters(VectorParameters, extract_features),
    "sentence-similarity": with_parameters(NoParameters, compare),
    "text-classification": with_parameters(LabelParameters, classify),
    "image-classification": with_parameters(LabelParameters, label_image),
    "token-classification": with_parameters(TagParameters, tag),
    "question-answering": with_parameters(AnswerParameters, answer),
    "fill-mask": with_parameters(FillParameters, fill),
    "text-generation": with_parameters(GenerateParameters, generate),
    "translation": with_parameters(TranslateParameters, translate),
}
READ_BYTES = ("image-classification",)  # tasks whose input may be the body itself
PREDICTED = {
    "classify": "text-classification",
    "label-image": "image-classification",
    "tag": "token-classification",
    "answer": "question-answering",
}
"""Tasks by the path of a predictor."""

OF_COMPONENTS = {
    "translate": "translation",
    "generate": "text-generation",
    "fill": "fill-mask",
    "embed": "feature-extraction",
}


def task_of(served: ServedModel) -> str:
    """The task of a model: the task of its labels, else of its first component."""
    components = served.components
    if "predict" in components and (served.labels is not None or "fill" not in components):
        path = path_of_predictor(served.component("predict"))
        if path in PREDICTED:
            return PREDICTED[path]
    return next(task for name, task in OF_COMPONENTS.items() if name in components)


async def run_task(request: APIRequest, *, named: bool = True) -> object:
    """Run the task of a model, or the task that the address names."""
    parts = request.http.path_params
    everything = "every task: write /models/NAME"
    served = request.choose_model(parts["name"] if named else None, lambda _: True, everything)
    name = parts.get("task") or task_of(served)
    if name not in TASKS:
        raise NotFound(f"there is no task {shown(name)}{did_you_mean(name, TASKS)}")
    if name in READ_BYTES and not request.body.lstrip().startswith(b"{"):
        return await TASKS[name](request, served, request.body, {})
    body = await request.json(TaskRequest)
    if body.stream:
        raise BadInput("stream: use /v1/completions")
    parameters = body.parameters or {}
    if isinstance(body.inputs, dict) and "source_sentence" in body.inputs:
        name = "sentence-similarity"
    elif body.of_vectors:
        name, parameters = "feature-extraction", parameters | _vector_parameters(body)
    return await TASKS[name](request, served, body.inputs, parameters)


def _vector_parameters(body: TaskRequest) -> dict[str, Parameter]:
    parameters = body.of_vectors
    if parameters.pop("encoding_format", "float") != "float":
        raise BadInput("encoding_format: use /v1/embeddings")
    return parameters


def error(status: int, kind: str, message: str) -> dict[str, str]:
    """The body of an error."""
    fallback = "generation" if status >= 500 else "validation"
    return {"error": message, "error_type": TYPES.get(status, fallback)}


ROUTES = Routes()
ROUTES.add("POST", "/models/{name}", run_task, TaskRequest, object, "The task of a model.")
ROUTES.add(
    "POST", "/models/{name}/pipeline/{task}", run_task, TaskRequest, object, "A task by name."
)
run_only_task = partial(run_task, named=False)
ROUTES.add("POST", "/", run_only_task, TaskRequest, object, "The task of the model.")
HUGGING_FACE = API("Hugging Face", ROUTES, error)
