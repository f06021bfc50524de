"""Requests of all APIs, and the endpoints that answer them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Protocol, TypedDict, TypeVar, Unpack, cast

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from regard.core.errors import BadInput, BadItem, did_you_mean, shown
from regard.inference.component import AnyResult, AnyRow
from regard.models.edits import EditList
from regard.serving.apis import json_body
from regard.serving.apis.json_body import (
    decode_json,
    encode_in_parts,
    encode_json,
    event,
    has_many,
    resumed,
)
from regard.serving.apis.request_images import ImageDecoder
from regard.serving.budgets import Budget, Reservation
from regard.serving.engine import Answer, ServingEngine
from regard.serving.rates import ClientRates
from regard.serving.replays import Replay, ReplayRun, Replays
from regard.serving.request_errors import BadRequest, RequestError, TooLarge, TooSlow, UnknownModel
from regard.serving.request_threads import RequestThreads
from regard.serving.served_model import NO_OPTIONS, ModelInput, Options, ServedModel
from regard.serving.settings import EngineLimits, RequestLimits, ServerSettings
from regard.tasks.components import AnyComponent

Body = TypeVar("Body")
BodyStruct = TypeVar("BodyStruct", bound=Struct)
ENCODERS: Sequence[Callable[[ServedModel], bool]] = (
    lambda served: served.encodes_sentences,
    lambda served: not served.writes,
)
"""Models that are preferred for vectors: sentence encoders, and encoders to those that write."""
LONGEST_USER = 64  # characters in the log
LARGE_BODY = 65_536  # bytes, above which a body is parsed beside the event loop
SMALL_BODY = 16_384  # bytes for which a body always has room
INSPECTED = 64 << 20  # bytes of the values of an answer


class Services:
    """What handlers share besides the engine: settings, replays, threads, and budgets.

    Bodies are held in ``bodies``, those that may have the key of their request in ``unknown``
    until it is known; ``texts`` are bytes and ids that become tokens and texts, ``values`` the
    bytes of inspected runs.
    """

    def __init__(
        self, settings: ServerSettings, engine_limits: EngineLimits, threads: RequestThreads
    ):
        limits, most = settings.limits, engine_limits.max_request_tokens
        self.settings, self.threads, self.apis = settings, threads, list["API"]()
        self.replays = Replays(settings.replay_bytes, settings.replay_seconds)
        self.images = ImageDecoder(limits.pixels)
        self.bodies = Budget("bytes", limits.body_bytes, limits.all_bytes, SMALL_BODY)
        unknown = min(limits.unknown_bytes, limits.body_bytes)
        self.unknown = Budget("bytes", unknown, limits.all_unknown_bytes, SMALL_BODY)
        self.texts = Budget("bytes or ids", most)
        self.values = Budget("bytes of values", INSPECTED)


@dataclass(eq=False)
class APIRequest:
    """A request with its id, and the engine that answers it."""

    http: Request
    engine: ServingEngine
    id: str
    limits: RequestLimits
    services: Services
    log: dict[str, object] = field(default_factory=dict)  # more keys of its line in the log
    body: bytes = b""
    runs: list[ReplayRun] = field(default_factory=list)
    client: ClientRates | None = None  # what is left to it, if there are limits
    owner: bytes = b""  # digest of the key; a client sees only the requests of its key
    timeout: asyncio.Timeout | None = None  # of its handler
    own_deadline: float | None = None  # in seconds, of the body
    held: Reservation | None = None  # of the budget of bodies, once the body is read
    is_large: bool = False  # whether its memory is worth giving back at its end

    def note_user(self, user: str | None) -> None:
        """Write the beginning of a client's name for its user to the log."""
        if user is not None:
            self.log["user"] = user[:LONGEST_USER]

    async def read_body(self, budget: Budget) -> None:
        """Read the body, within the limits of time and of a budget, unless it has been read.

        The budget has its bytes as they come, until the end of the request.
        """
        before, self.held = self.held, budget.reservation()
        if before is not None:
            before.release()
            self.held.grow(len(self.body))
            return
        declared = self.http.headers.get("content-length", "0")
        if declared.isascii() and declared.isdigit() and int(declared) > budget.each:
            raise TooLarge(f"the body has more than {budget.each} bytes")
        parts = []
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for part in self.http.stream():
                    self.held.grow(len(part))
                    parts.append(part)
        except TimeoutError:
            raise TooSlow("the body did not arrive in time") from None
        except ClientDisconnect:
            raise TooSlow("the client went away") from None
        self.body = b"".join(parts)

    def close(self) -> None:
        """Give back what the request holds."""
        if self.held is not None:
            self.is_large |= self.held.amount > LARGE_BODY
            self.held.release()

    async def json(self, kind: type[Body]) -> Body:
        """The body as a value of a type; anything else is BadInput."""
        decode = partial(decode_json, self.body, kind, self.limits.depth)
        return await self.beside(decode, large=len(self.body) > LARGE_BODY)

    def choose_model(
        self,
        name: str | None,
        fits: Callable[[ServedModel], bool],
        purpose: str,
        prefers: Sequence[Callable[[ServedModel], bool]] = (),
    ) -> ServedModel:
        """The model of a name, or the only one that fits a purpose, which messages state.

        Of several that fit, those are left which are preferred, if there are any.
        """
        models = self.engine.models
        if name is not None:
            if name not in models:
                raise UnknownModel(f"there is no model {shown(name)}{did_you_mean(name, models)}")
            if not fits(models[name]):
                raise BadInput(f"model {name} does not serve {purpose}")
            return models[name]
        fitting = [served for served in models.values() if fits(served)]
        if not fitting:
            raise UnknownModel(f"no model here serves {purpose}")
        for preferred in prefers:
            fitting = [served for served in fitting if preferred(served)] or fitting
        if len(fitting) > 1:
            names = ", ".join(served.name for served in fitting)
            raise BadInput(f"model: several models serve {purpose}: name one of {names}")
        return fitting[0]

    async def results(
        self,
        served: ServedModel,
        component: str,
        inputs: Sequence[ModelInput],
        options: Options = NO_OPTIONS,
    ) -> list[AnyResult]:
        """The result of each input; a bad input is an error of the request."""
        self.log |= {"model": served.name, "inputs": len(inputs), "texts": inputs}
        answers = await self.engine.run(served.name, component, inputs, options)
        await self.keep(served, component, inputs, options, answers)
        return [_checked(answer, len(inputs)) for answer in answers]

    async def stream(
        self, served: ServedModel, component: str, item: ModelInput, options: Options
    ) -> AsyncIterator[str | AnyResult]:
        """Pieces of the text of one input, and at last its result."""
        self.log |= {"model": served.name, "inputs": 1, "texts": item}
        run = self.engine.stream
        async for piece in run(served.name, component, item, options, self.deadline):
            if not isinstance(piece, str):
                await self.keep(served, component, [item], options, [piece])
            yield piece

    async def keep(
        self,
        served: ServedModel,
        component: str,
        inputs: Sequence[ModelInput],
        options: Options,
        answers: Sequence[Answer],
        edits: EditList | None = None,
    ) -> None:
        """Keep a run of this request, to be run again by /inspect/ID."""
        if not self.services.replays.seconds:
            return
        runs = served.component(component, options)
        errors = {
            number: answer.reason
            for number, (item, answer) in enumerate(zip(inputs, answers, strict=True))
            if item is None and isinstance(answer, BadInput)
        }
        large = is_large(runs, options, answers)
        digest = await self.beside(partial(digest_of, runs, answers), large=large)
        self.runs.append(
            ReplayRun(
                served.name,
                served.folder_hash,
                component,
                (*inputs,),
                options,
                edits,
                errors,
                digest,
            )
        )
        size = len(self.body) + sum(run.size for run in self.runs)
        self.services.replays.add((self.owner, self.id), Replay((*self.runs,), size))

    async def beside(self, function: Callable[[], Body], *, large: bool) -> Body:
        """The value of a function; what is large is made beside the event loop."""
        self.is_large |= large
        return await self.services.threads.run(function) if large else function()

    async def respond(self, content: object) -> Response:
        """A value as a JSON response, which is encoded beside the event loop if it is large."""
        body = await self.beside(partial(encode_in_parts, content), large=has_many(content))
        return Response(body, media_type="application/json")

    async def rows(
        self,
        served: ServedModel,
        component: str,
        inputs: Sequence[ModelInput],
        options: Options = NO_OPTIONS,
    ) -> list[AnyRow]:
        """The row of each input; a bad input is an error of the request."""
        prepared = await self.engine.prepare(served.name, component, inputs, options)
        return [_checked(row, len(inputs)) for row in prepared]

    async def call(
        self,
        served: ServedModel,
        rows: Sequence[AnyRow],
        function: Callable[[ServedModel, Sequence[int]], Sequence[Body]],
    ) -> list[Body]:
        """The value of each row, by a function of the model and the indices of some rows."""
        self.log |= {"model": served.name, "inputs": len(rows)}
        costs = [row.cost for row in rows]
        return await self.engine.call_in_parts(served.name, function, costs)

    @property
    def deadline(self) -> float:
        """Seconds for the answer: of a header, else of the body; at most those of the server."""
        seconds, most = self._header_seconds, self.engine.limits.deadline
        return min(most, self.own_deadline or most) if seconds is None else min(seconds, most)

    def shorten(self, seconds: float | None) -> None:
        """Set the deadline of the body, from the beginning of the handler."""
        before, self.own_deadline = self.deadline, seconds
        timeout, later = self.timeout, self.deadline - before
        if later and timeout is not None and not timeout.expired():
            timeout.reschedule(cast(float, timeout.when()) + later)

    @property
    def _header_seconds(self) -> float | None:
        """Seconds of the header ``x-request-timeout-seconds``; None: there is none."""
        header = self.http.headers.get("x-request-timeout-seconds")
        if header is None:
            return None
        try:
            seconds = float(header)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds < 1e6:
            raise BadInput(f"x-request-timeout-seconds: a positive number, not {shown(header)}")
        return seconds


