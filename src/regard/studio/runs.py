"""Training runs for the page Train: curves, heads, and branches from their checkpoints."""

import json
import re
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from regard.core.errors import BadInput, did_you_mean, shown
from regard.core.files import read_json
from regard.inside.heads.head_formation import Formation
from regard.models.folders.loaded_model import CONFIG
from regard.serving.apis.request import APIRequest, Routes
from regard.serving.request_errors import NotFound
from regard.studio.branches import StartCommand, Trainings
from regard.studio.text_records import binary
from regard.training.branch import origin_of
from regard.training.checkpoint import Checkpoints
from regard.training.metrics_log import LOG, read_log, read_watch, watch_log
from regard.training.run_folder import RECIPE
from regard.views.run_curves import Curves

MOST_RUNS = 200
MOST_ORIGINS = 8  # branches of branches
DEPTH = 3  # folders of folders in which runs are looked for


def runs_in(root: Path) -> dict[str, Path]:
    """Runs below a folder by their paths in it; links are not followed out of it."""
    known: dict[str, Path] = {}
    patterns = ["/".join(["*"] * depth + [LOG]) for depth in range(DEPTH + 1)]
    for log in sorted(path for pattern in patterns for path in root.glob(pattern)):
        run = log.parent
        if run.resolve().is_relative_to(root.resolve()) and len(known) < MOST_RUNS:
            name = str(run.relative_to(root))
            known[root.resolve().name if name == "." else name] = run
    return known


def chosen_runs(request: APIRequest, root: Path) -> dict[str, Path]:
    """The runs that a request names, in its order."""
    names = request.http.query_params.getlist("run")
    return {name: find_run(name, root) for name in names}


def find_run(name: str, root: Path) -> Path:
    """The folder of a run by its path below a folder."""
    known = runs_in(root)
    if name not in known:
        raise NotFound("there is no such run")
    return known[name]


async def list_runs(request: APIRequest, root: Path, trainings: Trainings | None) -> object:
    """All runs, with their checkpoints and commands, and the trainings that were started here.

    Trainings are null if none may be started.
    """
    runs = [
        {**_described(name, run), "outs": _outs(run, root, trainings)}
        for name, run in runs_in(root).items()
    ]
    started = None if trainings is None else trainings.records
    return {"folder": str(root), "runs": runs, "trainings": started}


def _described(name: str, run: Path) -> dict[str, Any]:
    recipe = read_json(run / RECIPE) if (run / RECIPE).is_file() else {}
    checkpoints = Checkpoints(run / "checkpoints").steps()
    logged = (int(event["step"]) for event in read_log(run))
    return {
        "name": name,
        "title": _value(recipe, "about", "title") or name,
        "step": max((*logged, *checkpoints), default=0),
        "steps": _value(recipe, "train", "steps") or 0,
        "finished": (run / "model").is_dir(),
        "checkpoints": checkpoints,
        "opens": saved_model(run) is not None,
        "watches": [name for name in ("heads",) if watch_log(run, name).is_file()],
        "branch": origin_of(run),
        "command": StartCommand.of(run).words,
        "settings": _settings(recipe),
    }


def saved_model(run: Path) -> Path | None:
    """Model folder of a run, or of the run of which it is a branch; None: there is none yet."""
    for _ in range(MOST_ORIGINS):
        if (run / "model" / CONFIG).is_file():
            return run / "model"
        origin = origin_of(run)
        if origin is None:
            return None
        run = run.parent / Path(str(origin["run"])).name
    return None


def _value(recipe: dict[str, Any], table: str, key: str) -> Any:
    inner = recipe.get(table)
    return inner.get(key) if isinstance(inner, dict) else None


def _settings(recipe: dict[str, Any]) -> dict[str, str]:
    """Settings that a branch may change, as --set reads them."""
    return {
        f"{table}.{key}": value if isinstance(value, str) else json.dumps(value)
        for table in ("optimiser", "train")
        for key, value in (recipe.get(table) or {}).items()
        if value is not None and key != "precision"
    }


