"""The server process: models are loaded, the application is built, and uvicorn runs it."""

import asyncio
import gc
import logging
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import h11
import torch
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from regard.core.errors import BadInput
from regard.serving.apis.hugging_face import HUGGING_FACE
from regard.serving.apis.libre_translate import LIBRE_TRANSLATE
from regard.serving.apis.openai import OPENAI
from regard.serving.apis.operations import OPERATIONS
from regard.serving.apis.own import OWN
from regard.serving.apis.request import API
from regard.serving.apis.tei import TEI
from regard.serving.app import App
from regard.serving.engine import ServedModel, ServingEngine
from regard.serving.metrics import joined_metrics
from regard.serving.settings import EngineLimits, ServerSettings

APIS: Sequence[API] = (OWN, OPERATIONS, OPENAI, TEI, HUGGING_FACE, LIBRE_TRANSLATE)
"""All APIs; an unknown path has errors as the API of its prefix, else as the first one."""

HEADER_SECONDS = 20  # for a client to send the headers of a request
READ_SECONDS = 30  # in which a client reads READ_BYTES of its answer, or all that is left
READ_BYTES = 65_536
NO_LINGER = struct.pack("ii", 1, 0)  # the system forgets the bytes that were not read
REFUSAL_SECONDS = 5  # to write the refusals of requests that are not answered in time
KEEP_ALIVE = 30  # seconds between requests of a connection
START_SECONDS = 300  # for a worker process to import torch; a silent one is replaced
MOST_CONNECTIONS = 1_024  # beyond which the one that has waited longest for a request is closed
READ_AT_ONCE = 65_536  # bytes of a connection, before others have their turn


@dataclass(frozen=True)
class ModelSource:
    """A model folder, or an id of the hub, with the options under which it is served."""

    folder: str
    name: str | None = None
    edits: Path | None = None
    languages: tuple[str, str] | None = None


@dataclass(frozen=True)
class ServerConfig:
    """All that a process needs to serve, so that worker processes can be started from it."""

    models: tuple[ModelSource, ...]
    settings: ServerSettings = field(default_factory=ServerSettings)
    limits: EngineLimits = field(default_factory=EngineLimits)
    threads: int | None = None
    apis: Sequence[API] = APIS

    def open_engine(self) -> ServingEngine:
        """Load all models; two of one name are an error."""
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        settings, served = self.settings, dict[str, ServedModel]()
        for source in self.models:
            model = ServedModel.open(
                source.folder,
                source.name,
                settings.device,
                settings.precision,
                source.edits,
                source.languages,
            )
            if model.name in served:
                raise BadInput(f"two models are called {model.name}; give them names")
            served[model.name] = model
        return ServingEngine(served.values(), self.limits)

    def check(self) -> None:
        """Load all models once, so that an error is told before processes are started."""
        self.open_engine().close()

    def open_app(self) -> App:
        """The application over the APIs; the log is set up once all models have been loaded."""
        engine = self.open_engine()
        log_to_stderr()
        app = App(engine, self.apis, self.settings)
        gc.collect()
        gc.freeze()  # models stay: collections need not look at them again
        return app


class JoinedWrites:
    """A transport that sends the head of an answer with its content, if that follows at once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop):
        self.transport, self.loop, self.head = transport, loop, b""

    def __getattr__(self, name: str) -> object:
        return getattr(self.transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes; a head is held until the next write or the next turn of the loop."""
        if not self.head and data.startswith(b"HTTP/"):
            self.head = data
            self.loop.call_soon(self.flush)
            return
        head, self.head = self.head, b""
        self.transport.write(head + data)

    def flush(self) -> None:
        """Send the head that is held."""
        if self.head:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self.transport.close()


class BoundedReads(Protocol):
    """A transport of asyncio by the bytes that it reads at once."""

    max_size: int


class PatientProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn, which also cuts off clients that do not send headers, or do not read.

    At the end of the server, requests without an answer are refused after the time of ``drain``.
    Of too many connections, those without a request are closed, so that others find room.
    """

    idle_since = 0.0  # time of the event loop, if no request is answered
    _patience: asyncio.TimerHandle | None = None  # while headers are awaited
    _reading: asyncio.TimerHandle | None = None  # while the client has bytes to read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        cast(BoundedReads, transport).max_size = READ_AT_ONCE
        self.transport = cast(asyncio.Transport, JoinedWrites(transport, self.loop))
        transport.set_write_buffer_limits(0)  # writing is paused while any byte is left
        self.idle_since = self.loop.time()
        self._await_headers()
        if len(self.connections) > MOST_CONNECTIONS:
            self._close_an_idle_one()

    @property
    def is_idle(self) -> bool:
        """Whether no request is answered on the connection."""
        return self.cycle is None or self.cycle.response_complete

    def _close_an_idle_one(self) -> None:
        """Close the connection that has waited longest for a request, if any but this one does."""
        connections = (cast(PatientProtocol, each) for each in self.connections if each is not self)
        idle = (each for each in connections if each.is_idle and not each.transport.is_closing())
        if (oldest := min(idle, key=lambda each: each.idle_since, default=None)) is not None:
            oldest.transport.close()

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._patience is None:  # the beginning of the next request of the connection
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_reading()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_reading()

    def _await_reading(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(READ_SECONDS, self._check_reading, left)

    def _check_reading(self, before: int) -> None:
        """End the connection unless the client has read enough since it had ``before`` bytes."""
        if before - self.transport.get_write_buffer_size() >= READ_BYTES:
            self._await_reading()
            return
        cast(App, self.app).engine.metrics.rejected.labels("client_does_not_read").inc()
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _await_headers(self) -> None:
        self._patience = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def shutdown(self) -> None:
        super().shutdown()
        seconds = (self.config.timeout_graceful_shutdown or 0) - REFUSAL_SECONDS
        if not self.transport.is_closing():
            self.loop.call_later(seconds, cast(App, self.app).engine.abandon)


def log_to_stderr() -> None:
    """Write a line of JSON for each request, and errors, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name in ("regard.access", "regard.serving"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)


def uvicorn_config(app: object, drain: int, workers: int = 1) -> uvicorn.Config:
    """Settings of uvicorn: no log of its own, no server header, bounded connections and times."""
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        factory=workers > 1,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        workers=workers,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_worker_healthcheck=START_SECONDS,
        timeout_graceful_shutdown=drain + REFUSAL_SECONDS,
    )


def bind(host: str, port: int) -> socket.socket:
    """A socket on the port; 0 is any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, for otherwise asyncio does not turn Nagle's delay off.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise BadInput(f"{host}, port {port}: {error.strerror or error}") from None
    listening.set_inheritable(True)
    return listening


def serve(
    config: ServerConfig,
    listening: socket.socket,
    drain: int,
    workers: int = 1,
    when_loaded: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; then answer what was accepted, at most ``drain`` seconds.

    A model that still runs then cannot be stopped: the process ends without it.
    """
    if workers == 1:
        application = config.open_app()
        when_loaded()
        server = uvicorn.Server(uvicorn_config(application, drain))
        for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again at its end
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        server.run([listening])
        if application.engine.is_running:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)  # at the usual end, a thread inside of torch aborts the process
        return
    config.check()
    when_loaded()
    app = partial(ServerConfig.open_app, config)
    listening.listen(2_048)
    with joined_metrics():
        Multiprocess(uvicorn_config(app, drain, workers), [listening]).run()
