"""A door: the routes of one interface, and the shape of its errors."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TypeVar, cast

import msgspec
import numpy as np
from msgspec import UNSET, Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from regard.ground.errors import BadInput, BadItem, did_you_mean, shown
from regard.inference.component import AnyResult, AnyRow
from regard.inside.edits import EditList
from regard.serving.doors.images import PixelRoom
from regard.serving.engine import Answer, ServingEngine
from regard.serving.errors import Refusal, TooLarge, UnknownModel
from regard.serving.replays import Replay, ReplayRun, Replays
from regard.serving.request_threads import RequestThreads
from regard.serving.served_model import NO_OPTIONS, ModelInput, Options, ServedModel
from regard.serving.settings import RequestLimits, ServerSettings
from regard.tasks.components import AnyComponent

Body = TypeVar("Body")
TextsOrIds = str | list[str | int | list[int]]
"""One text, several, the token ids of one text, or of several."""
ENCODERS: Sequence[Callable[[ServedModel], bool]] = (
    lambda served: served.encodes_sentences,
    lambda served: not served.writes,
)
"""Models that are preferred for vectors: sentence encoders, and encoders to those that write."""
TOO_LONG = re.compile(r"Expected `str` of length <= (\d+) - at `\$\.(.+)`$")
MANY = 8_192  # numbers of an answer, which are encoded beside the event loop
WORD = 16  # characters of a text for which it counts like a number
LONGEST_USER = 64  # characters in the log
MOST_BRACKETS = 65_536  # lists and objects of a body
KEPT = b'"[]{}'
OTHERS = bytes({*range(256)} - {*KEPT})
STEPS = np.zeros(256, np.int8)  # of the depth, by character
STEPS[[*b"[{"]], STEPS[[*b"]}"]] = 1, -1


class NotAllowed(Refusal):
    """The request has no key, or a wrong one."""

    status, kind = 401, "unauthorized"

    @property
    def headers(self) -> dict[str, str]:
        return {"www-authenticate": "Bearer"}


class Forbidden(Refusal):
    """The request needs another key than its own, which is known."""

    status, kind = 403, "forbidden"


class TooSlow(Refusal):
    """The body did not arrive in time."""

    status, kind = 408, "timeout"


class NotFound(Refusal):
    status, kind = 404, "not_found"


class MethodNotAllowed(Refusal):
    """The path has other methods."""

    status, kind = 405, "method_not_allowed"

    def __init__(self, methods: Iterable[str]):
        known = {*methods}
        self.methods = ", ".join(sorted(known | {"HEAD"} if "GET" in known else known))
        super().__init__(f"this path has only {self.methods}")

    @property
    def headers(self) -> dict[str, str]:
        return {"allow": self.methods}


@dataclass(eq=False)
class Services:
    """What handlers share besides the engine."""

    settings: ServerSettings
    replays: Replays
    doors: Sequence["Door"]
    pixels: PixelRoom
    threads: RequestThreads


@dataclass(eq=False)
class Exchange:
    """A request with its id, and the engine that answers it."""

    request: Request
    engine: ServingEngine
    id: str
    limits: RequestLimits
    services: Services
    log: dict[str, object] = field(default_factory=dict)  # more keys of its line in the log
    body: bytes = b""
    runs: list[ReplayRun] = field(default_factory=list)
    owner: bytes = b""  # digest of the key; a client sees only the requests of its key
    timeout: asyncio.Timeout | None = None  # of its handler
    own_deadline: float | None = None  # in seconds, of the body

    def note_user(self, user: str | None) -> None:
        """Write the beginning of a client's name for its user to the log."""
        if user is not None:
            self.log["user"] = user[:LONGEST_USER]

    async def read_body(self) -> None:
        """Read the body, within the limits of size and time, unless it has been read."""
        if self.body:
            return
        most = self.limits.body_bytes
        declared = self.request.headers.get("content-length", "0")
        if declared.isascii() and declared.isdigit() and int(declared) > most:
            raise TooLarge(f"the body has more than {most} bytes")
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for part in self.request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > most:
                        raise TooLarge(f"the body has more than {most} bytes")
        except TimeoutError:
            raise TooSlow("the body did not arrive in time") from None
        except ClientDisconnect:
            raise TooSlow("the client went away") from None
        self.body = b"".join(parts)

    def json(self, of: type[Body]) -> Body:
        """The body as a value of a type; anything else is BadInput."""
        return decode_json(self.body, of, self.limits.depth)

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
        self, served: ServedModel, component: str, given: ModelInput, options: Options
    ) -> AsyncIterator[str | AnyResult]:
        """Pieces of the text of one input, and at last its result."""
        self.log |= {"model": served.name, "inputs": 1, "texts": given}
        run = self.engine.stream
        async for piece in run(served.name, component, given, options, self.deadline):
            if not isinstance(piece, str):
                await self.keep(served, component, [given], options, [piece])
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
            for number, (given, answer) in enumerate(zip(inputs, answers, strict=True))
            if given is None and isinstance(answer, BadInput)
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
        return await self.services.threads.run(function) if large else function()

    async def respond(self, content: object) -> Response:
        """A value as a JSON response, which is encoded beside the event loop if it is large."""
        large = count_leaves(content, MANY) >= MANY
        body = await self.beside(partial(encode_in_parts, content), large=large)
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
        given = self.request.headers.get("x-request-timeout-seconds")
        if given is None:
            return None
        try:
            seconds = float(given)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds < 1e6:
            raise BadInput(f"x-request-timeout-seconds: a positive number, not {shown(given)}")
        return seconds


