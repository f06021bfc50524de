"""Training runs for the page Train: curves, heads, samples, and the command of a branch."""

import json
import re
import shlex
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import Response

from regard.ground.errors import BadInput
from regard.ground.files import read_bytes, read_json
from regard.inside.heads.head_formation import Formation
from regard.inside.views.run_curves import Curves
from regard.serving.doors.door import DoorRoute, Exchange, NotFound, json_response
from regard.studio.text_records import binary
from regard.training.branch import origin_of
from regard.training.checkpoint import Checkpoints
from regard.training.environment import ENVIRONMENT
from regard.training.metrics_log import LOG, read_log, read_watch, watch_log
from regard.training.run_folder import RECIPE

MOST_RUNS = 200
DEPTH = 3  # folders of folders in which runs are looked for
REPEATED = ("--branch", "--at", "--out")  # options that a branch gives anew


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


def chosen_runs(exchange: Exchange, root: Path) -> dict[str, Path]:
    """The runs that a request names, in its order."""
    known, names = runs_in(root), exchange.request.query_params.getlist("run")
    for name in names:
        if name not in known:
            raise NotFound("there is no such run")
    return {name: known[name] for name in names}


async def list_runs(exchange: Exchange, root: Path) -> Response:
    """All runs: their last step, checkpoints, origin, and the command that started them."""
    runs = [_described(*each) for each in runs_in(root).items()]
    return json_response({"folder": str(root), "runs": runs})


def _described(name: str, run: Path) -> dict[str, Any]:
    recipe = read_json(run / RECIPE) if (run / RECIPE).is_file() else {}
    events = read_log(run)
    train = recipe.get("train")
    return {
        "name": name,
        "title": _value(recipe, "about", "title") or name,
        "step": max((int(event["step"]) for event in events), default=0),
        "steps": train.get("steps", 0) if isinstance(train, dict) else 0,
        "finished": (run / "model").is_dir(),
        "checkpoints": Checkpoints(run / "checkpoints").steps(),
        "watches": [name for name in ("heads",) if watch_log(run, name).is_file()],
        "branch": origin_of(run),
        "command": branch_command(name, run),
        "settings": _settings(recipe),
    }


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


def branch_command(name: str, run: Path) -> list[str]:
    """The words of the command that started a run, to which a branch adds its own; or none."""
    if not (run / ENVIRONMENT).is_file():
        return []
    first = json.loads(read_bytes(run / ENVIRONMENT).splitlines()[0])
    words = shlex.split(str(first.get("command", "")))
    if "train" not in words:
        return []
    kept, skips = ["regard", "train"], False
    for word in words[words.index("train") + 1 :]:
        option = word.partition("=")[0]
        if skips or option in (*REPEATED, "--resume"):
            skips = not skips and option in REPEATED and "=" not in word
            continue
        kept.append(word)
    return kept


async def curves(exchange: Exchange, root: Path) -> Response:
    """Curves of runs, by step or by seconds."""
    runs, query = chosen_runs(exchange, root), exchange.request.query_params
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


async def formation(exchange: Exchange, root: Path) -> Response:
    """Heads of a run while they form."""
    for name, run in chosen_runs(exchange, root).items():
        formed = Formation.of_records(name, read_watch(run, "heads"), f"{name}: watch/heads.jsonl")
        return binary(formed.view_record(), name)
    raise BadInput("run: name one")


def run_routes(root: Path) -> list[DoorRoute]:
    """Routes of the runs below a folder."""
    return [
        DoorRoute("GET", "/studio/runs", partial(list_runs, root=root), "All runs."),
        DoorRoute("GET", "/studio/curves", partial(curves, root=root), "Curves of runs."),
        DoorRoute("GET", "/studio/formation", partial(formation, root=root), "Heads of a run."),
    ]
