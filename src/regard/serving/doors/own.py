"""The door of regard itself: /v1/NAME for each component, with the records of its command line.

A body has one input (its keys, such as "text") or a list of "inputs". With "inspect", the answer
also has values of the very run that gave it; /inspect/ID runs an answered request again.
"""

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, cast

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from regard.ground.errors import BadInput, BadItem, did_you_mean, shown
from regard.ground.tape import Tape
from regard.images.decode import decode_image, decode_picture
from regard.inference.component import AnyResult, AnyRow
from regard.inference.decoder_model import DecoderModel, Writer
from regard.inference.generator import Ending
from regard.inside.edits import EditList, list_edits
from regard.inside.record import of_one_input, tape_patterns
from regard.serving.doors.door import (
    Door,
    DoorRoute,
    Exchange,
    NotFound,
    base64_of,
    encode_json,
    json_response,
)
from regard.serving.engine import Answer
from regard.serving.errors import hide_paths
from regard.serving.replays import Replay
from regard.serving.searches import SETTINGS, method_of
from regard.serving.served_model import ModelInput, Options, ServedModel, inputs_of
from regard.tasks.components import AnyComponent

Record = dict[str, object]
JSONObject = dict[str, Any]  # of a request, before a component reads it
Count = Annotated[int, Meta(ge=1)]
MOST_INSPECTED_BYTES = 64 << 20  # of the values of an answer


class Inspect(Struct, forbid_unknown_fields=True):
    """Values to return: kinds ("weights", "states", …) of layers, and patterns of the tape.

    Without kinds and patterns, attention weights are returned.
    """

    layers: list[int] | None = None
    values: list[str] = []
    names: list[str] = []


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

    prefix: str | UnsetType = UNSET
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


class GenerateRequest(WriteRequest, kw_only=True):
    max_new_tokens: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    min_new_tokens: Annotated[int, Meta(ge=0, le=65_536)] = 0
    stop_strings: list[str] = []

    def component_options(self, served: ServedModel) -> Options:
        ending = Ending.of(self.max_new_tokens, self.min_new_tokens, self.stop_strings)
        return {**super().component_options(served), "ending": ending}


class InputResult(Struct):
    """The records of an input, or its error."""

    records: list[JSONObject] | UnsetType = UNSET
    cut: bool | UnsetType = UNSET
    tokens: int | UnsetType = UNSET
    error: str | UnsetType = UNSET


class TapeValue(Struct):
    """An array of float32, little-endian, in base64."""

    shape: tuple[int, ...]
    data: str


class InsideOfRun(Struct):
    """Names of the tokens by side of the model, and values of the tape by name."""

    tokens: dict[str, list[str]] | UnsetType = UNSET
    values: dict[str, TapeValue] | UnsetType = UNSET


class OwnAnswer(Struct):
    """Results in the order of the inputs."""

    id: str
    model: str
    results: list[InputResult]
    usage: dict[str, int]
    inspect: list[InsideOfRun] | None = None


