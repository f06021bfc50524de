"""Recipes: a training run as a typed, closed TOML file with its expected score.

A recipe has the common tables of all runs and the tables of its task.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, ValidationError, create_model, model_validator

from regard.core.config import Config, UnusableKey
from regard.core.errors import BadInput, did_you_mean
from regard.data.data_tables import BatchConfig, DataConfig
from regard.models.model_tables import ModelConfig
from regard.tasks.components import TASKS
from regard.tasks.plan import Tables
from regard.tasks.task import Task
from regard.training.recipe.faults import Fault, RecipeFaults, faults_of, refusal, without_unknown
from regard.training.recipe.overrides import Settings, lay_over, parse_settings
from regard.training.recipe.tables import (
    DistributedConfig,
    OptimiserConfig,
    RungConfig,
    Share,
    TrainConfig,
)
from regard.training.recipe_files import AboutConfig, ExpectConfig, merged, read_tables


class Recipe(Config):
    """All settings of a run; with rungs, of several runs on the same data.

    Each task has a class of recipes of its own, which adds the tables of the task.
    """

    task: str = "translate"
    """The task to train for; it decides which other tables there are."""
    about: AboutConfig = AboutConfig()
    """Title and notes of the recipe."""
    data: DataConfig
    """Files of the training set, the dev set and the test sets."""
    model: ModelConfig = ModelConfig()
    """The architecture, or the folder to fine-tune."""
    batches: BatchConfig = BatchConfig()
    """Number of tokens and rows of a step."""
    optimiser: OptimiserConfig
    """Learning rate, schedule, weight decay, frozen layers."""
    train: TrainConfig
    """Steps, seed, precision, evaluation and checkpoints."""
    distributed: DistributedConfig = DistributedConfig()
    """How several processes share the model and each step."""
    expect: ExpectConfig | None = None
    """The score that the test set must reach."""
    rung: tuple[RungConfig, ...] = ()
    """The models of a ladder, each a table `[[rung]]`."""

    _by_default: tuple[str, ...] = PrivateAttr(())

    @property
    def by_default(self) -> tuple[str, ...]:
        """Names of tables that are missing in the recipe and follow from its model."""
        return self._by_default

    @property
    def tables(self) -> Tables:
        """The tables that its task reads."""
        train = self.train
        own = tuple(getattr(self, name) for name in TASKS[self.task].own_tables)
        settings = train.seed, train.smoothing, train.metric
        return Tables(self.data, self.model, self.batches, *settings, own, self.by_default)

    @model_validator(mode="after")
    def _is_read(self) -> "Recipe":
        """Refuse keys that no code reads."""
        task = task_of(self)
        keys = [*self._unread_keys(task), *task.unread_keys()]
        faults = [_unusable(*key, task=self.task) for key in keys]
        if self.rung and not task.metrics:
            reason = "with this objective: it has no score on a test set to compare models by"
            faults.append(_unusable("rung", reason, task=self.task))
        if self.data.links is not None and not (self.rung and task.reads_links):
            reason = "outside a ladder of translators (rung)"
            faults.append(_unusable("data.links", reason, task=self.task))
        faults += _unmeasured("train.metric", self.train.metric, task, ("loss", *task.dev_metrics))
        if self.optimiser.trigger and (self.train.ema or self.train.average > 1):
            fault = "train.ema, train.average cannot be used with an optimiser that averages"
            faults.append(Fault("train.ema", fault))
        if self.distributed.sharded and self.optimiser.needs_whole_weights:
            fault = (
                f"optimiser.kind: {self.optimiser.kind} reads whole matrices, which "
                f"distributed.kind = {self.distributed.kind!r} divides; use adam or adamw"
            )
            faults.append(Fault("optimiser.kind", fault))
        if self.expect is not None:
            metric = self.expect.metric
            faults += _unmeasured("expect.metric", metric, task, task.test_metrics)
        if fault := self.train.length_fault:
            faults.append(Fault("train.steps", fault))
        if faults:
            raise RecipeFaults(faults)
        return self

    def with_steps(self, epoch_batches: Callable[[], int]) -> "Recipe":
        """The recipe with its number of steps; batches are counted if it gives epochs."""
        if not self.train.epochs:
            return self
        train = self.train.over(epoch_batches() / self.batches.accumulate)
        return self.model_copy(update={"train": train})

    def _unread_keys(self, task: Task) -> Iterator[UnusableKey]:
        """The keys of common tables that the task does not read."""
        train, data = self.train.model_fields_set, self.data.model_fields_set
        if "smoothing" in train and self.train.smoothing and not task.allows_smoothing:
            yield UnusableKey("train.smoothing")
        if "longest_characters" in data and not task.limits_characters:
            yield UnusableKey("data.longest_characters", "where files have a reader, or documents")
        if self.data.mix and not task.mixes_corpora:
            yield UnusableKey("data.mix")

    def only(self, names: Iterable[str]) -> "Recipe":
        """Ladder with these rungs only."""
        known = [rung.name for rung in self.rung]
        if not known:
            raise BadInput("this recipe is not a ladder: it has no [[rung]] to choose")
        rungs = ", ".join(map(repr, known))
        for name in names:
            if name not in known:
                raise BadInput(f"no rung is called {name!r}; there are {rungs}")
        chosen = tuple(rung for rung in self.rung if rung.name in names)
        return self.model_copy(update={"rung": chosen})

    def at(self, rung: RungConfig) -> "Recipe":
        """The recipe of one rung."""
        own = {"model": rung.model.model_dump(exclude_unset=True), "expect": rung.expect}
        tables = {name: getattr(rung, name) for name in ("batches", "optimiser", "train")}
        content: dict[str, Any] = {**merged(self.model_dump(exclude_unset=True), tables), **own}
        content["data"].pop("links", None)
        del content["rung"]
        return type(self).model_validate(content)


@cache
def recipe_class(task: str) -> type[Recipe]:
    """Class of recipes of a task, with the tables and defaults of the task."""
    kind = TASKS[task]
    tables: Any = {
        name: (table, Field(default_factory=table.default))
        for name, table in kind.own_tables.items()
    }
    if kind.default_smoothing:
        smoothing = (Share, kind.default_smoothing)
        name = f"{task.capitalize()}TrainConfig"
        tables["train"] = (create_model(name, __base__=TrainConfig, smoothing=smoothing), ...)
    return create_model(f"{task.capitalize()}Recipe", __base__=Recipe, **tables)


def task_of(recipe: Recipe) -> Task:
    """The task of a recipe."""
    return TASKS[recipe.task](recipe.tables)


def read(path: Path, settings: Settings = ()) -> Recipe:
    """Read a recipe file, with ``table.key=value`` settings laid over it.

    ``like = "NAME"`` at its top begins with another recipe; the file then has only the differences.
    """
    return make_recipe(read_tables(path), str(path), settings)


def make_recipe(content: dict[str, object], where: str, settings: Settings = ()) -> Recipe:
    """The recipe that these tables describe, with settings laid over them."""
    overrides = parse_settings(settings)
    texts = [override.text for override in overrides]
    of_model = [override for override in overrides if override.table == "model"]
    task = content.get("task", "translate")
    if task not in list(TASKS):
        raise BadInput(f"{where}: no task is called {task!r}{did_you_mean(str(task), list(TASKS))}")
    for override in of_model:
        lay_over(content, override, recipe_class(task))
    model = content.get("model")
    by_default = []
    for name, table in TASKS[task].own_tables.items():
        keys = table.default_keys(model if isinstance(model, dict) else {})
        if keys and name not in content:
            content[name] = keys
            by_default.append(name)
    for override in overrides:
        if override not in of_model:
            lay_over(content, override, recipe_class(task))
    try:
        recipe = recipe_class(task).model_validate(content)
    except ValidationError as error:
        raise refusal(where, _all_faults(error, content, task), texts) from None
    recipe._by_default = tuple(by_default)
    faults = []
    for rung in recipe.rung:
        try:
            recipe.at(rung)
        except ValidationError as error:
            faults += [replace(fault, rung=rung.name) for fault in _faults(error, task)]
    if faults:
        raise refusal(where, faults, texts)
    return recipe


def _faults(error: ValidationError, task: str) -> list[Fault]:
    recipes = [recipe_class(name) for name in TASKS]
    return faults_of(error, recipe_class(task), recipes, lambda key: _unusable(key, task=task))


def _all_faults(error: ValidationError, content: dict[str, object], task: str) -> list[Fault]:
    """Faults of keys, and faults that show once unknown keys are left out."""
    faults, known = _faults(error, task), without_unknown(content, error)
    try:
        recipe_class(task).model_validate(known)
    except ValidationError as rest:
        faults += [fault for fault in _faults(rest, task) if fault not in faults]
    return faults


def _unusable(key: str, why: str = "", *, task: str) -> Fault:
    return Fault(key, f"{key} cannot be used {why or f'with task {task!r}'}")


def _unmeasured(key: str, value: str, task: Task, known: tuple[str, ...]) -> list[Fault]:
    """A fault if the metric is unknown to the task, or not measured with these keys."""
    if value not in known:
        correct = did_you_mean(value, list(known))
        return [Fault(key, f"{key}: {value!r} is no measure of task {task.name!r}{correct}")]
    measured = [name for name in known if name in ("loss", *task.metrics)]
    if value not in measured:
        choices = ", ".join(measured)
        return [Fault(key, f"{key}: {value!r} is not measured here; choose one of {choices}")]
    return []
