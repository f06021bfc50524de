"""The ASGI application: keys, request ids, errors, log and metrics around the routes of all APIs.

Every path but /health and the page at / needs a key, if there are keys. An error is answered in the
shape of its API, in one line, without paths of this machine and without a traceback.
"""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from typing import cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from regard.core.errors import BadInput, shown
from regard.core.machine import trim_heap
from regard.serving.apis.json_body import encode_json, json_response
from regard.serving.apis.request import API, APIRequest, Endpoint, Handler, Services
from regard.serving.engine import ServingEngine
from regard.serving.rates import RateLimiter, client_address, count_tokens_of
from regard.serving.request_errors import (
    FAILED,
    BadRequest,
    DeadlineExceeded,
    Failure,
    Forbidden,
    Gone,
    MethodNotAllowed,
    NotAllowed,
    NotFound,
    Overloaded,
    RequestError,
    TwoLengths,
    UnknownHost,
    forget_frames,
)
from regard.serving.settings import ServerSettings, digest_key, host_name, is_allowed

LOG = logging.getLogger("regard.serving")
ACCESS = logging.getLogger("regard.access")
OPEN_PATHS = re.compile(r"/health(/live|/ready)?")  # without a key
KEY = 'a key, as "Authorization: Bearer KEY"'
ADMIN_ONLY = "this path needs an administrator's key"
MOST_REQUESTS = 1_024  # that are read or answered at a time; /health always answers
TRIM_SECONDS = 1.0  # after a large request; a heap takes some time to be searched
WATCHED_AFTER = 0.05  # seconds after which a client that goes away is noticed
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
ALLOWED_HEADERS = ["authorization", "content-type", "x-api-key", "x-request-id"]
ALLOWED_HEADERS += ["x-request-timeout-seconds"]
EXPOSED_HEADERS = ["x-request-id", "retry-after"]
EXPOSED_HEADERS += [
    f"x-ratelimit-{name}-{unit}"
    for unit in ("requests", "tokens")
    for name in ("limit", "remaining", "reset")
]
CLIENT_HEADER = re.compile(r"x-stainless-[a-z-]{1,64}")  # which OpenAI's clients send


