"""Branches of runs: from a checkpoint of a run, another run goes on with some settings changed.

What came before the checkpoint (data, tokenizer, logs) is copied, so the branch depends on nothing
but its own folder, and its curves begin with those of the run. Without a change it repeats the run
bit for bit.
"""

import shutil
from pathlib import Path

from regard.core.errors import BadInput
from regard.core.files import is_empty, read_json, replacing_folder, write_json
from regard.training.checkpoint import Checkpoints
from regard.training.metrics_log import LOG, WATCHES, MetricsLog
from regard.training.recipe import Recipe
from regard.training.run_folder import BRANCH, RECIPE, changed_keys, write_recipe

CHANGEABLE = ("optimiser", "train")  # tables that decide neither data nor model
FIXED = ("train.precision",)  # a checkpoint remembers it
COPIED = ("text", "data")  # folders of a run
SHOWN = 12  # steps in a message


def branch_run(run: Path, step: int, out: Path, recipe: Recipe) -> list[str]:
    """Make the folder of a branch, which is then resumed; return the keys that differ."""
    if not (run / RECIPE).is_file():
        raise BadInput(f"{run}: not the folder of a run: it has no {RECIPE}")
    checkpoints = Checkpoints(run / "checkpoints")
    if step not in (steps := checkpoints.steps()):
        listed = ", ".join(f"{each:,}" for each in steps[-SHOWN:]) or "none"
        known = f"has no checkpoint of step {step:,}, but: {listed}"
        raise BadInput(f"{run}: {known}; train.keep_every keeps more")
    for key in changed_keys(run, recipe):
        if key.partition(".")[0] not in CHANGEABLE or key in FIXED:
            tables = " and ".join(f"[{name}]" for name in CHANGEABLE)
            advice = f"a branch may change {tables}, without {', '.join(FIXED)}"
            raise BadInput(f"{key}: differs from the recipe of {run}; {advice}")
    changed = changed_keys(run, recipe, free=True)
    if not is_empty(out):
        raise BadInput(f"{out}: is not empty; choose a new folder, or resume this branch")
    progress, _ = checkpoints.load(step)  # a damaged one is an error before anything is written
    earlier = [each for each in steps if each <= step]
    averaged = recipe.train.regular(earlier)[-recipe.train.average :]
    with replacing_folder(out) as folder:
        copies = Checkpoints(folder / "checkpoints")
        for each in {step, *averaged, progress.best_step} & {*earlier}:
            shutil.copytree(checkpoints.place(each), copies.place(each))
        for name in (*COPIED, WATCHES):
            if (run / name).is_dir():
                shutil.copytree(run / name, folder / name)
        if (run / LOG).is_file():
            shutil.copyfile(run / LOG, folder / LOG)
        MetricsLog(folder, after_step=step)  # drops what comes later
        write_recipe(folder, recipe)
        write_json(folder / BRANCH, {"run": run.resolve().name, "step": step, "changed": changed})
    return changed


def origin_of(run: Path) -> dict[str, object] | None:
    """The run, the step and the changed keys of a branch; None: the run is no branch."""
    path = run / BRANCH
    return dict(read_json(path)) if path.is_file() else None