def _checked(item: Body | BadItem, inputs: int) -> Body:
    if isinstance(item, BadInput):
        raise item if inputs > 1 else BadInput(cast(BadItem, item).reason)
    return cast(Body, item)


def is_large(component: AnyComponent, options: Options, answers: Sequence[Answer]) -> bool:
    """Whether answers have many numbers: of vectors, or of tokens with their candidates."""
    good = [answer for answer in answers if not isinstance(answer, BadInput)]
    numbers = sum(array.size for each in good for array in component.arrays(each).values())
    candidates = max(1, cast(int, options.get("top") or 1))
    return max(numbers, candidates * sum(each.usage for each in good)) >= json_body.MANY


def digest_of(component: AnyComponent, answers: Sequence[Answer]) -> bytes:
    """Digest of the records of answers, or of their vectors, bit for bit."""
    digest = blake2b()
    for answer in answers:
        if isinstance(answer, BadInput):
            digest.update(answer.reason.encode())
        elif arrays := component.arrays(answer):
            for array in arrays.values():
                digest.update(array.tobytes())
        else:
            digest.update(encode_json(component.records(answer)))
    return digest.digest()


Handler = Callable[[APIRequest], Awaitable[Response]]
ContentFunction = Callable[[APIRequest], Awaitable[object]]
BodyFunction = Callable[[APIRequest, BodyStruct], Awaitable[object]]
ErrorBody = Callable[[int, str, str], object]
"""The body of an error, by its status, its kind and its message."""


