"""The ASGI application: keys, request ids, errors, log and metrics around the routes of all doors.

Every path but /health needs a key, if there are keys. An error is answered in the shape of its
door, in one line, without paths of this machine and without a traceback.
"""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from regard.ground.errors import BadInput
from regard.serving.api_keys import digest_key
from regard.serving.doors.door import (
    Door,
    DoorRoute,
    Exchange,
    Forbidden,
    MethodNotAllowed,
    NotAllowed,
    NotFound,
    Services,
    encode_json,
    json_response,
)
from regard.serving.doors.images import PixelRoom
from regard.serving.engine import ServingEngine
from regard.serving.errors import DeadlineExceeded, Failure, Refusal, hide_paths
from regard.serving.replays import Replays
from regard.serving.request_threads import RequestThreads
from regard.serving.settings import ServerSettings

LOG = logging.getLogger("regard.serving")
ACCESS = logging.getLogger("regard.access")
OPEN_PATHS = re.compile(r"/health(/live|/ready)?")  # without a key
KEY = 'a key, as "Authorization: Bearer KEY"'
ADMIN_ONLY = "this path needs an administrator's key"
WATCHED_AFTER = 0.05  # seconds after which a client that goes away is noticed
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
ALLOWED_HEADERS = ["authorization", "content-type", "x-api-key", "x-request-id"]
ALLOWED_HEADERS += ["x-request-timeout-seconds"]
CLIENT_HEADER = re.compile(r"x-stainless-[a-z-]{1,64}")  # which OpenAI's clients send

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(eq=False)
class PathTree:
    """Routes by method and path; a part {name} of a path stands for any text without a slash."""

    exact: dict[str, dict[str, tuple[Door, DoorRoute]]] = field(default_factory=dict)
    patterns: list[tuple[re.Pattern[str], str]] = field(default_factory=list)

    def add(self, door: Door, route: DoorRoute) -> None:
        """Add a route."""
        if route.path not in self.exact and "{" in route.path:
            parts = re.split(r"\{(\w+)\}", route.path)
            parts[::2] = map(re.escape, parts[::2])
            parts[1::2] = (f"(?P<{name}>[^/]+)" for name in parts[1::2])
            self.patterns.append((re.compile("".join(parts)), route.path))
        by_method = self.exact.setdefault(route.path, {})
        if route.method in by_method:
            raise ValueError(f"two routes for {route.method} {route.path}")
        by_method[route.method] = (door, route)

    @property
    def addresses(self) -> frozenset[str]:
        """All paths as messages write them, with parts in capitals, such as /models/NAME."""
        return frozenset(re.sub(r"\{(\w+)\}", lambda part: part[1].upper(), p) for p in self.exact)

    def find(self, path: str) -> tuple[str, dict[str, str]] | None:
        """The path of a route and the texts of its parts, for the path of a request."""
        if path in self.exact and "{" not in path:
            return path, {}
        for pattern, name in self.patterns:
            if match := pattern.fullmatch(path):
                return name, match.groupdict()
        return None


