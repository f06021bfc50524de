"""Ablation by a recipe: the examples that are scored, the edits, and results on the way."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from regard.api import Model
from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.core.files import (
    digest_folder,
    json_line,
    making,
    read_bytes,
    remove,
    write_text,
    writing,
)
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.options import LoadOptions
from regard.experiments.options.measuring import AblationOptions
from regard.experiments.result import ExperimentResult, OutputTable, number_column, text_column
from regard.experiments.scores import LOWER
from regard.inference.model_runner import ModelRunner
from regard.inside.ablation import (
    Ablation,
    AblationScore,
    Place,
    best_metric,
    head_edits,
    layer_edits,
)
from regard.metrics.translation import MetricScore
from regard.models.edits import EditList, read_edits
from regard.models.folders.hub import local_folder
from regard.tasks.task import Task
from regard.training.recipe import Recipe, task_of
from regard.training.run_events import AnyRecipe, recipe_of, with_dev_as_test

WHOLE = ""  # in place of a hash: no edits


@dataclass(frozen=True, eq=False)
class ScoredSet:
    """Dev or test set of a recipe, at most its first ``limit`` examples, and how it is scored."""

    recipe: Recipe
    task: Task[Any, Any]
    name: str
    examples: Sequence[Any]
    limit: int | None

    @classmethod
    def of(cls, recipe: Recipe, data: Path, limit: int | None, *, on_test: bool) -> Self:
        """Read the dev set of a recipe, also one that is held out from train, or its test set."""
        if on_test and recipe.data.test is None:
            raise BadInput("data.test: the recipe names no test set")
        name = "test" if on_test else "dev"
        task = task_of(recipe if on_test else with_dev_as_test(recipe))
        return cls(recipe, task, name, task.read_required(name, data, None)[:limit], limit)

    def score(self, model: Model) -> list[MetricScore]:
        """All metrics of a model."""
        return self.task.test_scores(model, self.examples).scores

    @property
    def preferred(self) -> list[str | None]:
        """Metrics of the recipe, which are measured if the task has them."""
        expect = self.recipe.expect
        return [None if expect is None else expect.metric, self.recipe.train.metric]

    def identity(self, model: str) -> dict[str, object]:
        """What results depend on, beside the edits."""
        recipe = self.recipe.model_dump(mode="json", serialize_as_any=True)
        folder = digest_folder(local_folder(model))
        return {"model": folder, "recipe": recipe, "set": self.name, "limit": self.limit}


def _edits_of_files(model: ModelRunner, files: Sequence[Path]) -> Mapping[Place, EditList]:
    lists: dict[Place, EditList] = {(str(file),): read_edits(file) for file in files}
    for edits in lists.values():
        edits.check(model)
    return lists


PLACES = {"heads": ("attention", "layer", "head"), "layers": ("side", "layer"), "edits": ("edits",)}
LISTS: Mapping[str, Callable[[ModelRunner, Sequence[Path]], Mapping[Any, EditList]]] = {
    "heads": lambda model, files: head_edits(model),
    "layers": lambda model, files: layer_edits(model),
    "edits": _edits_of_files,
}
"""Functions that list the edits of a kind."""


@dataclass(eq=False)
class ResultFile:
    """Scores by hash of the edits, which are written to a file as they come, if there is one."""

    path: Path | None
    identity: Mapping[str, object]
    values: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(
        cls, out: Path | None, identity: Mapping[str, object], on_event: Listener = ignore
    ) -> Self:
        """Read the results of a stopped run from OUT.partial, or begin the file."""
        if out is None:
            return cls(None, identity)
        path = out.with_name(f"{out.name}.partial")
        results = cls(path, json.loads(json.dumps(identity)))
        if path.exists():
            results._read(path)
            on_event(Note(f"{path}: continues after {len(results.values)} results"))
        else:
            with making(path.parent), writing(path):
                path.write_text(json_line(results.identity), encoding="utf-8")
        return results

    def _read(self, path: Path) -> None:
        lines = read_bytes(path).decode(errors="replace").splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]  # a kill may cut the last one
        try:
            first, *rest = map(json.loads, whole)
            self.values = {record["hash"]: record["scores"] for record in rest}
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path}: not a file of results ({error}); delete it") from None
        if first != self.identity:
            raise BadInput(f"{path}: results of another model, recipe or limit; delete it")
        with writing(path):
            path.write_text("".join(whole), encoding="utf-8")

    def scores(self, hash: str, measure: Callable[[], list[MetricScore]]) -> dict[str, Any]:
        """The stored scores of these edits, or those that ``measure`` returns."""
        if hash not in self.values:
            self.values[hash] = {it.name: [it.value, it.signature] for it in measure()}
            if self.path is not None:
                with writing(self.path), self.path.open("a", encoding="utf-8") as file:
                    file.write(json_line({"hash": hash, "scores": self.values[hash]}))
        return self.values[hash]

    def remove(self) -> None:
        """Delete the file: the results are printed."""
        if self.path is not None:
            remove(self.path)


@dataclass(frozen=True)
class AblationResult(ExperimentResult):
    """Scores of a model with edits: the whole model, then the highest loss first."""

    ablation: Ablation

    def tables(self) -> list[OutputTable]:
        ablation = self.ablation
        first, *numbers = ablation.places
        columns = [text_column(first), *(number_column(name) for name in numbers)]
        columns += [number_column(ablation.metric, ".2f"), number_column("loss", "+.2f")]
        return [OutputTable([*columns, text_column("hash")], ablation.rows, "", [ablation.caption])]

    def records(self) -> list[dict[str, object]]:
        return self.ablation.records


def ablate(
    model: str,
    recipe: AnyRecipe,
    options: AblationOptions,
    runs: LoadOptions,
    *,
    data: str | Path = Path(),
    out: Path | None = None,
    resume: bool = False,
    on_event: Listener = ignore,
) -> AblationResult:
    """Score a model as it is, and with each head, each layer or each file of edits.

    Results are written to ``out``; with ``resume``, those of a stopped run are not measured again.
    """
    kind = options.kind
    if resume and out is None:
        fault = ("needs ", ArgumentName("out"), " FILE, to which the results are written")
        raise BadArgument(fault, key="resume")
    described = recipe_of(recipe)
    loaded = runs.load(model)
    lists = LISTS[kind](loaded.runner, options.edits or ())
    scored = ScoredSet.of(described, Path(data), options.limit, on_test=options.on_test)
    results = ResultFile.open(out if resume else None, scored.identity(model), on_event)
    size = f"{len(scored.examples):,} examples, scored {1 + len(lists):,} times"
    on_event(Note(f"{scored.name}: {size}"))
    ablation = run_ablation(loaded, scored, PLACES[kind], lists, results)
    if out is not None:
        write_text(out, "".join(map(json_line, ablation.records)))
        on_event(Note(f"wrote {out}"))
    results.remove()
    return AblationResult(ablation)


def run_ablation(
    model: Model,
    scored: ScoredSet,
    places: tuple[str, ...],
    lists: Mapping[Place, EditList],
    results: ResultFile,
) -> Ablation:
    """Score a model as it is, and with each list of edits."""
    whole = results.scores(WHOLE, partial(scored.score, model))
    metric = best_metric([*whole], scored.preferred)
    scores = []
    for place, edits in lists.items():
        measure = partial(_score_edited, scored, model, edits)
        value, _ = results.scores(edits.hash, measure)[metric]
        scores.append(AblationScore(place, edits.hash, value))
    value, signature = whole[metric]
    title = f"{scored.recipe.about.title}: ablation on the {scored.name} set"
    return Ablation(title, metric, signature, value, places, tuple(scores), metric in LOWER)


def _score_edited(scored: ScoredSet, model: Model, edits: EditList) -> list[MetricScore]:
    return scored.score(model.edited(edits))