@dataclass(frozen=True)
class Endpoint:
    """A path with its method, what it does, and the types of its body and its answer."""

    method: str
    path: str
    handler: Handler
    summary: str
    body: type[Struct] | None = None
    answer: object = None  # a type, or the media type of an answer that is not JSON
    admin: bool = False
    open: bool = False  # answered without a key
    key_in_body: Callable[[bytes], str | None] | None = None  # if there is none in the headers


class EndpointOptions(TypedDict, total=False):
    """Fields of an endpoint that have defaults."""

    admin: bool
    open: bool
    key_in_body: Callable[[bytes], str | None]


class BodyReader(Protocol):
    """A function that reads the body of a request as a value of a type."""

    async def __call__(self, request: APIRequest, kind: type[Body], /) -> Body: ...


class Routes(list[Endpoint]):
    """Endpoints, added by decorators of functions; what these return is the content of the answer.

    Unless a summary is written, it is the first line of the docstring of the function.
    """

    def __init__(self, read: BodyReader = APIRequest.json):
        super().__init__()
        self.read = read

    def add(
        self,
        method: str,
        path: str,
        function: ContentFunction,
        body: type[Struct] | None = None,
        answer: object = None,
        summary: str = "",
        **options: Unpack[EndpointOptions],
    ) -> None:
        """Add an endpoint whose function reads the body itself."""
        handler, summary = partial(_respond, function), summary or _summary(function)
        self.append(Endpoint(method, path, handler, summary, body, answer, **options))

    def get(
        self,
        path: str,
        answer: object = None,
        summary: str = "",
        **options: Unpack[EndpointOptions],
    ) -> Callable[[ContentFunction], ContentFunction]:
        """Add an endpoint of GET."""

        def add(function: ContentFunction) -> ContentFunction:
            self.add("GET", path, function, None, answer, summary, **options)
            return function

        return add

    def post(
        self,
        path: str,
        body: type[BodyStruct],
        answer: object = None,
        summary: str = "",
        **options: Unpack[EndpointOptions],
    ) -> Callable[[BodyFunction[BodyStruct]], BodyFunction[BodyStruct]]:
        """Add an endpoint of POST, whose function also takes the body as a value of a type."""

        def add(function: BodyFunction[BodyStruct]) -> BodyFunction[BodyStruct]:
            run = partial(_read_and_run, self.read, body, function)
            own = summary or _summary(function)
            self.add("POST", path, run, body, answer, own, **options)
            return function

        return add


