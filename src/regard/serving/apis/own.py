"""The API of regard itself: /v1/NAME for each component, with the records of its command line.

A body has one input (its keys, such as "text") or a list of "inputs". With "inspect", the answer
also has values of the very run that gave it; /inspect/ID runs an answered request again.
"""

from collections.abc import AsyncIterator, Sequence
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from regard.core.errors import BadInput, BadItem, did_you_mean, shown
from regard.inference.component import AnyResult
from regard.inference.decoder_model import DecoderModel
from regard.inference.generator import Ending
from regard.models.edits import EditList, list_edits
from regard.serving.apis.inspection import InsideOfRun, Inspect, inspect
from regard.serving.apis.json_body import StopStrings, event
from regard.serving.apis.request import (
    API,
    ENCODERS,
    APIRequest,
    Routes,
    digest_of,
    is_large,
    stream_events,
)
from regard.serving.apis.request_images import EncodedImage
from regard.serving.engine import Answer
from regard.serving.replays import ReplayRun
from regard.serving.request_errors import NotFound, TooLarge, hide_paths
from regard.serving.searches import SETTINGS, NewTokens, method_of
from regard.serving.served_model import ModelInput, Options, ServedModel, reads_images
from regard.serving.settings import RequestLimits
from regard.tasks.components import AnyComponent

JSONObject = dict[str, Any]  # of a request, before a component reads it
MOST_EDITS = 256  # of a request
Count = Annotated[int, Meta(ge=1)]
ParsedInput = ModelInput | EncodedImage | BadItem


class OwnRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Keys of every request; ``model`` may be left out if one model fits."""

    model: str | None = None
    inputs: list[str | JSONObject] | None = None
    inspect: Inspect | None = None
    edits: Annotated[list[JSONObject], Meta(max_length=MOST_EDITS)] | None = None
    deadline: Annotated[float, Meta(gt=0)] | None = None

    @property
    def streams(self) -> bool:
        """Whether the answer is a stream of events."""
        return False

    def component_options(self, served: ServedModel) -> Options:
        """Options of the component, for a model: by default, all keys of this kind of request."""
        values = ((name, getattr(self, name)) for name in _keys_of(type(self)).options)
        return {name: value for name, value in values if value is not None}


class TextRequest(OwnRequest, kw_only=True):
    text: str | UnsetType = UNSET


class PairRequest(TextRequest, kw_only=True):
    first: str | UnsetType = UNSET
    second: str | UnsetType = UNSET


class EmbedRequest(PairRequest, kw_only=True):
    pool: str | None = None
    normalise: bool | None = None
    prompt_name: str | None = None


class FillRequest(TextRequest, kw_only=True):
    top: Annotated[int, Meta(ge=1, le=1_000)] = 5


class ScoreRequest(TextRequest, kw_only=True):
    source: str | UnsetType = UNSET
    target: str | UnsetType = UNSET
    window: Count | None = None
    stride: Count | None = None
    top: Annotated[int, Meta(ge=1, le=1_000)] | None = None


class TagRequest(TextRequest, kw_only=True):
    pretokenised: bool = False
    entities: bool = False


class AnswerRequest(OwnRequest, kw_only=True):
    question: str | UnsetType = UNSET
    context: str | UnsetType = UNSET


class ChooseRequest(OwnRequest, kw_only=True):
    first: str | UnsetType = UNSET
    choices: list[str] | UnsetType = UNSET


class ImageRequest(OwnRequest, kw_only=True):
    """``image``: the bytes of a JPEG, PNG or WebP file in base64."""

    image: str | UnsetType = UNSET


class WriteRequest(TextRequest, kw_only=True):
    """Settings of the search; without any, the model's own search."""

    best: Annotated[int, Meta(ge=1, le=64)] = 1
    search: str | None = None
    beam: Count | None = None
    length: str | None = None
    alpha: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    no_repeat: int | None = None
    repetition_penalty: float | None = None
    max_new_tokens: NewTokens | None = None

    def component_options(self, served: ServedModel) -> Options:
        names = ("search", *{name: None for names in SETTINGS.values() for name in names})
        settings = {name: getattr(self, name) for name in names}
        model = cast(DecoderModel, served.model.runner)
        return {"method": method_of(model, settings, self.best), "best": self.best}