def _checked(item: Body | BadItem, inputs: int) -> Body:
    if isinstance(item, BadInput):
        raise item if inputs > 1 else BadInput(cast(BadItem, item).reason)
    return cast(Body, item)


def decode_json(content: bytes, of: type[Body], depth: int = 32) -> Body:
    """JSON as a value of a type; deep nesting is refused before it is parsed."""
    if not content.strip():
        raise BadInput("the body is empty: write JSON")
    if content.count(b"[") + content.count(b"{") > depth:
        _check_brackets(content, depth)
    try:
        return msgspec.json.decode(content, type=of)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if long := TOO_LONG.search(str(error)):
            raise BadInput(f"{long[2]}: longer than {int(long[1]):,} characters") from None
        raise BadInput(f"the body is not what this path reads: {error}") from None


def _check_brackets(content: bytes, depth: int) -> None:
    """Refuse deep nesting and many brackets, without a loop over the content in Python."""
    unescaped = content.replace(rb"\\", b"").replace(rb"\"", b"")
    kept = np.frombuffer(unescaped.translate(None, OTHERS), np.uint8)
    is_outside = np.cumsum(kept == ord('"'), dtype=np.uint8) % 2 == 0  # of strings
    steps = STEPS[kept[is_outside]]
    if np.cumsum(steps, dtype=np.int32).max(initial=0) > depth:
        raise BadInput(f"the body has more than {depth} nested brackets")
    if (steps > 0).sum() > MOST_BRACKETS:
        raise BadInput(f"the body has more than {MOST_BRACKETS} lists and objects")


def texts_or_ids(given: TextsOrIds, name: str) -> list[str] | list[list[int]]:
    """Inputs of a request: one text, several, the token ids of one text, or of several."""
    if isinstance(given, str):
        return [given]
    if not given:
        raise BadInput(f"{name}: there is no input")
    texts = [each for each in given if isinstance(each, str)]
    ids = [each for each in given if isinstance(each, int)]
    rows = [each for each in given if isinstance(each, list)]
    if len(given) not in (len(texts), len(ids), len(rows)):
        raise BadInput(f"{name}: write texts, or token ids, not both")
    if not all(rows):
        raise BadInput(f"{name}: input {rows.index([]) + 1} has no token ids")
    return texts or ([ids] if ids else rows)


def encode_json(content: object) -> bytes:
    """A value as JSON; arrays of numpy are lists."""
    return msgspec.json.encode(content, enc_hook=_plain)


def encode_in_parts(content: object) -> bytes:
    """A value as JSON, of which each part is short work: other threads run between two of them."""
    if count_leaves(content, MANY) < MANY:
        return encode_json(content)
    content = _with_fields(content)
    if isinstance(content, dict):
        pairs = (encode_json(key) + b":" + encode_in_parts(each) for key, each in content.items())
        return b"{" + b",".join(pairs) + b"}"
    if isinstance(content, list | tuple) or (isinstance(content, np.ndarray) and content.ndim > 1):
        return b"[" + b",".join(map(encode_in_parts, content)) + b"]"
    return encode_json(content)


def count_leaves(content: object, most: int) -> int:
    """Numbers and texts of a value of JSON; the count ends at ``most``, without a look at more."""
    if isinstance(content, np.ndarray):
        return min(content.size, most)
    if isinstance(content, str):
        return min(1 + len(content) // WORD, most)
    content = _with_fields(content)
    parts = content.values() if isinstance(content, dict) else content
    count = 1
    for part in parts if isinstance(parts, Iterable) else ():
        if count >= most:
            break
        count += count_leaves(part, most - count)
    return count


def _with_fields(content: object) -> object:
    """A struct as the dictionary of its fields, and any other value as it is."""
    try:
        fields = msgspec.structs.asdict(cast(Struct, content))
    except TypeError:
        return content
    return {name: value for name, value in fields.items() if value is not UNSET}


def is_large(component: AnyComponent, options: Options, answers: Sequence[Answer]) -> bool:
    """Whether answers have many numbers: of vectors, or of tokens with their candidates."""
    good = [answer for answer in answers if not isinstance(answer, BadInput)]
    numbers = sum(array.size for each in good for array in component.arrays(each).values())
    candidates = max(1, cast(int, options.get("top") or 1))
    return max(numbers, candidates * sum(each.usage for each in good)) >= MANY


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


def base64_of(value: np.ndarray) -> str:
    """The numbers of an array as little-endian float32 in base64."""
    return base64.b64encode(np.ascontiguousarray(value, "<f4").tobytes()).decode()


def json_response(content: object, status: int = 200) -> Response:
    """A small value as a JSON response."""
    return Response(encode_json(content), status, media_type="application/json")


def _plain(value: np.ndarray | np.generic) -> object:
    return value.tolist()


def event(content: object) -> bytes:
    """A value as an event of a stream."""
    return b"data: " + encode_json(content) + b"\n\n"


async def resumed(first: Body, rest: AsyncIterator[Body]) -> AsyncIterator[Body]:
    """A stream whose first value has been taken, from its beginning."""
    yield first
    async for each in rest:
        yield each


Handler = Callable[[Exchange], Awaitable[Response]]


@dataclass(frozen=True)
class DoorRoute:
    """A path with its method, what it does, and the types of its body and its answer."""

    method: str
    path: str
    handler: Handler
    summary: str
    body: type[Struct] | None = None
    answer: type[Struct] | None = None
    admin: bool = False
    key_in_body: Callable[[bytes], str | None] | None = None  # if there is none in the headers


@dataclass(frozen=True)
class Door:
    """Routes of one interface; ``error(status, kind, message)`` is the body of an error."""

    name: str
    routes: Sequence[DoorRoute]
    error: Callable[[int, str, str], object]