async def curves(request: APIRequest, root: Path) -> object:
    """Curves of runs, by step or by seconds."""
    runs, query = chosen_runs(request, root), request.http.query_params
    if not runs:
        raise BadInput("run: name at least one")
    smooth = query.get("smooth", "0")
    if not re.fullmatch(r"0(\.\d{1,3})?", smooth):
        raise BadInput("smooth: a number from 0 to 0.999")
    by = "seconds" if query.get("by") == "seconds" else "step"
    drawn = Curves({name: read_log(run) for name, run in runs.items()}, float(smooth), by)
    if not drawn.known:
        raise BadInput("there are no figures yet; the first come after train.report_every steps")
    return binary(drawn.view_record(), ", ".join(runs))


async def formation(request: APIRequest, root: Path) -> object:
    """Heads of a run while they form."""
    for name, run in chosen_runs(request, root).items():
        formed = Formation.of_records(name, read_watch(run, "heads"), f"{name}: watch/heads.jsonl")
        return binary(formed.view_record(), name)
    raise BadInput("run: name one")


class BranchRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """A run, the step of one of its checkpoints, and the setting that the branch changes."""

    run: str
    step: Annotated[int, Meta(ge=0)]
    key: str = ""
    value: Annotated[str, Meta(max_length=200)] = ""

    def setting(self, known: dict[str, str]) -> str:
        """The change as ``key=value``; empty: the branch repeats its run."""
        if not self.value.strip():
            return ""
        if self.key not in known:
            raise BadInput(f"no setting is called {shown(self.key)}{did_you_mean(self.key, known)}")
        return f"{self.key}={self.value.strip()}"


async def start_branch(
    request: APIRequest, body: BranchRequest, *, root: Path, trainings: Trainings
) -> object:
    """Start a branch of a run, as a process of its own."""
    run = find_run(body.run, root)
    described, command = _described(body.run, run), StartCommand.of(run)
    if body.step not in described["checkpoints"]:
        raise BadInput(f"run {body.run} has no checkpoint of step {body.step:,}")
    if not command.words:
        raise BadInput(f"run {body.run} was not started by regard train: it cannot be repeated")
    setting = body.setting(described["settings"])
    command.check(setting)
    out = _out(run, body.step, root, trainings)
    words = command.branch(run, body.step, out, setting)
    training = trainings.start(_name(out, root), words, command.folder, setting)
    return training.record


def _outs(run: Path, root: Path, trainings: Trainings | None) -> dict[str, str]:
    """The name that a branch would have, by the step of its checkpoint."""
    steps = Checkpoints(run / "checkpoints").steps()
    return {str(step): _name(_out(run, step, root, trainings), root) for step in steps}


def _out(run: Path, step: int, root: Path, trainings: Trainings | None) -> Path:
    """A new folder for a branch, beside its run."""
    place = root if run == root else run.parent
    stem = f"{run.resolve().name}-at-{step}"
    free = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    return next(path for path in map(place.joinpath, free) if _is_free(path, root, trainings))


def _name(run: Path, root: Path) -> str:
    return str(run.relative_to(root))


def _is_free(out: Path, root: Path, trainings: Trainings | None) -> bool:
    started = () if trainings is None else trainings.by_name
    return not out.exists() and _name(out, root) not in started


class StopRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """The run of a training that was started here."""

    run: str


async def stop_branch(request: APIRequest, body: StopRequest, *, trainings: Trainings) -> object:
    """Stop a training after its step, with a checkpoint; asked again, at once."""
    if body.run not in trainings.by_name:
        raise NotFound("no such training was started here")
    training = trainings.by_name[body.run]
    training.stop()
    return training.record


def run_routes(root: Path, trainings: Trainings | None = None) -> Routes:
    """Routes of the runs below a folder, and of trainings if they may be started."""
    routes = Routes()
    routes.get("/studio/runs", summary="All runs.")(
        partial(list_runs, root=root, trainings=trainings)
    )
    routes.get("/studio/curves", summary="Curves of runs.")(partial(curves, root=root))
    routes.get("/studio/formation", summary="Heads of a run.")(partial(formation, root=root))
    if trainings is not None:
        start = partial(start_branch, root=root, trainings=trainings)
        routes.post("/studio/branch", BranchRequest, summary="Start a branch.")(start)
        stop = partial(stop_branch, trainings=trainings)
        routes.post("/studio/branch/stop", StopRequest, summary="Stop a branch.")(stop)
    return routes