class App:
    """ASGI application over an engine and doors."""

    def __init__(self, engine: ServingEngine, doors: Sequence[Door], settings: ServerSettings):
        self.engine, self.settings = engine, settings
        replays = Replays(settings.replay_bytes, settings.replay_seconds)
        pixels, threads = PixelRoom(settings.limits.pixels), RequestThreads()
        self.services = Services(settings, replays, doors, pixels, threads)
        self.routes = PathTree()
        for door in doors:
            for route in door.routes:
                self.routes.add(door, route)
        self.default = doors[0]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"].removeprefix("lifespan.")
            if kind == "shutdown":
                await asyncio.get_running_loop().run_in_executor(None, self.engine.close)
            await send({"type": f"lifespan.{kind}.complete"})
            if kind == "shutdown":
                return

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, request = time.perf_counter(), Request(scope, receive)
        given = request.headers.get("x-request-id", "")
        id_ = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        exchange = Exchange(request, self.engine, id_, self.settings.limits, self.services)
        match = self.routes.find(scope["path"])
        path, parts = match or ("unknown", {})
        scope["path_params"] = parts
        by_method = self.routes.exact.get(path, {})
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        door, route = by_method.get(method, (None, None))
        if door is None:
            door = next(iter(by_method.values()), (self.default, None))[0]
        try:
            response = await self._respond(exchange, route, by_method)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            response = self._error(door, error, id_)
        response.headers["x-request-id"] = id_
        self._allow_origin(request, response)
        try:
            await response(scope, receive, send)
        except Exception as error:  # in the middle of a stream
            LOG.error("request %s failed", id_, exc_info=error)
        self._note(exchange, path, response.status_code, time.perf_counter() - start)

    async def _respond(
        self,
        exchange: Exchange,
        route: DoorRoute | None,
        by_method: Mapping[str, tuple[Door, DoorRoute]],
    ) -> Response:
        request, keys = exchange.request, self.settings.keys
        if request.method == "OPTIONS" and self._origin(request):
            return self._preflight(request, by_method)
        if keys is not None and not OPEN_PATHS.fullmatch(request.url.path):
            admin = route is not None and route.admin
            key = _key_of(request)
            if key is None and route is not None and route.key_in_body is not None:
                await exchange.read_body()
                key = route.key_in_body(exchange.body)
            if not keys.admit(key):
                raise NotAllowed(f"this path needs {KEY}" if key is None else "wrong key")
            if admin and not keys.admit(key, admin=True):
                raise Forbidden(ADMIN_ONLY)
            exchange.owner = digest_key(key)
        elif route is not None and route.admin:
            raise NotAllowed(ADMIN_ONLY)
        if not by_method:
            raise NotFound("there is no such path; /docs lists all")
        if route is None:
            raise MethodNotAllowed(by_method)
        await exchange.read_body()
        if route.admin:  # models are loaded for as long as it takes
            return await _unless_gone(route.handler(exchange), request)
        try:
            async with asyncio.timeout(exchange.deadline) as exchange.timeout:
                return await _unless_gone(route.handler(exchange), request)
        except TimeoutError:
            raise DeadlineExceeded(f"no answer within {exchange.deadline:g} s") from None

    def _error(self, door: Door, error: Exception, id_: str) -> Response:
        if isinstance(error, BadInput):
            error = BadRequest(hide_paths(str(error), self.routes.addresses))
        if not isinstance(error, Refusal):
            LOG.error("request %s failed", id_, exc_info=error)
            error = Failure("the request failed; the log of the server has the reason")
        self.engine.metrics.rejected.labels(error.kind).inc()
        response = json_response(door.error(error.status, error.kind, str(error)), error.status)
        response.headers.update(error.headers)
        return response

    def _origin(self, request: Request) -> str | None:
        origin = request.headers.get("origin")
        allowed = self.settings.cors
        return origin if origin is not None and (origin in allowed or "*" in allowed) else None

    def _allow_origin(self, request: Request, response: Response) -> None:
        if (origin := self._origin(request)) is not None:
            response.headers["access-control-allow-origin"] = origin
            response.headers["access-control-expose-headers"] = "x-request-id, retry-after"
            response.headers["vary"] = "Origin"

    def _preflight(self, request: Request, by_method: Mapping[str, object]) -> Response:
        names = request.headers.get("access-control-request-headers", "").lower().split(",")
        known = (name.strip() for name in names if CLIENT_HEADER.fullmatch(name.strip()))
        headers = {
            "access-control-allow-methods": ", ".join(sorted(by_method) or ["GET", "POST"]),
            "access-control-allow-headers": ", ".join([*ALLOWED_HEADERS, *known]),
            "access-control-max-age": "600",
        }
        return Response(status_code=204, headers=headers)

    def _note(self, exchange: Exchange, path: str, status: int, seconds: float) -> None:
        """Count a request, and write its line of the log."""
        metrics = self.engine.metrics
        metrics.requests.labels(path, str(status)).inc()
        metrics.latency.labels(path).observe(seconds)
        more = {k: v for k, v in exchange.log.items() if k != "texts" or self.settings.log_texts}
        line: dict[str, object] = {
            "id": exchange.id,
            "method": exchange.request.method,
            "path": path,
        }
        line |= {"status": status, "ms": round(seconds * 1_000, 2), **more}
        ACCESS.info("%s", encode_json(line).decode())


class BadRequest(Refusal):
    """The input is wrong."""

    status, kind = 400, "bad_input"


class Gone(Refusal):
    """Nobody waits for the answer."""

    status, kind = 499, "client_gone"


def _key_of(request: Request) -> str | None:
    """The key of a request: "Authorization: Bearer KEY", or "X-API-Key: KEY"."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else request.headers.get("x-api-key")


class Watch:
    """Cancels a task when the client of its request goes away; quick answers are not watched."""

    def __init__(self, request: Request):
        self.request, self.gone = request, False
        self.task = cast("asyncio.Task[Response]", asyncio.current_task())
        self.watching: asyncio.Task[None] | None = None
        self.timer = asyncio.get_running_loop().call_later(WATCHED_AFTER, self._begin)

    def _begin(self) -> None:
        self.watching = asyncio.ensure_future(self._cancel_if_gone())

    async def _cancel_if_gone(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.task.cancel()

    def end(self) -> None:
        """Watch no longer."""
        self.timer.cancel()
        if self.watching is not None:
            self.watching.cancel()


async def _unless_gone(answer: Awaitable[Response], request: Request) -> Response:
    """The answer of a handler, which is cancelled when the client goes away."""
    watch = Watch(request)
    try:
        return await answer
    except asyncio.CancelledError:
        if not watch.gone:
            raise
        watch.task.uncancel()
        raise Gone("the client went away") from None
    finally:
        watch.end()
