"""Checkpoints of runs as models of the server, for the pages Compare and Train."""

import asyncio
import re
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from regard.api import Model
from regard.core.device import device_named
from regard.core.errors import BadInput
from regard.models.folders import folder as folders
from regard.serving.apis.request import APIRequest, Routes
from regard.serving.served_model import ServedModel
from regard.serving.settings import ServerSettings
from regard.studio.model_list import describe_model
from regard.studio.runs import find_run, saved_model
from regard.training.checkpoint import Checkpoints
from regard.weights.files import load_weights

MOST_OPEN = 4  # checkpoints that are served at once; the one that was used first is closed


def open_checkpoint(run: Path, step: int, settings: ServerSettings) -> Model:
    """The model of a run with the weights of a checkpoint."""
    checkpoints, like = Checkpoints(run / "checkpoints"), saved_model(run)
    if step not in checkpoints.steps():
        raise BadInput(f"this run has no checkpoint of step {step:,}")
    if like is None:
        raise BadInput("this run has no model yet: open its checkpoints when it is stopped or ends")
    loaded = folders.read(like, device_named(settings.device))
    _, groups = checkpoints.open(step, only=("model",))
    load_weights(loaded.module, {**groups["model"]}, str(checkpoints.place(step)))
    noted = replace(loaded, notes={**loaded.notes, "weights": f"step {step}"})
    return Model(noted, settings.precision)


class OpenCheckpoints:
    """The checkpoints that are served, by the names of their models, the last used one last."""

    def __init__(self) -> None:
        self.places: OrderedDict[str, Path] = OrderedDict()
        self.lock = asyncio.Lock()

    async def serve(self, request: APIRequest, name: str, run: Path, step: int) -> ServedModel:
        """Serve a checkpoint under a name, unless it is served already."""
        place, engine = Checkpoints(run / "checkpoints").place(step), request.engine
        async with self.lock:
            if self.places.get(name) == place and name in engine.models:
                self.places.move_to_end(name)
                return engine.models[name]
            if name in engine.models and name not in self.places:
                raise BadInput(f"a model of the studio is called {name} already")
            settings = request.services.settings
            threads = request.services.threads
            model = await threads.run(partial(open_checkpoint, run, step, settings))
            served = ServedModel(model, name, place)
            await threads.run(lambda: served.folder_hash)  # reads the files once
            self._close(request, name)
            while len(self.places) >= MOST_OPEN:
                self._close(request, next(iter(self.places)))
            engine.load(served)
            self.places[name] = place
            return served

    def _close(self, request: APIRequest, name: str) -> None:
        if self.places.pop(name, None) is not None and name in request.engine.models:
            request.engine.unload(name)


class CheckpointRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """A run below the folder of runs, and the step of one of its checkpoints."""

    run: str
    step: Annotated[int, Meta(ge=0)]


async def open_model(
    request: APIRequest, body: CheckpointRequest, *, root: Path, opened: OpenCheckpoints
) -> object:
    """Serve a checkpoint as a model, and describe it."""
    run = find_run(body.run, root)
    name = re.sub(r"[^A-Za-z0-9._-]", "-", body.run).strip("._-")[:64] or "run"
    served = await opened.serve(request, f"{name}.step-{body.step}", run, body.step)
    return {**describe_model(served), "step": body.step, "run": body.run}


def checkpoint_routes(root: Path, opened: OpenCheckpoints) -> Routes:
    """The route that opens a checkpoint of a run below a folder."""
    routes = Routes()
    handler = partial(open_model, root=root, opened=opened)
    routes.post("/studio/checkpoint", CheckpointRequest, summary="A checkpoint as a model.")(
        handler
    )
    return routes
