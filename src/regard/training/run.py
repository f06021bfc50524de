"""From a recipe to a trained model folder."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

import torch
from torch import nn

from regard.core.device import uninitialised
from regard.core.errors import BadInput
from regard.core.files import JSON
from regard.core.lock import FolderLock
from regard.core.reading import Reading
from regard.data.readers.fields import DropCounts
from regard.data.readers.text_files import STDIN, name_of
from regard.models.embedding import AnyPosition
from regard.models.encoder_decoder import ModelFacts
from regard.models.facts import paths
from regard.models.folders import folder as folders
from regard.models.folders import regard as regard_folder
from regard.models.folders.loaded_model import check_tokenizer
from regard.models.paper import Paper, count_parameters
from regard.tasks.components import Runner
from regard.tasks.plan import Plan
from regard.tasks.run_paths import STDIN_COPY, RunPaths
from regard.tasks.task import Prepared, Task
from regard.text.label_sets import LabelSet
from regard.training.checkpoint import Checkpoints, RunProgress
from regard.training.distributed import World
from regard.training.loop import Job, seed_everything
from regard.training.loop.events import DevResult
from regard.training.optimiser import freeze, mixture_weights
from regard.training.parallel import check_processes
from regard.training.precision import CHOOSE, RESUME, checked_precision
from regard.training.prepared_data import check_prepared
from regard.training.recipe import Recipe, task_of
from regard.training.run_folder import RECIPE, check_folder, claim, give_up, record_environment
from regard.weights.files import load_weights
from regard.weights.tensor_pieces import MappedTensors

WATCHED = 16  # inputs of the development set that watches read, at most
Watcher = Callable[[Runner, Sequence[tuple[object, ...]]], Mapping[str, JSON]]
"""Report on a model in training, from inputs of the development set."""


@dataclass(frozen=True, eq=False)
class Run:
    """A prepared run: its job, and everything else that is saved with the model.

    ``sizes`` are the numbers of training, development and test examples.
    """

    job: Job
    paper: Paper
    facts: ModelFacts
    tokenizer: Reading
    labels: LabelSet | None
    out: Path
    dropped: DropCounts
    notes: dict[str, object]
    sizes: dict[str, int]
    lock: FolderLock | None = None  # of the leader

    @property
    def model_folder(self) -> Path:
        """The folder of the trained model."""
        return self.out / "model"

    def release(self) -> None:
        """Release the folder; if the run has done no steps, its files are removed."""
        if self.lock is not None:
            give_up(self.lock)

    def finish(self, progress: RunProgress) -> str:
        """Write the final weights to the model folder; returns a description of them."""
        self.job.check_folder()
        description, weights = _kept_weights(self.job.recipe, self.job.checkpoints, progress)
        if self.job.divided:  # no process ever has all weights
            with uninitialised("meta"):
                module = _built(self.facts)
        else:
            module = self.job.model.cpu().eval()
            load_weights(module, {**weights}, str(self.job.checkpoints.folder))
        notes, read = {**self.notes, "weights": description}, (self.tokenizer, self.labels)
        for name, (facts, part) in self.facts.models(module).items():
            spent = {"cost": cost(part, progress, self.job.world)}
            stored = folders.LoadedModel(self.paper, facts, part, *read, {**notes, **spent})
            if self.job.divided:
                regard_folder.write(self.out / name, stored, _part_of(weights, module, part))
            else:
                folders.write(self.out / name, stored)
        self.job.check_folder()
        return description

    def keep_best(self, progress: RunProgress) -> str:
        """Write the best weights so far, if any were evaluated; returns a description."""
        if progress.best is None:
            return "no model was evaluated before, so none is written"
        return f"best model so far: {self.model_folder} ({self.finish(progress)})"


def prepare(
    recipe: Recipe,
    out: Path,
    world: World,
    *,
    data: Path = Path(),
    resume: bool = False,
    overwrite: bool = False,
    skip_bad: bool = False,
    prepared: Path | None = None,
    watch: Mapping[str, Watcher] | None = None,
    processes: int | None = None,
    **limits: Any,
) -> Run:
    """Prepare a run up to its first step. The leader writes vocabularies and shards, all read them.

    Everything is checked before anything is written, and a run that cannot be prepared leaves no
    files. With ``overwrite``, it replaces an earlier run. ``watch`` has reports on the model after
    each evaluation, by name. A folder that was ``prepared`` has tokenizer and tokenised examples.
    ``processes``: their number, of which a dry run is one; default: the size of the world.
    """
    task = task_of(recipe)
    unique = prepared is not None and check_prepared(recipe, prepared)
    paths = RunPaths(
        data, out, world.is_leader, resume, skip_bad, world.device, prepared, deduplicate=unique
    )
    plan = task.resolve(data)
    check_model(recipe, plan.facts)
    check_processes(recipe.distributed, processes or world.size)
    again = resume and (out / RECIPE).is_file()
    checked_precision(recipe.train.precision, world.device, "as asked", RESUME if again else CHOOSE)
    tests = task.check_data(data, skip_bad)
    claimed = partial(claim, out, recipe, resume=resume, overwrite=overwrite)
    lock = claimed() if world.is_leader else None
    try:
        if world.is_leader:
            record_environment(out, resume=resume)
        return _prepared_run(recipe, task, plan, paths, world, tests, lock, watch or {}, limits)
    except BaseException as error:
        if lock is not None:
            give_up(lock)
        copy = str((out / STDIN_COPY).absolute())
        if isinstance(error, BadInput) and copy in str(error):  # the copy is removed by now
            raise BadInput(str(error).replace(copy, name_of(STDIN))) from None
        raise


def _prepared_run(
    recipe: Recipe,
    task: Task,
    plan: Plan,
    paths: RunPaths,
    world: World,
    tests: dict[str, int],
    lock: FolderLock | None,
    watch: Mapping[str, Watcher],
    limits: dict[str, Any],
) -> Run:
    if recipe.train.deterministic:
        _make_deterministic()
    prepared = _prepare_leader_first(task, plan, paths, world)
    dataset, reading, labels = prepared.dataset, prepared.reading, prepared.labels
    facts = plan.fit(reading, labels)
    seed_everything(recipe.train.seed, 0)
    model = _built(facts)
    models = facts.models(model)
    for saved, _ in models.values():
        check_tokenizer(reading, labels, saved, "model")
    remarks = plan.copy_weights(models["model"][1], reading, labels)
    task.prepare_module(models["model"][1], prepared)
    objective = task.objective(prepared)
    if objective.chunked and world.size > 1:
        raise BadInput("embedding.chunk cannot be used with several processes: set it to 0")
    sampler, fingerprint = dataset.sampler(objective), dataset.fingerprint
    # Recurrent models are captured where batches are rectangles: parts of streams, or padded rows
    # of like lengths.
    over_streams = facts.eager and sampler.streams > 0 and not objective.eager
    in_rectangles = over_streams or (facts.in_rectangles and not recipe.batches.mixed)
    job = Job(
        recipe=recipe.with_steps(sampler.epoch_batches),
        model=model,
        objective=objective,
        sampler=sampler,
        evaluate=partial(dev_result, task, prepared, world),
        flops=partial(task.flops, facts),
        checkpoints=Checkpoints(paths.out / "checkpoints"),
        world=world,
        data=fingerprint + objective.fingerprint,
        split_data=fingerprint if recipe.data.dev.held_out else "",
        eager=objective.eager or ((facts.eager or facts.in_rectangles) and not in_rectangles),
        in_rectangles=in_rectangles,
        remarks=(*remarks, *dataset.remarks),
        long_texts=dataset.long_texts,
        # The run holds the lock; the job is in reference cycles, which would hold it on.
        check_folder=(lambda: None) if lock is None else partial(check_folder, ref(lock)),
        **limits,
    )
    sizes = {**dataset.sizes, **tests}
    notes = task.notes()
    run = Run(
        job, plan.paper, facts, reading, labels, paths.out, dataset.dropped, notes, sizes, lock
    )
    if watch:
        inputs = task.dev_inputs(prepared, paths, WATCHED)
        own, part = models["model"]
        trained = Runner(folders.LoadedModel(plan.paper, own, part, reading, labels, notes))
        job.watches = {name: partial(report, trained, inputs) for name, report in watch.items()}
    world.barrier()  # collectives have a time limit, this has none
    return run


def _make_deterministic() -> None:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # which cuBLAS needs for it
    torch.use_deterministic_algorithms(True)


def _prepare_leader_first(task: Task, plan: Plan, paths: RunPaths, world: World) -> Prepared:
    """Prepare the data: first the leader, which writes files, then the others, which read them."""
    if not world.is_leader:
        world.barrier()
    prepared = task.prepare(plan, paths)
    if world.is_leader:
        world.barrier()
    return prepared


def dev_result(task: Task, prepared: Prepared, world: World, model: nn.Module) -> DevResult:
    """Metrics on the development set, and the one that selects the best weights."""
    (figures, remark), chosen = task.evaluate_dev(prepared, world, model), task.tables.metric
    if chosen not in figures:
        raise BadInput(
            f"train.metric: {chosen!r} is not measured here; choose one of {', '.join(figures)}"
        )
    return DevResult(-figures["loss"] if chosen == "loss" else figures[chosen], figures, remark)


def cost(module: nn.Module, progress: RunProgress, world: World) -> dict[str, float]:
    """The cost of a run, for tables of scores."""
    return {
        "parameters": count_parameters(module),
        "training_flops": progress.flops,
        "tokens": progress.tokens,
        "device_seconds": round(progress.seconds * world.size, 1),
    }


SIDES = {"source": "source side", "target": "target side"}  # by the path of their facts


def check_model(recipe: Recipe, facts: ModelFacts) -> None:
    """Check that the model can be built, and that the longest row fits its positions."""
    with uninitialised("meta"):
        model = _built(facts)
        freeze(model, recipe.optimiser.freeze)
        mixture_weights(model, recipe.optimiser)
    tokens, longest = recipe.batches.tokens, recipe.batches.longest
    if longest > tokens:
        fault = f"a row of {longest:,} tokens does not fit into a batch of {tokens:,}"
        raise BadInput(f"batches.longest: {fault} (batches.tokens)")
    longest = task_of(recipe).longest_row
    for path, value in paths(facts):
        if isinstance(value, AnyPosition) and longest > (value.limit or longest):
            side = SIDES.get(path.split(".")[0], "encoder")
            limit = f"but the {side} has {value.limit} positions"
            raise BadInput(f"batches.longest: rows of {longest} tokens, {limit}")


def _built(facts: ModelFacts) -> nn.Module:
    try:
        return facts.build()
    except (ValueError, RuntimeError) as error:
        raise BadInput(f"model: {str(error).splitlines()[0]}") from None


def _part_of(
    weights: Mapping[str, torch.Tensor], module: nn.Module, part: nn.Module
) -> Mapping[str, torch.Tensor]:
    """The weights of a part of a module, by their names in the part."""
    whole = module.state_dict(keep_vars=True)
    names = {id(tensor): name for name, tensor in whole.items() if name in weights}
    own = {name: names[id(tensor)] for name, tensor in part.state_dict(keep_vars=True).items()}
    return MappedTensors([*own], lambda name: weights[own[name]])


def _kept_weights(
    recipe: Recipe, checkpoints: Checkpoints, progress: RunProgress
) -> tuple[str, Mapping[str, torch.Tensor]]:
    """Weights to save: an average if the recipe has one, else the best checkpoint."""
    steps = checkpoints.steps()
    known = progress.best is not None and progress.best_step in steps
    best = progress.best_step if known else steps[-1]
    if recipe.train.average > 1:
        regular = recipe.train.regular(steps)
        chosen = regular[-recipe.train.average :] or steps[-1:]
        return f"mean of steps {', '.join(map(str, chosen))}", checkpoints.average(chosen)
    group, average = ("average", "moving average at ") if recipe.train.ema else ("model", "")
    if recipe.optimiser.trigger:
        group = "average"
        if 0 < progress.averaged_since < best:
            average = f"average since step {progress.averaged_since} at "
    return f"{average}step {best}", checkpoints.open(best, (group,))[1][group]