class TranslationRequest(WriteRequest, kw_only=True):
    """``prefix``: the beginning of the translation."""

    prefix: str | UnsetType = UNSET

    def component_options(self, served: ServedModel) -> Options:
        options = super().component_options(served)
        if self.max_new_tokens is None:
            return options
        return {**options, "max_new_tokens": self.max_new_tokens}


class GenerateRequest(WriteRequest, kw_only=True):
    min_new_tokens: Annotated[int, Meta(ge=0, le=65_536)] = 0
    stop_strings: StopStrings = []
    stream: bool = False

    @property
    def streams(self) -> bool:
        return self.stream

    def component_options(self, served: ServedModel) -> Options:
        ending = Ending.of(self.max_new_tokens, self.min_new_tokens, self.stop_strings)
        return {**super().component_options(served), "ending": ending}


class InputResult(Struct):
    """The records of an input, or its error."""

    records: list[JSONObject] | UnsetType = UNSET
    cut: bool | UnsetType = UNSET
    tokens: int | UnsetType = UNSET
    error: str | UnsetType = UNSET


class TextPiece(Struct):
    """A piece of a text, in a stream."""

    text: str


class OwnAnswer(Struct):
    """Results in the order of the inputs."""

    id: str
    model: str
    results: list[InputResult]
    usage: dict[str, int]
    inspect: list[InsideOfRun] | None = None


PATHS: dict[str, tuple[str, type[OwnRequest], str]] = {
    "translate": ("translate", TranslationRequest, "Translate texts."),
    "generate": ("generate", GenerateRequest, "Continue prompts."),
    "embed": ("embed", EmbedRequest, "One vector for each text."),
    "fill": ("fill", FillRequest, "Fill the mask tokens of texts."),
    "score": ("score", ScoreRequest, "Log-probabilities of texts, or of translations."),
    "classify": ("predict", PairRequest, "Labels of texts, or of pairs of texts."),
    "tag": ("predict", TagRequest, "Tags of words, or entities."),
    "answer": ("predict", AnswerRequest, "Answers to questions, in their contexts."),
    "choose": ("predict", ChooseRequest, "The best of several continuations."),
    "label-image": ("predict", ImageRequest, "Labels of images."),
}
"""The component, the body and the summary of each path."""
MORE_KEYS = {"translate": ("prefix",)}  # of an input, by component


def path_of_predictor(component: AnyComponent) -> str:
    """The path that a predictor serves."""
    return "label-image" if reads_images(component) else component.name


def has_path(served: ServedModel, path: str) -> bool:
    """Whether a model serves a path."""
    component = PATHS[path][0]
    if component not in served.components:
        return False
    return component != "predict" or path_of_predictor(served.component("predict")) == path


def model_for(request: APIRequest, name: str | None, path: str) -> ServedModel:
    """The model of a request: by name, or the only one that serves the path."""
    prefers = ENCODERS if path == "embed" else ()
    return request.choose_model(name, partial(has_path, path=path), f"/v1/{path}", prefers)


class RequestKeys(NamedTuple):
    """Keys of a kind of request that belong to one input, and those that are options."""

    inputs: tuple[str, ...]
    options: tuple[str, ...]


@cache
def _keys_of(body: type[OwnRequest]) -> RequestKeys:
    fields = {each.name: each for each in msgspec.structs.fields(body)}
    inputs = tuple(name for name, each in fields.items() if each.default is UNSET)
    shared = {*inputs, *OwnRequest.__struct_fields__}
    return RequestKeys(inputs, tuple(name for name in fields if name not in shared))


def own_input(body: OwnRequest) -> JSONObject:
    """The keys of one input in a body, empty if it has a list."""
    pairs = ((key, getattr(body, key)) for key in _keys_of(type(body)).inputs)
    return {key: value for key, value in pairs if value is not UNSET}


