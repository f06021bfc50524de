"""Runs whose heads were watched, up to the step that their models were saved from."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

from regard.core.files import read_json
from regard.experiments.findings.finding import CannotShow
from regard.inside.heads.head_formation import Formation
from regard.training.checkpoint import Checkpoints
from regard.training.metrics_log import read_watch, watch_log


class WatchedRun(NamedTuple):
    """Reports on heads up to the step of the model, the last step of the run, and the largest
    number of steps between two reports.

    If the step of the model is not known, the reports are all there are.
    """

    formed: Formation
    last: int
    gap: int
    step_known: bool = True

    @classmethod
    def of(cls, whole: Formation, model_step: int | None) -> "WatchedRun":
        """Run with all its reports, whose model was saved at a step; None: not known."""
        steps = [at.step for at in whole.steps]
        gap = max((later - earlier for earlier, later in pairwise(steps)), default=steps[-1])
        if model_step not in steps:
            return cls(whole, steps[-1], gap, step_known=False)
        until = whole.steps[: steps.index(model_step) + 1]
        return cls(Formation(whole.title, until), steps[-1], gap)

    @classmethod
    def read(cls, run: Path, model: Path) -> "WatchedRun":
        """Run in a folder, with reports on induction scores."""
        path = watch_log(run, "heads")
        whole = Formation.of_records(run.resolve().name, read_watch(run, "heads"), str(path))
        if "induction" not in whole.figure_names:
            raise CannotShow(f"{run}: its model is not causal and has no induction scores")
        scores = (head.figures.get("induction") for at in whole.steps for head in at.heads)
        if not all(math.isfinite(score) for score in scores if score is not None):
            raise CannotShow(f"{path}: an induction score is no number")
        return cls.of(whole, saved_step(run, model))

    @property
    def step(self) -> int:
        """Step of the last report that is used."""
        return self.formed.steps[-1].step

    @property
    def layers(self) -> int:
        """Number of layers with heads."""
        return 1 + max(head.layer for head in self.formed.steps[0].heads)

    @property
    def step_note(self) -> str:
        """The step whose scores are compared with the model, in words."""
        if self.step_known:
            return f"{self.formed.title}: model and scores of step {self.step:,} of {self.last:,}"
        return f"{self.formed.title}: step of the model not known, scores of step {self.step:,}"


def saved_step(run: Path, model: Path) -> int | None:
    """Step of the checkpoint that is the model of a run; None: not known, or a mean of several."""
    checkpoints, recipe = Checkpoints(run / "checkpoints"), run / "recipe.json"
    steps = checkpoints.steps()
    if model.resolve() != (run / "model").resolve() or not steps or not recipe.is_file():
        return None
    train = cast(dict[str, Any], read_json(recipe)).get("train") or {}
    if train.get("average", 1) > 1:
        return None
    progress = checkpoints.progress(steps[-1])
    best_known = progress.best is not None and progress.best_step in steps
    return progress.best_step if best_known else steps[-1]
