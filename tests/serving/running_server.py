"""A real server on a free port, in a thread of the test."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx
import uvicorn

from regard.api import Model
from regard.serving.app import App
from regard.serving.doors.door import Door
from regard.serving.engine import EngineLimits, ServedModel, ServingEngine
from regard.serving.server import DOORS, bind, uvicorn_config
from regard.serving.settings import ServerSettings
from regard.serving.worker import Worker


class RunningServer:
    """A server, its engine, and a client that asks it."""

    def __init__(self, app: App, url: str):
        self.app, self.engine, self.url = app, app.engine, url
        self.client = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def post(self, path: str, body: object, **more: object) -> httpx.Response:
        return self.client.post(path, json=body, **more)


@contextmanager
def running(
    models: dict[str, Model] | Sequence[ServedModel],
    settings: ServerSettings | None = None,
    doors: Sequence[Door] = DOORS,
    **limits: object,
) -> Iterator[RunningServer]:
    """Serve models until the end of the block; all threads have ended then."""
    served = [ServedModel(m, n) for n, m in models.items()] if isinstance(models, dict) else models
    engine = ServingEngine(served, EngineLimits(**limits))
    app = App(engine, doors, settings or ServerSettings())
    listening = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn_config(app, 10))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    try:
        while not (server.started and engine.ready):
            assert thread.is_alive()
            time.sleep(0.01)
        running = RunningServer(app, f"http://127.0.0.1:{listening.getsockname()[1]}")
        with running.client:
            yield running
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
    assert not thread.is_alive()


def gate_warm_up(monkeypatch) -> threading.Event:
    """An event for which the warm-up of models waits from now on."""
    gate, warm_up = threading.Event(), Worker._warm_up

    def wait_and_warm_up(worker: Worker) -> None:
        gate.wait(20)
        warm_up(worker)

    monkeypatch.setattr(Worker, "_warm_up", wait_and_warm_up)
    return gate
