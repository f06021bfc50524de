"""The door of regard itself: /v1/NAME for each component, with the records of its command line.

A body has one input (its keys, such as "text") or a list of "inputs". With "inspect", the answer
also has values of the very run that gave it; /inspect/ID runs an answered request again.
"""

from collections.abc import AsyncIterator, Sequence
from functools import cache, partial
from typing import Annotated, Any, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response, StreamingResponse

from regard.ground.errors import BadInput, BadItem, did_you_mean, shown
from regard.inference.decoder_model import DecoderModel
from regard.inference.generator import Ending
from regard.inside.edits import EditList, list_edits
from regard.serving.doors.door import (
    ENCODERS,
    Door,
    DoorRoute,
    Exchange,
    NotFound,
    digest_of,
    event,
    is_large,
    json_response,
    resumed,
)
from regard.serving.doors.images import EncodedImage, decode_all
from regard.serving.doors.inspection import InsideOfRun, Inspect, inspect
from regard.serving.engine import Answer
from regard.serving.errors import Refusal, TooLarge, hide_paths
from regard.serving.replays import ReplayRun
from regard.serving.searches import SETTINGS, method_of
from regard.serving.served_model import ModelInput, Options, ServedModel, reads_images
from regard.serving.settings import RequestLimits
from regard.tasks.components import AnyComponent

Record = dict[str, object]
JSONObject = dict[str, Any]  # of a request, before a component reads it
Count = Annotated[int, Meta(ge=1)]
ParsedInput = ModelInput | EncodedImage | BadItem


class OwnRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Keys of every request; ``model`` may be left out if one model fits."""

    model: str | None = None
    inputs: list[str | JSONObject] | None = None
    inspect: Inspect | None = None
    edits: list[JSONObject] | None = None
    deadline: Annotated[float, Meta(gt=0)] | None = None

    @property
    def options(self) -> Options:
        """Options of the component."""
        return {}

    @property
    def streams(self) -> bool:
        """Whether the answer is a stream of events."""
        return False

    def component_options(self, served: ServedModel) -> Options:
        """Options of the component, for a model."""
        return {name: value for name, value in self.options.items() if value is not None}


class TextRequest(OwnRequest, kw_only=True):
    text: str | UnsetType = UNSET


class PairRequest(TextRequest, kw_only=True):
    first: str | UnsetType = UNSET
    second: str | UnsetType = UNSET


class EmbedRequest(PairRequest, kw_only=True):
    pool: str | None = None
    normalise: bool | None = None

    @property
    def options(self) -> Options:
        return {"pool": self.pool, "normalise": self.normalise}


class FillRequest(TextRequest, kw_only=True):
    top: Annotated[int, Meta(ge=1, le=1_000)] = 5

    @property
    def options(self) -> Options:
        return {"top": self.top}


class ScoreRequest(TextRequest, kw_only=True):
    source: str | UnsetType = UNSET
    target: str | UnsetType = UNSET
    window: Count | None = None
    stride: Count | None = None
    top: Annotated[int, Meta(ge=1, le=1_000)] | None = None

    @property
    def options(self) -> Options:
        return {"window": self.window, "stride": self.stride, "top": self.top}


class TagRequest(TextRequest, kw_only=True):
    pretokenised: bool = False
    entities: bool = False

    @property
    def options(self) -> Options:
        return {"pretokenised": self.pretokenised, "entities": self.entities}


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

    def component_options(self, served: ServedModel) -> Options:
        names = ("search", *{name: None for names in SETTINGS.values() for name in names})
        settings = {name: getattr(self, name) for name in names}
        model = cast(DecoderModel, served.model.runner)
        return {"method": method_of(model, settings, self.best), "best": self.best}


class TranslationRequest(WriteRequest, kw_only=True):
    """``prefix``: the beginning of the translation."""

    prefix: str | UnsetType = UNSET


class GenerateRequest(WriteRequest, kw_only=True):
    max_new_tokens: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    min_new_tokens: Annotated[int, Meta(ge=0, le=65_536)] = 0
    stop_strings: list[str] = []
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


def model_for(exchange: Exchange, name: str | None, path: str) -> ServedModel:
    """The model of a request: by name, or the only one that serves the path."""
    prefers = ENCODERS if path == "embed" else ()
    return exchange.choose_model(name, partial(has_path, path=path), f"/v1/{path}", prefers)


@cache
def _input_keys(body: type[OwnRequest]) -> tuple[str, ...]:
    """Keys of a body that belong to one input."""
    fields = msgspec.structs.fields(body)
    return tuple(each.name for each in fields if each.default is UNSET)


def own_input(body: OwnRequest) -> JSONObject:
    """The keys of one input in a body, empty if it has a list."""
    given = ((key, getattr(body, key)) for key in _input_keys(type(body)))
    return {key: value for key, value in given if value is not UNSET}


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


def _check_keys(given: JSONObject, component: AnyComponent) -> None:
    """Refuse an input with keys that are not read, or without those that are."""
    more = {*component.more_keys, *MORE_KEYS.get(component.name, ())}
    known = {key for keys in _record_keys(component) for key in keys} | more
    for key in given:
        if key not in known:
            raise BadInput(f"{shown(key)} is no key of an input{did_you_mean(key, known)}")
    if {*given} - more not in map(set, _record_keys(component)):
        wrong = f", not {' and '.join(given)}" if given else ""
        raise BadInput(f"an input has {_listed_keys(component)}{wrong}")


def _parsed(
    number: int, given: str | JSONObject, component: AnyComponent, limits: RequestLimits
) -> ParsedInput:
    """An input, or the ``BadItem`` that says what is wrong with it."""
    try:
        keys = _record_keys(component)[0]
        if isinstance(given, str):
            if len(keys) != 1:
                raise BadInput(f"write an object with the keys {', '.join(keys)}")
            given = {keys[0]: given}
        _check_keys(given, component)
        if reads_images(component):
            return EncodedImage.of_text(given["image"], limits.pixels)
        return component.parse_record(given, "")
    except BadInput as error:
        return BadItem(number, str(error).removeprefix(": "))


async def answer(exchange: Exchange, path: str) -> Response:
    """Answer a request to /v1/PATH."""
    name, kind, _ = PATHS[path]
    body = exchange.json(kind)
    exchange.shorten(body.deadline)
    served = model_for(exchange, body.model, path)
    edits = _edits(exchange, body)
    options = body.component_options(served)
    component = served.component(name, options)
    most = exchange.engine.limits.max_inputs
    parsed = parse_inputs(body, component, exchange.limits, most)
    encoded = {place: it for place, it in enumerate(parsed) if isinstance(it, EncodedImage)}
    images = [*encoded.values()]
    with exchange.services.pixels.reserved(images):
        pixels = dict(zip(encoded, await decode_all(images), strict=True))
        inputs = [pixels.get(place, cast(ModelInput, it)) for place, it in enumerate(parsed)]
        return await _answered(exchange, body, served, name, inputs, options, edits)


async def _answered(
    exchange: Exchange,
    body: OwnRequest,
    served: ServedModel,
    name: str,
    parsed: Sequence[ModelInput | BadItem],
    options: Options,
    edits: EditList | None,
) -> Response:
    """The answer to inputs, some of which may be bad."""
    component = served.component(name, options)
    texts = None if reads_images(component) else body.inputs or [own_input(body)]
    exchange.log |= {"model": served.name, "inputs": len(parsed), "texts": texts}
    inputs = [None if isinstance(each, BadInput) else each for each in parsed]
    inspected = None
    if body.streams:
        if edits is not None or body.inspect is not None or len(parsed) > 1:
            raise BadInput("stream: one input, without inspect and edits; /inspect/ID has both")
        return await _stream(exchange, served, name, inputs[0], options)
    if body.inspect is None:
        answers = await exchange.engine.run(served.name, name, inputs, options, edits=edits)
    else:
        answers, inspected = await inspect(
            exchange, served.name, name, inputs, options, edits, body.inspect
        )
    for number, each in enumerate(parsed):
        if isinstance(each, BadInput):
            answers[number] = each
    large = is_large(component, options, answers)
    results = await exchange.beside(partial(results_of, component, answers), large=large)
    tokens = sum(each.usage for each in answers if not isinstance(each, BadInput))
    usage = {"tokens": tokens, "inputs": len(answers)}
    await exchange.keep(served, name, inputs, options, answers, edits)
    return await exchange.respond(OwnAnswer(exchange.id, served.name, results, usage, inspected))


async def _stream(
    exchange: Exchange, served: ServedModel, name: str, given: ModelInput, options: Options
) -> Response:
    """Events with pieces of the text, and a last one with the whole answer."""
    pieces = exchange.stream(served, name, given, options)
    first = await anext(pieces)
    component = served.component(name, options)

    async def events() -> AsyncIterator[bytes]:
        try:
            async for piece in resumed(first, pieces):
                if isinstance(piece, str):
                    yield event(TextPiece(piece))
                else:
                    usage = {"tokens": piece.usage, "inputs": 1}
                    results = [result_of(component, piece)]
                    yield event(OwnAnswer(exchange.id, served.name, results, usage))
        except BadInput as fault:
            yield event(error(400, "bad_input", hide_paths(str(fault))))
        except Refusal as fault:
            yield event(error(fault.status, fault.kind, str(fault)))

    return StreamingResponse(events(), media_type="text/event-stream")


def results_of(component: AnyComponent, answers: Sequence[Answer]) -> list[InputResult]:
    """The result of each input."""
    return [result_of(component, each) for each in answers]


def result_of(component: AnyComponent, answered: Answer) -> InputResult:
    """The result of an input."""
    if isinstance(answered, BadInput):
        return InputResult(error=hide_paths(answered.reason))
    return InputResult(component.records(answered), answered.cut, answered.usage)


def _edits(exchange: Exchange, body: OwnRequest) -> EditList | None:
    if body.edits is None:
        return None
    if not exchange.services.settings.allow_edits:
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


async def replay(exchange: Exchange) -> Response:
    """Run an answered request again, and return values of its tape."""
    id_ = exchange.request.path_params["id"]
    kept = exchange.services.replays.get((exchange.owner, id_))
    if kept is None:
        raise NotFound(_not_kept(exchange.services.settings.workers))
    inspection = exchange.json(Inspect) if exchange.body else Inspect()
    first, *more = [await _run_again(exchange, run, inspection) for run in kept.runs]
    return json_response(ReplayAnswer(**msgspec.structs.asdict(first), id=id_, more=more))


def _not_kept(workers: int) -> str:
    message = "no request of this id is kept; ids are kept for some minutes"
    if workers == 1:
        return message
    return f"{message}, and only by that of the {workers} processes which answered: ask again"


async def _run_again(exchange: Exchange, kept: ReplayRun, inspection: Inspect) -> RunAnswer:
    served = exchange.engine.models.get(kept.model)
    if served is None or served.folder_hash != kept.model_hash:
        raise NotFound(f"model {kept.model} is no longer the one that answered")
    arguments = kept.model, kept.component, kept.inputs, kept.options
    answers = await exchange.engine.run(*arguments, edits=kept.edits)
    inspected, inside = await inspect(exchange, *arguments, kept.edits, inspection)
    for number, reason in kept.errors.items():
        answers[number] = inspected[number] = BadItem(number + 1, reason)
    component = served.component(kept.component, kept.options)
    results = [result_of(component, each) for each in answers]
    same, inspect_same = (
        digest_of(component, each) == kept.digest for each in (answers, inspected)
    )
    return RunAnswer(kept.model, kept.component, results, same, inspect_same, inside)


def error(status: int, kind: str, message: str) -> Record:
    """The body of an error."""
    return {"error": {"kind": kind, "message": message}}


ROUTES = [
    *(
        DoorRoute("POST", f"/v1/{path}", partial(answer, path=path), summary, body, OwnAnswer)
        for path, (_, body, summary) in PATHS.items()
    ),
    *(
        DoorRoute(method, "/inspect/{id}", replay, "Run an answered request again.", body, answered)
        for method, body, answered in (("GET", None, ReplayAnswer), ("POST", Inspect, ReplayAnswer))
    ),
]
DOOR = Door("regard", ROUTES, error)