def parse_inputs(
    body: OwnRequest, component: AnyComponent, limits: RequestLimits, most: int
) -> list[ParsedInput]:
    """The inputs of a request as the component reads them, at most ``most``.

    A ``BadItem`` is in place of a bad one; images are not decoded yet.
    """
    own = own_input(body)
    if (body.inputs is None) == (not own):
        raise BadInput(f"write one input ({_listed_keys(component)}), or a list of inputs")
    if own:
        _check_keys(own, component)
    inputs = [own] if body.inputs is None else body.inputs
    if len(inputs) > most:
        raise TooLarge(f"{len(inputs)} inputs are more than the {most} of a request")
    return [_parsed(number, each, component, limits) for number, each in enumerate(inputs, 1)]


def _record_keys(component: AnyComponent) -> Sequence[tuple[str, ...]]:
    return (("image",),) if reads_images(component) else component.record_keys


def _listed_keys(component: AnyComponent) -> str:
    return ", or ".join(" and ".join(keys) for keys in _record_keys(component))


def _check_keys(item: JSONObject, component: AnyComponent) -> None:
    """Refuse an input with keys that are not read, or without those that are."""
    more = {*component.more_keys, *MORE_KEYS.get(component.name, ())}
    known = {key for keys in _record_keys(component) for key in keys} | more
    for key in item:
        if key not in known:
            raise BadInput(f"{shown(key)} is no key of an input{did_you_mean(key, known)}")
    if {*item} - more not in map(set, _record_keys(component)):
        wrong = f", not {' and '.join(item)}" if item else ""
        raise BadInput(f"an input has {_listed_keys(component)}{wrong}")


def _parsed(
    number: int, item: str | JSONObject, component: AnyComponent, limits: RequestLimits
) -> ParsedInput:
    """An input, or the ``BadItem`` that says what is wrong with it."""
    try:
        keys = _record_keys(component)[0]
        if isinstance(item, str):
            if len(keys) != 1:
                raise BadInput(f"write an object with the keys {', '.join(keys)}")
            item = {keys[0]: item}
        _check_keys(item, component)
        if reads_images(component):
            return EncodedImage.of_text(item["image"], limits.pixels)
        return component.parse_record(item, "")
    except BadInput as error:
        return BadItem(number, str(error).removeprefix(": "))


async def answer(request: APIRequest, body: OwnRequest, *, path: str) -> object:
    """Answer a request to /v1/PATH."""
    name = PATHS[path][0]
    request.shorten(body.deadline)
    served = model_for(request, body.model, path)
    edits = _edits(request, body)
    options = body.component_options(served)
    component = served.component(name, options)
    most = request.engine.limits.max_inputs
    parsed = parse_inputs(body, component, request.limits, most)
    encoded = {place: it for place, it in enumerate(parsed) if isinstance(it, EncodedImage)}
    images = [*encoded.values()]
    async with request.services.images.decoded(images) as decoded:
        pixels = dict(zip(encoded, decoded, strict=True))
        inputs = [pixels.get(place, cast(ModelInput, it)) for place, it in enumerate(parsed)]
        return await _answered(request, body, served, name, inputs, options, edits)


async def _answered(
    request: APIRequest,
    body: OwnRequest,
    served: ServedModel,
    name: str,
    parsed: Sequence[ModelInput | BadItem],
    options: Options,
    edits: EditList | None,
) -> object:
    """The answer to inputs, some of which may be bad."""
    component = served.component(name, options)
    texts = None if reads_images(component) else body.inputs or [own_input(body)]
    request.log |= {"model": served.name, "inputs": len(parsed), "texts": texts}
    inputs = [None if isinstance(each, BadInput) else each for each in parsed]
    inspected = None
    if body.streams:
        if edits is not None or body.inspect is not None or len(parsed) > 1:
            raise BadInput("stream: one input, without inspect and edits; /inspect/ID has both")
        return await _stream(request, served, name, inputs[0], options)
    if body.inspect is None:
        answers = await request.engine.run(served.name, name, inputs, options, edits=edits)
    else:
        answers, inspected = await inspect(
            request, served.name, name, inputs, options, edits, body.inspect
        )
    for number, each in enumerate(parsed):
        if isinstance(each, BadInput):
            answers[number] = each
    large = is_large(component, options, answers)
    results = await request.beside(partial(results_of, component, answers), large=large)
    tokens = sum(each.usage for each in answers if not isinstance(each, BadInput))
    usage = {"tokens": tokens, "inputs": len(answers)}
    await request.keep(served, name, inputs, options, answers, edits)
    return OwnAnswer(request.id, served.name, results, usage, inspected)


