"""Which kind of position suits which task: the same small encoder on SST-2 and on CoNLL-2003.

    python bench/positions.py --data UNDERSTANDING [--seeds 3] [--steps N] [--device cuda]

Trains the recipes positions-sst2 and positions-conll with learned, sinusoid and relative positions,
and with none, once for each seed; prints accuracy and F1, means and standard deviations (n - 1).
All runs go into a JSON file as they end. Those it holds already are not done again.
"""

import argparse
import json
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import regard
from regard.core.files import write_json
from regard.experiments.scores import evaluate
from regard.experiments.training import train_run
from regard.training.distributed import World
from regard.training.recipe import Recipe, read
from regard.training.recipe_files import find

KINDS = ("learned", "sinusoid", "relative", "none")
TASKS = {"positions-sst2": ("SST-2", "accuracy"), "positions-conll": ("CoNLL-2003", "F1")}
RESULTS = Path(__file__).with_name("positions.json")


def main() -> None:
    """Every run that is missing, and one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="with glue/SST-2 and conll2003")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of each run; by default as the recipes say")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--device")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    world = World.join(asked.device)
    seeds = range(1, asked.seeds + 1)
    runs = json.loads(asked.results.read_text()) if asked.results.exists() else []
    chosen = []
    for seed in seeds:
        for task in asked.tasks:
            for kind in asked.kinds:
                recipe = described(task, kind, seed, asked.steps)
                key = {"task": task, "kind": kind, "seed": seed, "steps": recipe.train.steps}
                found = next((run for run in runs if key.items() <= run.items()), None)
                if found is None:
                    found = key | measured(recipe, asked.data, world)
                    runs.append(found)
                    write_json(asked.results, runs)
                chosen.append(found)
    print(table(chosen))


def described(task: str, kind: str, seed: int, steps: int | None) -> Recipe:
    """The recipe of one run."""
    settings = [f"model.change.position={kind}", f"train.seed={seed}"]
    return read(find(task), settings + ([f"train.steps={steps}"] if steps else []))


def measured(recipe: Recipe, data: Path, world: World) -> dict[str, Any]:
    """Train, and judge on the test set."""
    with TemporaryDirectory() as folder:
        run = train_run(recipe, Path(folder), world=world, resume=False, data=data)
        model = regard.load(run.model_folder, str(world.device))
        scores = evaluate(model, recipe, data, check=False).tests["test"].scores
        figures = {score.name: round(score.value, 2) for score in scores}
        return {"scores": figures, "cost": model.notes["cost"], "device": str(world.device)}


def table(runs: list[dict[str, Any]]) -> str:
    """One row for each kind of position, one column for each task, as Markdown."""
    tasks = [task for task in TASKS if any(run["task"] == task for run in runs)]
    lines = ["| positions | " + " | ".join(" ".join(TASKS[task]) for task in tasks) + " |"]
    lines.append("|---" * (len(tasks) + 1) + "|")
    for kind in KINDS:
        cells = [
            cell([r for r in runs if (r["task"], r["kind"]) == (task, kind)]) for task in tasks
        ]
        if any(cells):
            lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(runs: list[dict[str, Any]]) -> str:
    """Mean ± standard deviation over the seeds."""
    values = [run["scores"][TASKS[run["task"]][1]] for run in runs]
    if len(values) < 2:
        return "".join(f"{value:.1f}" for value in values)
    return f"{mean(values):.1f} ± {stdev(values):.1f}"


if __name__ == "__main__":
    main()
