"""The door of the studio: its page, its scripts, and the data of its pages.

The page loads nothing from elsewhere, and no page from elsewhere may use it: a policy of the page
says the first, and a check of the headers of each request the second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from urllib.parse import urlsplit

from starlette.responses import RedirectResponse, Response

from regard.serving.doors import operations, own
from regard.serving.doors.door import Door, DoorRoute, Exchange, NotFound
from regard.serving.errors import Refusal
from regard.studio import heads, papers, predictions, text_records
from regard.studio.branches import Trainings
from regard.studio.checkpoints import OpenCheckpoints, checkpoint_routes
from regard.studio.model_list import list_models
from regard.studio.runs import run_routes

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
ASSETS = files("regard.studio") / "assets"
FOLDERS: dict[str, Traversable] = {
    "assets": ASSETS,
    "pages": ASSETS / "pages",
    "views": files("regard.inside.views") / "modules",
}
"""Folders of scripts and styles, by their part of the path."""


class OtherOrigin(Refusal):
    """The request comes from a page of another site."""

    status, kind = 403, "other_origin"


def check_origin(exchange: Exchange) -> None:
    """Refuse requests of pages of other sites, and of names that were bound to this machine.

    A name other than localhost may be another site's, whose address was changed to that of this
    machine after its page was loaded.
    """
    headers = exchange.request.headers
    host = headers.get("host", "")
    if not _is_this_machine(host):
        raise OtherOrigin("the studio answers only to localhost and 127.0.0.1")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise OtherOrigin("pages of other sites may not use the studio")
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise OtherOrigin("pages of other sites may not use the studio")


def _is_this_machine(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


async def asset(exchange: Exchange, folder: str) -> Response:
    """A script or style of the page."""
    name = exchange.request.path_params["name"]
    known = {each.name: each for each in FOLDERS[folder].iterdir() if each.is_file()}
    suffix = PurePosixPath(name).suffix
    if name not in known or suffix not in TYPES:
        raise NotFound("the studio has no such file")
    return Response(known[name].read_bytes(), media_type=TYPES[suffix])


async def page(exchange: Exchange) -> Response:
    """The page of the studio."""
    return Response((ASSETS / "index.html").read_bytes(), media_type=TYPES[".html"])


async def to_page(exchange: Exchange) -> Response:
    """From the root of the server to the page."""
    return RedirectResponse("/studio")


def guarded(door: Door, headers: Mapping[str, str] = MappingProxyType({})) -> Door:
    """A door whose requests are checked, and whose answers have further headers."""

    def guard(route: DoorRoute) -> DoorRoute:
        async def handle(exchange: Exchange) -> Response:
            check_origin(exchange)
            response = await route.handler(exchange)
            for name, value in headers.items():
                response.headers.setdefault(name, value)
            return response

        return replace(route, handler=handle)

    return replace(door, routes=[*map(guard, door.routes)])


def studio_doors(runs: Path | None = None, trainings: Trainings | None = None) -> Sequence[Door]:
    """The doors of a studio: the server's own paths, which the page asks too, and its pages.

    Branches of ``runs`` are started only if there are ``trainings``.
    """
    opened = OpenCheckpoints()
    models = partial(list_models, runs=runs is not None, checkpoints=opened.places)
    routes = (
        DoorRoute("GET", "/", to_page, "The studio."),
        DoorRoute("GET", "/studio", page, "The studio."),
        *(
            DoorRoute("GET", f"/studio/{name}/{{name}}", partial(asset, folder=name), "A file.")
            for name in FOLDERS
        ),
        DoorRoute("GET", "/studio/models", models, "All models."),
        *text_records.ROUTES,
        *predictions.ROUTES,
        *heads.ROUTES,
        *papers.ROUTES,
        *([] if runs is None else [*run_routes(runs, trainings), *checkpoint_routes(runs, opened)]),
    )
    door = Door("studio", routes, own.error)
    return guarded(own.DOOR), guarded(operations.DOOR), guarded(door, HEADERS)
