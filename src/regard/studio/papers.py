"""The page Papers: lineage, what each paper changed, and the code that runs."""

from functools import cache

from regard.experiments.paper_records import find_size, lineage, section
from regard.inside.forward_path import forward_path, forward_path_record
from regard.models.papers import PAPERS
from regard.serving.apis.request import APIRequest, Routes
from regard.serving.request_errors import NotFound
from regard.studio.text_records import binary
from regard.views.papers_view import papers_record
from regard.views.view_record import ViewRecord

ROUTES = Routes()


@ROUTES.get("/studio/papers")
async def papers(request: APIRequest) -> object:
    """All papers."""
    return binary(_papers(), "")


@cache
def _papers() -> ViewRecord:
    return papers_record([*map(section, lineage().values())])


@ROUTES.get("/studio/papers/{name}")
async def path(request: APIRequest) -> object:
    """The code that a paper runs."""
    name = request.http.path_params["name"]
    if name.lower() not in lineage():
        raise NotFound("there is no such paper")
    return binary(_path(name.lower()), "")


@cache
def _path(key: str) -> ViewRecord:
    paper, _ = find_size(key)
    steps = forward_path(PAPERS[key], paper.default)
    return forward_path_record(f"{paper.name}: the functions of a forward pass", steps)
