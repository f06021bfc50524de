"""The studio: its page, its scripts, the data of its pages, and the server of all.

The page loads nothing from elsewhere, and no page from elsewhere may use it: a policy of the page
says the first, and a check of the headers of each request the second.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode, urlunsplit

from regard.core.errors import ArgumentName, BadInput
from regard.serving.apis.operations import OPERATIONS
from regard.serving.apis.own import OWN, error
from regard.serving.apis.request import API, Routes
from regard.serving.serve_options import name_models
from regard.serving.server import ModelSource, ServerConfig, bind, serve
from regard.serving.settings import ServerSettings
from regard.studio import heads, papers, predictions, text_records
from regard.studio.access import TOKEN, AccessToken, guarded
from regard.studio.branches import Trainings
from regard.studio.checkpoints import OpenCheckpoints, checkpoint_routes
from regard.studio.model_list import list_models
from regard.studio.page_files import FOLDERS, asset, page, to_page
from regard.studio.runs import run_routes

HOST = "127.0.0.1"
TO_PAGE = (
    '<!doctype html><meta charset="utf-8"><title>regard studio</title>'
    '<meta http-equiv="refresh" content="0; url={0}"><a href="{0}">regard studio</a>\n'
)
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


def studio_apis(
    runs: Path | None = None, trainings: Trainings | None = None, token: AccessToken | None = None
) -> Sequence[API]:
    """The APIs of a studio: the server's own paths, which the page asks too, and its pages.

    Branches of ``runs`` are started only if there are ``trainings``. With a ``token``, requests
    without it are refused.
    """
    opened = OpenCheckpoints()
    models = partial(list_models, runs=runs is not None, checkpoints=opened.places)
    routes = Routes()
    routes.get("/")(to_page)
    routes.get("/studio")(page)
    for name in FOLDERS:
        routes.get(f"/studio/{name}/{{name}}", summary="A file.")(partial(asset, folder=name))
    routes.get("/studio/models", summary="All models.")(models)
    for module in (text_records, predictions, heads, papers):
        routes += module.ROUTES
    if runs is not None:
        routes += [*run_routes(runs, trainings), *checkpoint_routes(runs, opened)]
    plain = [guarded(each, token=token) for each in (OWN, OPERATIONS)]
    return [*plain, guarded(API("studio", routes, error), HEADERS, token)]


@contextmanager
def page_to(address: str) -> Iterator[str]:
    """Address of a file that leads a browser to another address, and that only this user reads.

    The arguments of a browser can be read by every user of a machine.
    """
    with TemporaryDirectory(prefix="regard-studio-") as folder:
        file = Path(folder) / "studio.html"
        file.write_text(TO_PAGE.format(escape(address)), encoding="utf-8")
        yield file.as_uri()


def launch(
    models: Sequence[str],
    on_ready: Callable[[str], object],
    *,
    open_page: Callable[[str], object] | None = None,
    runs: Path | None = None,
    trains: bool = False,
    has_token: bool | None = None,
    port: int = 8090,
    names: Sequence[str] | None = None,
    precision: str | None = None,
    device: str | None = None,
) -> None:
    """Serve the studio of models until a signal ends it.

    ``on_ready`` is called with its address, and ``open_page`` with one that shows no token. With
    ``trains``, its page starts branches of ``runs``, and it has a token by default.
    """
    if runs is not None and not runs.is_dir():
        raise BadInput((ArgumentName("runs"), f" {runs}: no such folder"))
    if trains and runs is None:
        folder = (": name the folder of runs, too: ", ArgumentName("runs"), " DIR")
        raise BadInput((ArgumentName("train"), *folder))
    trainings = Trainings() if trains else None
    token = AccessToken.new() if (trains if has_token is None else has_token) else None
    settings = ServerSettings(allow_edits=True, device=device, precision=precision)
    named = zip(models, name_models(models, names), strict=True)
    sources = tuple(ModelSource(folder, called) for folder, called in named)
    config = ServerConfig(sources, settings, apis=studio_apis(runs, trainings, token))
    with bind(HOST, port) as listening, ExitStack() as opened:
        _, number = listening.getsockname()
        query = "" if token is None else urlencode({TOKEN: token.value})
        address = urlunsplit(("http", f"{HOST}:{number}", "/studio", query, ""))

        def tell() -> None:
            on_ready(address)
            if open_page is not None:
                secret = token is not None
                open_page(opened.enter_context(page_to(address)) if secret else address)

        try:
            serve(config, listening, drain=5, when_loaded=tell)
        finally:
            if trainings is not None:
                trainings.close()
