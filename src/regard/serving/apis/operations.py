"""Paths for those who run the server: health, metrics, models, and the description of all paths."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from starlette.responses import HTMLResponse, Response

from regard.core.errors import BadInput
from regard.serving.apis.json_body import json_response
from regard.serving.apis.own import error
from regard.serving.apis.request import API, APIRequest, Routes
from regard.serving.openapi import openapi
from regard.serving.request_errors import NotOffered
from regard.serving.served_model import ServedModel, name_of_folder, parse_languages
from regard.serving.settings import ServerSettings

ROUTES = Routes()
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>regard: paths</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color-scheme:light dark}code,pre{font:14px ui-monospace,monospace}pre{overflow:auto;padding:.5rem;
border:1px solid #8888}summary{cursor:pointer}</style><h1>Paths of this server</h1>
<p>The same as OpenAPI: <a href="/openapi.json">/openapi.json</a></p>%s</html>"""


class Status(Struct):
    status: str


@ROUTES.get("/health/live", Status, open=True)
@ROUTES.get("/health", Status, open=True)
async def live(request: APIRequest) -> object:
    """Whether the process runs."""
    return Status("ok")


@ROUTES.get("/health/ready", Status, open=True)
async def ready(request: APIRequest) -> object:
    """Whether requests are accepted."""
    if request.engine.ready:
        return Status("ok")
    return json_response(Status("starting or stopping"), 503)


@ROUTES.get("/metrics", "text/plain")
async def metrics(request: APIRequest) -> object:
    """Figures for Prometheus."""
    return Response(request.engine.metrics.text(), media_type="text/plain; version=0.0.4")


class ModelDescription(Struct):
    """A model, for clients."""

    name: str
    paper: str
    components: Sequence[str]
    labels: Sequence[str] | None
    max_length: int | None
    source: str | None
    target: str | None
    hash: str
    edits: str | None


class ModelDescriptions(Struct):
    models: list[ModelDescription]


class Unloaded(Struct):
    """The name of a model that is served no longer."""

    unloaded: str


def describe(served: ServedModel) -> ModelDescription:
    """A model, for clients."""
    return ModelDescription(
        served.name,
        served.model.paper.name,
        served.components,
        None if served.labels is None else served.labels.names,
        served.max_length,
        served.source,
        served.target,
        served.folder_hash[:12],
        None if served.edits is None else served.edits.hash,
    )


@ROUTES.get("/admin/models", ModelDescriptions, admin=True)
async def list_models(request: APIRequest) -> object:
    """All models."""
    models = [*map(describe, request.engine.models.values())]
    return ModelDescriptions(models)


class LoadRequest(Struct, forbid_unknown_fields=True):
    """A folder below one of the server's roots, and the name under which it is served.

    A model that takes the place of another keeps its edits and, unless ``languages`` (en-de) are
    given, its languages.
    """

    folder: str
    name: str | None = None
    languages: str | None = None


@ROUTES.post("/admin/models", LoadRequest, ModelDescription, admin=True)
async def load_model(request: APIRequest, body: LoadRequest) -> object:
    """Load a model."""
    settings = request.services.settings
    _check_workers(settings)
    place = _allowed(body.folder, settings.model_roots)
    name = body.name or name_of_folder(str(place))
    languages = None if body.languages is None else parse_languages(body.languages, "languages")
    before = request.engine.models.get(name)

    def opened() -> ServedModel:
        model = ServedModel.open(place, name, settings.device, settings.precision)
        return model.replacing(before, languages)

    served = await request.services.threads.run(opened)
    await request.engine.load_and_wait(served)
    return describe(served)


def _check_workers(settings: ServerSettings) -> None:
    """Refuse to change the models of one process of several."""
    if settings.workers > 1:
        raise NotOffered(
            f"this server has {settings.workers} processes with the same models; to change them "
            "while it runs, start it as a single one"
        )


def _allowed(folder: str, roots: Sequence[Path]) -> Path:
    """The folder, if it is below one of the roots, also with links resolved."""
    with suppress(ValueError, OSError):  # a NUL, or a name that is too long
        for root in roots:
            place = (root / folder).resolve()
            if place.is_relative_to(root.resolve()) and place.is_dir():
                return root / folder
    raise BadInput("folder: not a folder below those from which models may be loaded")


async def unload_model(request: APIRequest) -> object:
    """Unload a model."""
    _check_workers(request.services.settings)
    name = request.http.path_params["name"]
    request.engine.unload(name)
    return Unloaded(name)


ROUTES.add("DELETE", "/admin/models/{name}", unload_model, answer=Unloaded, admin=True)


@ROUTES.get("/openapi.json", dict[str, object])
async def openapi_json(request: APIRequest) -> object:
    """This description."""
    has_keys = request.services.settings.keys is not None
    return openapi(request.services.apis, has_keys=has_keys)


@ROUTES.get("/docs", "text/html")
async def docs(request: APIRequest) -> object:
    """This description, as a page."""
    parts = list[str]()
    for route in (route for api in request.services.apis for route in api.routes):
        schema = {} if route.body is None else msgspec.json.schema(route.body)
        body = f"<pre>{_escaped(schema)}</pre>" if schema else ""
        title = f"<code>{route.method} {route.path}</code> {route.summary}"
        parts.append(f"<details><summary>{title}</summary>{body}</details>")
    return HTMLResponse(PAGE % "\n".join(parts))


def _escaped(schema: object) -> str:
    text = msgspec.json.format(msgspec.json.encode(schema), indent=1).decode()
    return text.replace("&", "&amp;").replace("<", "&lt;")


OPERATIONS = API("operations", ROUTES, error)