async def _read_and_run(
    read: BodyReader,
    body: type[BodyStruct],
    function: BodyFunction[BodyStruct],
    request: APIRequest,
) -> object:
    """Run a function of the body; endpoints hold no closures, as worker processes get a copy."""
    return await function(request, await read(request, body))


async def _respond(function: ContentFunction, request: APIRequest) -> Response:
    content = await function(request)
    return content if isinstance(content, Response) else await request.respond(content)


def _summary(function: Callable[..., object]) -> str:
    """The first line of the docstring of a function."""
    return (function.__doc__ or "").partition("\n")[0]


@dataclass(frozen=True)
class API:
    """Endpoints of one interface; ``error`` writes the body of an error.

    Unknown paths that begin with ``prefix`` have errors of this API. If it ``names_model``, the
    address may have the name of a model, as ?model=NAME.
    """

    name: str
    routes: Sequence[Endpoint]
    error: ErrorBody
    prefix: str | None = None
    names_model: bool = False


async def stream_events(
    pieces: AsyncIterator[Body],
    write: Callable[[AsyncIterator[Body]], AsyncIterator[bytes]],
    error: ErrorBody,
) -> Response:
    """Events that are written for pieces; a later error is the last event.

    An error before the first piece is an error of the request.
    """
    first = await anext(pieces)

    async def events() -> AsyncIterator[bytes]:
        try:
            async for each in write(resumed(first, pieces)):
                yield each
            return
        except BadInput as fault:
            last: RequestError = BadRequest.of(fault)
        except RequestError as fault:
            last = fault
        yield event(error(last.status, last.kind, str(last)))

    return StreamingResponse(events(), media_type="text/event-stream")