PATHS: dict[str, tuple[str, type[OwnRequest], str]] = {
    "translate": ("translate", WriteRequest, "Translate texts."),
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


def path_of_predictor(component: AnyComponent) -> str:
    """The path that a predictor serves."""
    return "label-image" if component.reads_images else component.name


def has_path(served: ServedModel, path: str) -> bool:
    """Whether a model serves a path."""
    component = PATHS[path][0]
    if component not in served.components:
        return False
    return component != "predict" or path_of_predictor(served.component("predict")) == path


def model_for(exchange: Exchange, name: str | None, path: str) -> ServedModel:
    """The model of a request: by name, or the only one that serves the path."""
    return exchange.choose_model(name, lambda served: has_path(served, path), f"/v1/{path}")


def parse_inputs(
    body: OwnRequest, component: AnyComponent, pixels: int
) -> list[ModelInput | BadItem]:
    """The inputs of a request as the component reads them, a ``BadItem`` in place of a bad one."""
    known = {key for keys in _record_keys(component) for key in keys} | {"prefix"}
    given = msgspec.structs.asdict(body).items()
    own = {key: value for key, value in given if key in known and value is not UNSET}
    if (body.inputs is None) == (not own):
        keys = " or ".join(", ".join(keys) for keys in _record_keys(component))
        raise BadInput(f"write one input ({keys}), or a list of inputs")
    inputs = [own] if body.inputs is None else body.inputs
    return [_parsed(number, each, component, pixels) for number, each in enumerate(inputs, 1)]


def _record_keys(component: AnyComponent) -> Sequence[tuple[str, ...]]:
    return (("image",),) if component.reads_images else component.record_keys


def _parsed(
    number: int, given: str | JSONObject, component: AnyComponent, pixels: int
) -> ModelInput | BadItem:
    """An input, or the ``BadItem`` that says what is wrong with it."""
    try:
        if component.reads_images:
            return _image(given, pixels)
        keys = component.record_keys[0]
        if isinstance(given, str):
            if len(keys) != 1:
                raise BadInput(f"write an object with the keys {', '.join(keys)}")
            given = {keys[0]: given}
        known = {key for keys in component.record_keys for key in keys} | {"prefix"}
        for key in given:
            if key not in known:
                raise BadInput(f"{shown(key)} is no key of an input{did_you_mean(key, known)}")
        return component.parse_record(given, "")
    except BadInput as error:
        return BadItem(number, str(error).removeprefix(": "))


def _image(given: str | JSONObject, pixels: int) -> np.ndarray:
    return decode_image_text(given if isinstance(given, str) else given.get("image"), pixels)


def decode_image_text(text: object, pixels: int) -> np.ndarray:
    """Pixels of an image in base64; its size is bounded before it is decoded."""
    if not isinstance(text, str):
        raise BadInput("image: write the bytes of a file in base64")
    try:
        content = base64.b64decode(text.partition("base64,")[2] or text, validate=True)
    except ValueError:
        raise BadInput("image: not base64") from None
    return decode_bounded(content, pixels)


def decode_bounded(content: bytes, pixels: int) -> np.ndarray:
    """Pixels (H, W, 3) of an image, which has at most ``pixels``."""
    with decode_picture(content, "image") as (_, (height, width)):
        if height * width > pixels:
            raise BadInput(f"image: {height} × {width} pixels are more than {pixels}")
    return decode_image(content, "image")


async def answer(exchange: Exchange, path: str) -> Response:
    """Answer a request to /v1/PATH."""
    name, kind, _ = PATHS[path]
    body = exchange.json(kind)
    served = model_for(exchange, body.model, path)
    edits = _edits(exchange, body)
    options = body.component_options(served)
    component = served.component(name, options)
    parsed = parse_inputs(body, component, exchange.limits.pixels)
    exchange.log |= {"model": served.name, "inputs": len(parsed), "texts": body.inputs}
    inputs = [None if isinstance(each, BadItem) else each for each in parsed]
    deadline = body.deadline if exchange.deadline is None else exchange.deadline
    inspected = None
    if body.inspect is None:
        run = exchange.engine.run
        answers = await run(served.name, name, inputs, options, deadline, edits=edits)
    else:
        answers, inspected = await inspect(
            exchange, served.name, name, inputs, options, edits, body.inspect, deadline
        )
    for number, each in enumerate(parsed):
        if isinstance(each, BadItem):
            answers[number] = each
    results = [result_of(component, each) for each in answers]
    tokens = sum(each.usage for each in answers if not isinstance(each, BadInput))
    usage = {"tokens": tokens, "inputs": len(answers)}
    response = json_response(OwnAnswer(exchange.id, served.name, results, usage, inspected))
    first = encode_json(results)
    size = len(exchange.body) + len(first)
    replay = Replay(served.name, served.folder_hash, name, (*inputs,), options, edits, first, size)
    exchange.services.replays.add(exchange.id, replay)
    return response


def result_of(component: AnyComponent, answered: Answer) -> InputResult:
    """The result of an input."""
    if isinstance(answered, BadItem):
        return InputResult(error=hide_paths(answered.reason))
    return InputResult(component.records(answered), answered.cut, answered.usage)


def _edits(exchange: Exchange, body: OwnRequest) -> EditList | None:
    if body.edits is None:
        return None
    if not exchange.services.settings.allow_edits:
        raise BadInput("edits: this server does not apply the edits of requests")
    return list_edits(body.edits, "edits")


async def inspect(
    exchange: Exchange,
    model: str,
    name: str,
    inputs: Sequence[ModelInput],
    options: Options,
    edits: EditList | None,
    inspection: Inspect,
    deadline: float | None,
) -> tuple[list[Answer], list[InsideOfRun]]:
    """Answers with values of the runs that gave them; each input runs alone."""
    rows = await exchange.engine.prepare(model, name, inputs, options)
    tokens = sum(row.cost for row in rows if not isinstance(row, BadInput))

    def run(served: ServedModel) -> tuple[list[Answer], list[InsideOfRun]]:
        edited = served if edits is None else served.with_edits(edits)
        component = edited.component(name, options)
        prepared = component.prepare(inputs_of(component, inputs), range(len(inputs)))
        answers, records, size = list[Answer](), list[InsideOfRun](), 0
        for row in prepared:
            if isinstance(row, BadInput):
                answers.append(row)
                records.append(InsideOfRun())
                continue
            tape = Tape(*_names(edited, inspection))
            with tape.batches() as of_batches:
                (answered,) = component.results([row], of_batches)
            answers.append(answered)
            values = {key: of_one_input(key, value) for key, value in tape.records.items()}
            size += sum(value.nbytes for value in values.values())
            if size > MOST_INSPECTED_BYTES:
                raise BadInput(
                    f"inspect: the values have more than {MOST_INSPECTED_BYTES >> 20} MiB; "
                    "ask for fewer layers or inputs"
                )
            tokens = tokens_of(edited, component, row, answered)
            records.append(InsideOfRun(tokens, encoded(values)))
        return answers, records

    return await exchange.engine.call(model, run, max(1, tokens), deadline)


def _names(served: ServedModel, inspection: Inspect) -> list[str]:
    """Patterns of the tape for what a request asks for."""
    kinds = inspection.values or ([] if inspection.names else ["weights"])
    patterns = tape_patterns(served.model.inspected, inspection.layers, kinds)
    return [name for names in patterns.values() for name in names] + inspection.names


def tokens_of(
    served: ServedModel, component: AnyComponent, row: AnyRow, answered: Answer
) -> dict[str, list[str]]:
    """Names of the tokens that a run has read, by the side of the model."""
    if isinstance(component, Writer):
        texts = cast(AnyResult, answered).value.texts
        written = list(texts[0].hypothesis.tokens) if texts else []
        pieces = component.model.vocabulary.pieces
        sides = served.facts.sides
        if len(sides) == 1:
            return {sides[0]: pieces([*row.data.ids[0], *written])}
        source = served.model.translator.tokenizer.source.pieces(row.data.ids[0])
        return dict(zip(sides, (source, pieces(written)), strict=True))
    try:
        (tokens,) = served.model.tokens([row.given])
    except BadInput:
        return {}
    return {served.facts.sides[0]: list(tokens.tokens)}


def encoded(values: Mapping[str, np.ndarray]) -> dict[str, TapeValue]:
    """Arrays as little-endian float32 in base64, with their shapes."""
    return {name: TapeValue(value.shape, base64_of(value)) for name, value in values.items()}


class ReplayAnswer(Struct):
    """A request that ran again; ``same``: with the records of the first answer, bit for bit."""

    id: str
    model: str
    results: list[InputResult]
    same: bool
    inspect: list[InsideOfRun]


async def replay(exchange: Exchange) -> Response:
    """Run an answered request again, and return values of its tape."""
    id_ = exchange.request.path_params["id"]
    kept = exchange.services.replays.get(id_)
    if kept is None:
        raise NotFound("no request of this id is kept; ids are kept for some minutes")
    served = exchange.engine.models.get(kept.model)
    if served is None or served.folder_hash != kept.model_hash:
        raise NotFound(f"model {kept.model} is no longer the one that answered")
    inspection = exchange.json(Inspect) if exchange.body else Inspect()
    arguments = kept.model, kept.component, kept.inputs, kept.options
    answers = await exchange.engine.run(*arguments, exchange.deadline, edits=kept.edits)
    component = served.component(kept.component, kept.options)
    results = [result_of(component, each) for each in answers]
    before = msgspec.json.decode(kept.results, type=list[InputResult])
    results = [new if old.error is UNSET else old for old, new in zip(before, results, strict=True)]
    _, records = await inspect(exchange, *arguments, kept.edits, inspection, exchange.deadline)
    same = encode_json(results) == kept.results
    return json_response(ReplayAnswer(id_, kept.model, results, same, records))


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
