"""Paths for those who run the server: health, metrics, models, and the description of all paths."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from starlette.responses import HTMLResponse, Response

from regard import __version__
from regard.ground.errors import BadInput
from regard.serving.doors.door import Door, DoorRoute, Exchange, json_response
from regard.serving.doors.own import error
from regard.serving.errors import NotOffered
from regard.serving.served_model import ServedModel, name_of_folder, parse_languages
from regard.serving.settings import ServerSettings

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>regard: paths</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color-scheme:light dark}code,pre{font:14px ui-monospace,monospace}pre{overflow:auto;padding:.5rem;
border:1px solid #8888}summary{cursor:pointer}</style><h1>Paths of this server</h1>
<p>The same as OpenAPI: <a href="/openapi.json">/openapi.json</a></p>%s</html>"""


async def live(exchange: Exchange) -> Response:
    """Whether the process runs."""
    return json_response({"status": "ok"})


async def ready(exchange: Exchange) -> Response:
    """Whether requests are accepted, and all models have run once."""
    if exchange.engine.ready:
        return json_response({"status": "ok"})
    return json_response({"status": "starting or stopping"}, 503)


async def metrics(exchange: Exchange) -> Response:
    """Figures for Prometheus."""
    return Response(exchange.engine.metrics.text(), media_type="text/plain; version=0.0.4")


def describe(served: ServedModel) -> dict[str, object]:
    """A model, for clients."""
    return {
        "name": served.name,
        "paper": served.paper.name,
        "components": served.components,
        "labels": None if served.labels is None else served.labels.names,
        "max_length": served.max_length,
        "source": served.source,
        "target": served.target,
        "hash": served.folder_hash[:12],
        "edits": None if served.edits is None else served.edits.hash,
    }


async def list_models(exchange: Exchange) -> Response:
    """All models."""
    return json_response({"models": [*map(describe, exchange.engine.models.values())]})


class LoadRequest(Struct, forbid_unknown_fields=True):
    """A folder below one of the server's roots, and the name under which it is served.

    A model that takes the place of another keeps its edits and, unless ``languages`` (en-de) are
    given, its languages.
    """

    folder: str
    name: str | None = None
    languages: str | None = None


async def load_model(exchange: Exchange) -> Response:
    """Load a model, in place of one of the same name; the answer comes when it serves."""
    body, settings = exchange.json(LoadRequest), exchange.services.settings
    _check_workers(settings)
    place = _allowed(body.folder, settings.model_roots)
    name = body.name or name_of_folder(str(place))
    languages = None if body.languages is None else parse_languages(body.languages, "languages")
    before = exchange.engine.models.get(name)

    def opened() -> ServedModel:
        model = ServedModel.open(place, name, settings.device, settings.precision)
        return model.replacing(before, languages)

    served = await asyncio.to_thread(opened)
    await exchange.engine.load_and_wait(served)
    return json_response(describe(served))


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


async def unload_model(exchange: Exchange) -> Response:
    """Unload a model, after its accepted requests."""
    _check_workers(exchange.services.settings)
    name = exchange.request.path_params["name"]
    exchange.engine.unload(name)
    return json_response({"unloaded": name})


def openapi(doors: Sequence[Door]) -> dict[str, object]:
    """All paths in the format OpenAPI 3.1."""
    types = {id(t): t for d in doors for r in d.routes for t in (r.body, r.answer) if t is not None}
    _, components = msgspec.json.schema_components(
        types.values(), ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, object]] = {}
    for door in doors:
        for route in door.routes:
            operation: dict[str, object] = {"summary": route.summary, "tags": [door.name]}
            if route.body is not None:
                operation["requestBody"] = {"required": True, "content": _content(route.body)}
            answer: dict[str, object] = {"description": "The answer."}
            if route.answer is not None:
                answer["content"] = _content(route.answer)
            operation["responses"] = {"200": answer, "default": {"description": "An error."}}
            names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
            operation["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in names
            ]
            paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "regard", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }


def _content(body: type[Struct]) -> dict[str, object]:
    (schema,), _ = msgspec.json.schema_components(
        [body], ref_template="#/components/schemas/{name}"
    )
    return {"application/json": {"schema": schema}}


async def openapi_json(exchange: Exchange) -> Response:
    """The description of all paths."""
    return json_response(openapi(exchange.services.doors))


async def docs(exchange: Exchange) -> Response:
    """The description of all paths as a page that loads nothing from elsewhere."""
    parts = list[str]()
    for route in (route for door in exchange.services.doors for route in door.routes):
        schema = {} if route.body is None else msgspec.json.schema(route.body)
        body = f"<pre>{_escaped(schema)}</pre>" if schema else ""
        title = f"<code>{route.method} {route.path}</code> {route.summary}"
        parts.append(f"<details><summary>{title}</summary>{body}</details>")
    return HTMLResponse(PAGE % "\n".join(parts))


def _escaped(schema: object) -> str:
    text = msgspec.json.format(msgspec.json.encode(schema), indent=1).decode()
    return text.replace("&", "&amp;").replace("<", "&lt;")


ROUTES = [
    DoorRoute("GET", "/health", live, "Whether the process runs."),
    DoorRoute("GET", "/health/live", live, "Whether the process runs."),
    DoorRoute("GET", "/health/ready", ready, "Whether requests are accepted."),
    DoorRoute("GET", "/metrics", metrics, "Figures for Prometheus."),
    DoorRoute("GET", "/admin/models", list_models, "All models.", admin=True),
    DoorRoute("POST", "/admin/models", load_model, "Load a model.", LoadRequest, admin=True),
    DoorRoute("DELETE", "/admin/models/{name}", unload_model, "Unload a model.", admin=True),
    DoorRoute("GET", "/openapi.json", openapi_json, "This description."),
    DoorRoute("GET", "/docs", docs, "This description, as a page."),
]
DOOR = Door("operations", ROUTES, error)