@dataclass(frozen=True)
class PathRoute:
    """ASGI application of one path: its endpoints by method, and the API of its errors."""

    app: "App"
    path: str
    api: API
    by_method: Mapping[str, tuple[API, Endpoint]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app.answer(self, scope, receive, send)

    def endpoint(self, method: str) -> tuple[API, Endpoint | None]:
        """The endpoint of a method, and the API of its errors."""
        return self.by_method.get("GET" if method == "HEAD" else method, (self.api, None))


class App:
    """ASGI application over an engine and APIs: the router of Starlette, and all around its routes.

    The middleware of Starlette does not do the same: key, size and rate of a request are checked by
    its endpoint before the body is read, and errors and preflights depend on the path.
    """

    def __init__(self, engine: ServingEngine, apis: Sequence[API], settings: ServerSettings):
        self.engine, self.settings = engine, settings
        self.services = Services(settings, engine.limits, engine.threads)
        self.services.apis += apis
        by_path: dict[str, dict[str, tuple[API, Endpoint]]] = {}
        for api in apis:
            for route in api.routes:
                by_method = by_path.setdefault(route.path, {})
                if route.method in by_method:
                    raise ValueError(f"two routes for {route.method} {route.path}")
                by_method[route.method] = (api, route)
        paths = sorted(by_path, key=lambda path: "{" in path)  # no pattern hides a path
        first = {path: next(iter(by_path[path].values()))[0] for path in paths}
        routes = [Route(path, PathRoute(self, path, first[path], by_path[path])) for path in paths]
        self.router = Router(
            routes, redirect_slashes=False, default=self._answer_unknown, lifespan=self._lifespan
        )
        self.addresses = frozenset(  # as messages write them, such as /models/NAME
            re.sub(r"\{(\w+)\}", lambda part: part[1].upper(), path) for path in paths
        )
        self.limiter = RateLimiter(settings.rates)
        self.working = 0  # requests that are read or answered
        self._trimming: asyncio.Future[None] | None = None
        self._heap_has_grown = False  # by requests that ended since it was last trimmed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.router(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        yield
        await asyncio.get_running_loop().run_in_executor(None, self.engine.close)

    async def _answer_unknown(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a path without a route, by the API of its prefix, else by the first."""
        apis = self.services.apis
        near = (api for api in apis if api.prefix and scope["path"].startswith(api.prefix))
        await self.answer(PathRoute(self, "unknown", next(near, apis[0]), {}), scope, receive, send)

    async def answer(self, route: PathRoute, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, count it, and write its line of the log."""
        start, http = time.perf_counter(), Request(scope, receive)
        named = http.headers.get("x-request-id", "")
        id_ = named if REQUEST_ID.fullmatch(named) else uuid.uuid4().hex
        request = APIRequest(http, self.engine, id_, self.settings.limits, self.services)
        self.working += 1
        try:
            with closing(request):
                status = await self._send(request, route, send)
        finally:
            self.working -= 1
        if request.is_large:
            self._heap_has_grown = True
            if self._trimming is None or self._trimming.done():
                self._trimming = asyncio.ensure_future(self._trim_heap())
        self._note(request, route.path, status, time.perf_counter() - start)

    async def _trim_heap(self) -> None:
        """Give the memory of large requests back to the system, once after several.

        Those that end meanwhile are followed by another time.
        """
        while self._heap_has_grown:
            self._heap_has_grown = False
            await asyncio.sleep(TRIM_SECONDS)
            with suppress(RequestError):  # the server is stopping
                await self.services.threads.run(trim_heap)

    async def _send(self, request: APIRequest, route: PathRoute, send: Send) -> int:
        """Send the answer, and return its status."""
        http = request.http
        api, endpoint = route.endpoint(http.method)
        try:
            response = await self._respond(request, endpoint, route.by_method)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BadInput as error:
            response = self._error(api, BadRequest.of(error, self.addresses))
            forget_frames(error)
        except RequestError as error:
            response = self._error(api, error)
            forget_frames(error)
        except BaseException as error:  # also a panic of a library in Rust
            LOG.error("request %s failed", request.id, exc_info=error)
            response = self._error(api, Failure(FAILED))
            forget_frames(error)
        response.headers["x-request-id"] = request.id
        if request.client is not None:
            response.headers.update(request.client.headers)
        self._allow_origin(http, response)
        try:
            await response(http.scope, http.receive, send)
        except Exception as error:  # in the middle of a stream
            LOG.error("request %s failed", request.id, exc_info=error)
        return response.status_code

    async def _respond(
        self, request: APIRequest, endpoint: Endpoint | None, by_method: Mapping[str, object]
    ) -> Response:
        http, services = request.http, self.services
        if {"content-length", "transfer-encoding"} <= {*http.headers}:
            raise TwoLengths("write Content-Length or Transfer-Encoding, not both")
        is_open = OPEN_PATHS.fullmatch(http.scope["path"]) is not None
        if not is_open:
            if self.working > MOST_REQUESTS:
                raise Overloaded("too many requests at a time; try again later", 1)
            self._check_host(http)
        if http.method == "OPTIONS" and self._origin(http):
            return self._preflight(http, by_method)
        await self._check_key(request, endpoint, is_open=is_open)
        if not is_open:
            self._count_request(request)
        if not by_method:
            raise NotFound("there is no such path; /docs lists all")
        if endpoint is None:
            raise MethodNotAllowed(by_method)
        await request.read_body(services.bodies)
        if endpoint.admin:  # models are loaded for as long as it takes
            return await _unless_gone(endpoint.handler, request)
        try:
            async with asyncio.timeout(request.deadline) as request.timeout:
                return await _unless_gone(endpoint.handler, request)
        except TimeoutError:
            raise DeadlineExceeded(f"no answer within {request.deadline:g} s") from None

    async def _check_key(
        self, request: APIRequest, endpoint: Endpoint | None, *, is_open: bool
    ) -> None:
        """Refuse a request without the key that its endpoint needs."""
        keys = self.settings.keys
        admin = endpoint is not None and endpoint.admin
        if keys is not None and not (is_open or (endpoint is not None and endpoint.open)):
            key = _key_of(request.http)
            if key is None and endpoint is not None and endpoint.key_in_body is not None:
                await request.read_body(self.services.unknown)
                key = endpoint.key_in_body(request.body)
            if not keys.admit(key):
                self._count_request(request)
                raise NotAllowed(f"this path needs {KEY}" if key is None else "wrong key")
            if admin and not keys.admit(key, admin=True):
                raise Forbidden(ADMIN_ONLY)
            request.owner = digest_key(key)
        elif admin:
            raise NotAllowed(ADMIN_ONLY)

    def _count_request(self, request: APIRequest) -> None:
        """Count a request for its key, or its address if it has none, or refuse it."""
        if self.settings.rates:
            address = request.http.client
            host = client_address(None if address is None else address.host)
            request.client = self.limiter.client(request.owner or host)
            count_tokens_of(request.client.begin())

    def _check_host(self, http: Request) -> None:
        """Refuse a request by a name under which this server is not known.

        Starlette's ``TrustedHostMiddleware`` knows neither loopback addresses nor shapes of errors.
        """
        host, names = http.headers.get("host"), self.settings.hosts
        if names is not None and host is not None and not is_allowed(host, names):
            raise UnknownHost(
                f"this server does not answer as {shown(host_name(host))}; "
                "if that is its name, start it with that as an allowed host"
            )

    def _error(self, api: API, error: RequestError) -> Response:
        self.engine.metrics.rejected.labels(error.kind).inc()
        response = json_response(api.error(error.status, error.kind, str(error)), error.status)
        response.headers.update(error.headers)
        return response

    def _origin(self, http: Request) -> str | None:
        origin = http.headers.get("origin")
        allowed = self.settings.cors
        return origin if origin is not None and (origin in allowed or "*" in allowed) else None

    def _allow_origin(self, http: Request, response: Response) -> None:
        if (origin := self._origin(http)) is not None:
            response.headers["access-control-allow-origin"] = origin
            response.headers["access-control-expose-headers"] = ", ".join(EXPOSED_HEADERS)
            response.headers["vary"] = "Origin"

    def _preflight(self, http: Request, by_method: Mapping[str, object]) -> Response:
        """The answer to a preflight: Starlette's ``CORSMiddleware`` knows no methods of a path."""
        names = http.headers.get("access-control-request-headers", "").lower().split(",")
        known = (name.strip() for name in names if CLIENT_HEADER.fullmatch(name.strip()))
        headers = {
            "access-control-allow-methods": ", ".join(sorted(by_method) or ["GET", "POST"]),
            "access-control-allow-headers": ", ".join([*ALLOWED_HEADERS, *known]),
            "access-control-max-age": "600",
        }
        return Response(status_code=204, headers=headers)

    def _note(self, request: APIRequest, path: str, status: int, seconds: float) -> None:
        """Count a request, and write its line of the log."""
        metrics = self.engine.metrics
        metrics.requests.labels(path, str(status)).inc()
        metrics.latency.labels(path).observe(seconds)
        more = {k: v for k, v in request.log.items() if k != "texts" or self.settings.log_texts}
        line: dict[str, object] = {"id": request.id, "method": request.http.method, "path": path}
        line |= {"status": status, "ms": round(seconds * 1_000, 2), **more}
        ACCESS.info("%s", encode_json(line).decode())


def _key_of(http: Request) -> str | None:
    """The key of a request: "Authorization: Bearer KEY", or "X-API-Key: KEY"."""
    kind, _, key = http.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else http.headers.get("x-api-key")


class Watch:
    """Cancels a task when the client of its request goes away; quick answers are not watched."""

    def __init__(self, http: Request):
        self.http, self.gone = http, False
        self.task = cast("asyncio.Task[Response]", asyncio.current_task())
        self.watching: asyncio.Task[None] | None = None
        self.timer = asyncio.get_running_loop().call_later(WATCHED_AFTER, self._begin)

    def _begin(self) -> None:
        self.watching = asyncio.ensure_future(self._cancel_if_gone())

    async def _cancel_if_gone(self) -> None:
        while (await self.http.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.task.cancel()

    def end(self) -> None:
        """Watch no longer."""
        self.timer.cancel()
        if self.watching is not None:
            self.watching.cancel()


async def _unless_gone(handler: Handler, request: APIRequest) -> Response:
    """The answer of a handler, which is cancelled when the client goes away."""
    watch = Watch(request.http)
    try:
        return await handler(request)
    except asyncio.CancelledError:
        if not watch.gone:
            raise
        watch.task.uncancel()
        raise Gone("the client went away") from None
    finally:
        watch.end()
