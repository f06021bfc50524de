"""The page of the studio with its scripts and styles: named before they are needed, and gzipped."""

import re
from functools import lru_cache
from gzip import compress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from starlette.responses import RedirectResponse, Response

from regard.serving.apis.request import APIRequest
from regard.serving.request_errors import NotFound

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
ASSETS = files("regard.studio") / "assets"
FOLDERS: dict[str, Traversable] = {
    "assets": ASSETS,
    "pages": ASSETS / "pages",
    "views": files("regard.views") / "modules",
}
"""Folders of scripts and styles, by their part of the path."""
START = "assets/studio.js"
VIEWS = {
    "translate": "attention",
    "see": "image_patches",
    "heads": "heads",
    "compare": "attention",
    "train": "charts",
    "papers": "papers",
}
"""The view that a page draws at once."""
IMPORT = re.compile(r'^import .* from "(\.[./\w]+)";$', re.MULTILINE)
SCRIPT = '<script type="module"'  # before which modules are named
LEAST = 1_000  # bytes that are compressed
AT_ONCE = 64  # files that are kept compressed


def imported_modules(*names: str) -> list[str]:
    """Scripts (FOLDER/FILE) with all that they import, and what these import."""
    modules: dict[str, None] = {}
    waiting = [*names]
    while waiting:
        name = waiting.pop(0)
        if name in modules:
            continue
        modules[name] = None
        folder, _, file = name.partition("/")
        for path in IMPORT.findall((FOLDERS[folder] / file).read_text(encoding="utf-8")):
            up = path.startswith("../")
            waiting.append(path.removeprefix("../") if up else f"{folder}/{path[2:]}")
    return [*modules]


def modules_of_page(name: str) -> list[str]:
    """Scripts that the browser needs before it can draw a page."""
    is_page = (ASSETS / "pages" / f"{name}.js").is_file() if name.isidentifier() else False
    view = [f"views/{VIEWS[name]}.js"] if name in VIEWS else []
    return imported_modules(START, *([f"pages/{name}.js", *view] if is_page else []))


async def asset(request: APIRequest, folder: str) -> Response:
    """A script or style of the page."""
    name = request.http.path_params["name"]
    known = {each.name: each for each in FOLDERS[folder].iterdir() if each.is_file()}
    suffix = PurePosixPath(name).suffix
    if name not in known or suffix not in TYPES:
        raise NotFound("the studio has no such file")
    return _response(request, known[name].read_bytes(), TYPES[suffix])


async def page(request: APIRequest) -> Response:
    """The studio.

    The page names its modules: they are read side by side.
    """
    content = (ASSETS / "index.html").read_text(encoding="utf-8")
    modules = modules_of_page(request.http.query_params.get("page", ""))
    links = [f'<link rel="modulepreload" href="/studio/{name}">\n' for name in modules]
    content = content.replace(SCRIPT, f"{''.join(links)}{SCRIPT}", 1)
    return _response(request, content.encode(), TYPES[".html"])


async def to_page(request: APIRequest) -> Response:
    """The studio."""
    query = request.http.scope["query_string"].decode("latin-1")
    return RedirectResponse(f"/studio?{query}" if query else "/studio")


def _response(request: APIRequest, content: bytes, kind: str) -> Response:
    """A file as the browser asked for it.

    Starlette's ``GZipMiddleware`` compresses anew at each request, with the time in the bytes.
    """
    headers = {"vary": "accept-encoding"}
    accepted = request.http.headers.get("accept-encoding", "").replace(" ", "").split(",")
    if len(content) >= LEAST and "gzip" in accepted:
        content, headers = _gzipped(content), {**headers, "content-encoding": "gzip"}
    return Response(content, media_type=kind, headers=headers)


@lru_cache(AT_ONCE)
def _gzipped(content: bytes) -> bytes:
    return compress(content, mtime=0)