async def _stream(
    request: APIRequest, served: ServedModel, name: str, item: ModelInput, options: Options
) -> Response:
    """Events with pieces of the text, and a last one with the whole answer."""
    component = served.component(name, options)

    async def events(pieces: AsyncIterator[str | AnyResult]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            if isinstance(piece, str):
                yield event(TextPiece(piece))
            else:
                usage = {"tokens": piece.usage, "inputs": 1}
                results = [result_of(component, piece)]
                yield event(OwnAnswer(request.id, served.name, results, usage))

    pieces = request.stream(served, name, item, options)
    return await stream_events(pieces, events, error)


def results_of(component: AnyComponent, answers: Sequence[Answer]) -> list[InputResult]:
    """The result of each input."""
    return [result_of(component, each) for each in answers]


def result_of(component: AnyComponent, answered: Answer) -> InputResult:
    """The result of an input."""
    if isinstance(answered, BadInput):
        return InputResult(error=hide_paths(answered.reason))
    return InputResult(component.records(answered), answered.cut, answered.usage)


def _edits(request: APIRequest, body: OwnRequest) -> EditList | None:
    if body.edits is None:
        return None
    if not request.services.settings.allow_edits:
        raise BadInput("edits: this server does not apply the edits of requests")
    return list_edits(body.edits, "edits")


class RunAnswer(Struct):
    """A run of a model, again; ``same``: with the records of the first run, bit for bit.

    The values of ``inspect`` are of one more run, on a tape, which may take other kernels;
    ``inspect_same``: that run has the records of the first, bit for bit, too.
    """

    model: str
    component: str
    results: list[InputResult]
    same: bool
    inspect_same: bool
    inspect: list[InsideOfRun]


class ReplayAnswer(RunAnswer, kw_only=True):
    """The first run of a request, again; ``more`` are its other runs, such as scores."""

    id: str
    more: list[RunAnswer]


async def replay(request: APIRequest) -> object:
    """Run an answered request again.

    The answer has values of its tape.
    """
    id_ = request.http.path_params["id"]
    answered = request.services.replays.get((request.owner, id_))
    if answered is None:
        raise NotFound(_not_kept(request.services.settings.workers))
    inspection = await request.json(Inspect) if request.body else Inspect()
    first, *more = [await _run_again(request, run, inspection) for run in answered.runs]
    return ReplayAnswer(**msgspec.structs.asdict(first), id=id_, more=more)


def _not_kept(workers: int) -> str:
    message = "no request of this id is kept; ids are kept for some minutes"
    if workers == 1:
        return message
    return f"{message}, and only by that of the {workers} processes which answered: ask again"


async def _run_again(request: APIRequest, run: ReplayRun, inspection: Inspect) -> RunAnswer:
    served = request.engine.models.get(run.model)
    if served is None or served.folder_hash != run.model_hash:
        raise NotFound(f"model {run.model} is no longer the one that answered")
    arguments = run.model, run.component, run.inputs, run.options
    answers = await request.engine.run(*arguments, edits=run.edits)
    inspected, inside = await inspect(request, *arguments, run.edits, inspection)
    for number, reason in run.errors.items():
        answers[number] = inspected[number] = BadItem(number + 1, reason)
    component = served.component(run.component, run.options)
    results = [result_of(component, each) for each in answers]
    same, inspect_same = (digest_of(component, each) == run.digest for each in (answers, inspected))
    return RunAnswer(run.model, run.component, results, same, inspect_same, inside)


def error(status: int, kind: str, message: str) -> dict[str, object]:
    """The body of an error."""
    return {"error": {"kind": kind, "message": message}}


ROUTES = Routes()
for path, (_, kind, summary) in PATHS.items():
    ROUTES.post(f"/v1/{path}", kind, OwnAnswer, summary)(partial(answer, path=path))
ROUTES.add("GET", "/inspect/{id}", replay, answer=ReplayAnswer)
ROUTES.add("POST", "/inspect/{id}", replay, Inspect, ReplayAnswer)
OWN = API("regard", ROUTES, error)
