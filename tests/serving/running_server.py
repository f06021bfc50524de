"""A real server on a free port, in a thread of the test."""

import asyncio
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import uvicorn

from regard.api import Model
from regard.serving.apis.request import API
from regard.serving.app import App
from regard.serving.engine import EngineLimits, ServedModel, ServingEngine
from regard.serving.server import APIS, bind, uvicorn_config
from regard.serving.settings import ServerSettings
from regard.serving.worker import Worker
from small import command, environment
from small_mistakes import TRANSLATORS, small_translator

PLAIN = {"trust_env": False, "verify": False}  # of clients: no proxy, no certificates to load


def translation_model() -> Model:
    """A translator of random weights."""
    return Model(small_translator(next(iter(TRANSLATORS))))


class RunningServer:
    """A server, its engine, and a client that asks it."""

    def __init__(self, app: App, url: str):
        self.app, self.engine, self.url = app, app.engine, url
        self.client = httpx.Client(base_url=url, timeout=30, **PLAIN)

    @property
    def paths(self) -> set[str]:
        return {route.path for route in self.app.router.routes}

    def post(self, path: str, body: object, **more: object) -> httpx.Response:
        return self.client.post(path, json=body, **more)

    def asynchronous(self) -> httpx.AsyncClient:
        """A client that sends several requests at once."""
        return httpx.AsyncClient(base_url=self.url, timeout=60, **PLAIN)


class Server(uvicorn.Server):
    """A server that ends at once: uvicorn asks ten times a second whether it should."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(0.01)


@contextmanager
def running(
    models: dict[str, Model] | Sequence[ServedModel],
    settings: ServerSettings | None = None,
    apis: Sequence[API] = APIS,
    **limits: object,
) -> Iterator[RunningServer]:
    """Serve models until the end of the block; all threads have ended then."""
    served = [ServedModel(m, n) for n, m in models.items()] if isinstance(models, dict) else models
    engine = ServingEngine(served, EngineLimits(**limits))
    app = App(engine, apis, settings or ServerSettings())
    listening = bind("127.0.0.1", 0)
    server = Server(uvicorn_config(app, 10))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    try:
        until(lambda: (server.started and engine.ready) or not thread.is_alive())
        assert thread.is_alive()
        running = RunningServer(app, f"http://127.0.0.1:{listening.getsockname()[1]}")
        with running.client:
            yield running
    finally:
        server.should_exit = True
        thread.join(60)
        listening.close()
    assert not thread.is_alive()


class Gate(threading.Event):
    """An event, and how many threads have come to it."""

    arrived = 0


def gate_warm_up(monkeypatch) -> Gate:
    """A gate at which the warm-up of models waits from now on."""
    gate, warm_up = Gate(), Worker._warm_up

    def wait_and_warm_up(worker: Worker) -> None:
        gate.arrived += 1
        gate.wait(60)
        warm_up(worker)

    monkeypatch.setattr(Worker, "_warm_up", wait_and_warm_up)
    return gate


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition, which a loaded machine may bring late."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


async def eventually(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition beside other tasks of the event loop."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


def threads_named(name: str) -> list[threading.Thread]:
    """Threads of a name that have not ended."""
    return [thread for thread in threading.enumerate() if thread.name == name]


@contextmanager
def serving_process(folder: Path, *options: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The verb in a process of its own, and its address, once it answers."""
    words = command("serve", folder, "--port", 0, "--device", "cpu", *options)
    with server_process(words) as (process, url):
        yield process, url


@contextmanager
def server_process(words: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that serves, and its address; at the end it is killed with its own processes.

    Those inherit its standard error: who reads that to its end would wait for all of them.
    """
    process = subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    kill = partial(os.killpg, process.pid, signal.SIGKILL)
    silent = threading.Timer(300, kill)
    silent.start()
    try:
        url = address_of(process)
        ready(url)
        silent.cancel()
        yield process, url
    finally:
        silent.cancel()
        with suppress(ProcessLookupError):
            kill()
        process.wait(60)
        process.stderr.close()


def address_of(process: subprocess.Popen[str]) -> str:
    """The address that a process writes when it serves."""
    for line in process.stderr:
        if found := re.search(r"serving on 127\.0\.0\.1, port (\d+);", line):
            return f"http://127.0.0.1:{found[1]}"
    raise AssertionError(f"no server: {process.wait(60)}")


def ready(url: str) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if httpx.get(f"{url}/health/ready", trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise AssertionError("the server is not ready")
