"""Twenty steps of each task: weights, losses, and a half-done run that is resumed.

The half-done runs are stopped by the first tree that is captured, and resumed by all: in ``check``
that is the tree before, so that the tree after must resume its runs to the same weights.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import regard
from net.inputs import settings
from net.parts import Place, Probes, attempt
from net.values import file_value

STEPS, STOP = 20, 10
QUICK = (
    *(f"train.steps={STEPS}", f"train.checkpoint_every={STOP}", f"train.evaluate_every={STOP}"),
    "train.report_every=1",
)
TASKS = (
    *("translate-transformer", "translate-bpe-dropout-ema", "translate-accumulate"),
    *("classify-pooled", "pretrain-next-sentence", "tune-one", "tune-two", "tune-several"),
    *("tune-number", "tune-tags", "tune-heights", "tune-answer", "tune-choose"),
)


def probes(place: Place) -> Probes:
    """Each run as a whole, then resumed from its half."""
    runs = [(path.stem, path, path.parent, ()) for path in sorted(place.inputs.glob("runs/*.toml"))]
    for name in TASKS:
        changes = [one.removeprefix("--set=") for one in settings(name, place.inputs)]
        recipe = place.inputs / "recipes" / f"{name}.toml"
        runs.append((name, recipe, place.inputs / "data", changes))
    for name in ("prefix", "words", "owls"):
        folder = place.inputs / "mistakes" / name
        recipe = folder / f"{'small' if name == 'words' else name}.toml"
        runs.append((f"small-{name}", recipe, folder, ()))
    for name, recipe, data, changes in runs:
        yield name, attempt(lambda r=recipe, d=data, c=changes, n=name: trained(place, n, r, d, c))


def trained(
    place: Place, name: str, recipe: Path, data: Path, changes: Sequence[str]
) -> dict[str, Any]:
    """What a run writes, and whether its second half, resumed, ends with the same weights."""
    whole, again = place.work / name, place.work / f"{name}-resumed"
    half = place.inputs / "half" / name
    options = {"settings": [*changes, *QUICK], "device": "cpu"}
    if not half.exists():
        stopped = place.work / f"{name}-half"
        events = regard.train_events(recipe, data, stopped, **options)
        for event in events:
            if isinstance(event, regard.SaveEvent) and event.progress.step == STOP:
                break
        events.close()
        shutil.copytree(stopped, half)
    losses = [*map(loss, regard.train_events(recipe, data, whole, **options))]
    shutil.copytree(half, again)
    (again / "run.lock").unlink(missing_ok=True)
    resumed = [*map(loss, regard.train_events(recipe, data, again, resume=True, **options))]
    weights = file_value(whole / "model" / "model.safetensors")
    return {
        "losses": [one for one in losses if one],
        "metrics": file_value(whole / "metrics.jsonl"),
        "weights": weights,
        "files": sorted(path.relative_to(whole).as_posix() for path in whole.rglob("*")),
        "resumed losses": [one for one in resumed if one],
        "resumed like the whole": file_value(again / "model" / "model.safetensors") == weights,
    }


def loss(event: Any) -> Any:
    """Step and loss of a report; of other events, nothing."""
    if isinstance(event, regard.ReportEvent):
        return [event.progress.step, event.loss, event.nll]
    return None
