"""The page Papers: lineage, what each paper changed, and the code that runs."""

from functools import cache

from starlette.responses import Response

from regard.cli.paper_records import find_size, lineage, section
from regard.inside.forward_path import forward_path
from regard.inside.views.papers_view import papers_record
from regard.inside.views.records import forward_path_record
from regard.inside.views.view_record import ViewRecord
from regard.models.papers import LINEAGE
from regard.serving.doors.door import DoorRoute, Exchange, NotFound
from regard.studio.text_records import binary


async def papers(exchange: Exchange) -> Response:
    """All papers with their tables."""
    return binary(_papers(), "")


@cache
def _papers() -> ViewRecord:
    return papers_record([*map(section, lineage().values())])


async def path(exchange: Exchange) -> Response:
    """The functions of a forward pass of a paper."""
    name = exchange.request.path_params["name"]
    if name.lower() not in lineage():
        raise NotFound("there is no such paper")
    return binary(_path(name.lower()), "")


@cache
def _path(key: str) -> ViewRecord:
    paper, _ = find_size(key)
    (model,) = (each for each in LINEAGE if each.key == key)
    steps = forward_path(model, paper.default)
    return forward_path_record(f"{paper.name}: the functions of a forward pass", steps)


ROUTES = [
    DoorRoute("GET", "/studio/papers", papers, "All papers."),
    DoorRoute("GET", "/studio/papers/{name}", path, "The code that a paper runs."),
]
