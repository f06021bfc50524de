"""A door: the routes of one interface, and the shape of its errors."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from regard.ground.errors import BadInput, shown
from regard.serving.engine import ServingEngine
from regard.serving.errors import Refusal, TooLarge

Body = TypeVar("Body")
BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)  # and strings


@dataclass(frozen=True)
class RequestLimits:
    """Limits of a request before it is read: bytes, nested brackets, seconds to send it, pixels."""

    body_bytes: int = 8 << 20
    depth: int = 32
    body_seconds: float = 20.0
    pixels: int = 40_000_000


class NotAllowed(Refusal):
    """The request needs a key, or another key."""

    status, kind = 401, "unauthorized"

    @property
    def headers(self) -> dict[str, str]:
        return {"www-authenticate": "Bearer"}


class TooSlow(Refusal):
    """The body did not arrive in time."""

    status, kind = 408, "timeout"


class NotFound(Refusal):
    status, kind = 404, "not_found"


class MethodNotAllowed(Refusal):
    status, kind = 405, "method_not_allowed"


@dataclass(eq=False)
class Exchange:
    """A request with its id, and the engine that answers it."""

    request: Request
    engine: ServingEngine
    id: str
    limits: RequestLimits
    services: Any  # a Services of the app
    log: dict[str, object] = field(default_factory=dict)  # more keys of its line in the log
    body: bytes = b""

    async def read_body(self) -> None:
        """Read the body, within the limits of size and time."""
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

    @property
    def deadline(self) -> float | None:
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


def decode_json(content: bytes, of: type[Body], depth: int = 32) -> Body:
    """JSON as a value of a type; deep nesting is refused before it is parsed."""
    level = 0
    for match in BRACKETS.finditer(content):
        level += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(match[0], 0)
        if level > depth:
            raise BadInput(f"the body has more than {depth} nested brackets")
    try:
        return msgspec.json.decode(content, type=of)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"the body is not what this path reads: {error}") from None


def encode_json(content: object) -> bytes:
    """A value as JSON; arrays of numpy are lists."""
    return msgspec.json.encode(content, enc_hook=_plain)


def json_response(content: object, status: int = 200, **headers: str) -> Response:
    """A value as a JSON response."""
    body = encode_json(content)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(body, status, named, "application/json")


def _plain(value: Any) -> Any:
    return value.tolist()


Handler = Callable[[Exchange], Coroutine[Any, Any, Response]]


@dataclass(frozen=True)
class DoorRoute:
    """A path with its method, what it does, and the types of its body and its answer."""

    method: str
    path: str
    handler: Handler
    summary: str
    body: Any = None
    answer: Any = None
    admin: bool = False


@dataclass(frozen=True)
class Door:
    """Routes of one interface; ``error(status, kind, message)`` is the body of an error."""

    name: str
    routes: Sequence[DoorRoute]
    error: Callable[[int, str, str], object]
