"""The API of the studio: its page, its scripts, and the data of its pages.

The page loads nothing from elsewhere, and no page from elsewhere may use it: a policy of the page
says the first, and a check of the headers of each request the second.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from regard.serving.apis.operations import OPERATIONS
from regard.serving.apis.own import OWN, error
from regard.serving.apis.request import API, Routes
from regard.studio import heads, papers, predictions, text_records
from regard.studio.access import AccessToken, guarded
from regard.studio.branches import Trainings
from regard.studio.checkpoints import OpenCheckpoints, checkpoint_routes
from regard.studio.model_list import list_models
from regard.studio.page_files import FOLDERS, asset, page, to_page
from regard.studio.runs import run_routes

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
