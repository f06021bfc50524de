"""Pruning by a recipe: the score of a model, orders of removal, and sizes of models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.api import Model
from regard.core.device import device_named
from regard.core.errors import ArgumentName, BadArgument, BadInput, shown
from regard.core.lock import is_vacant, lock_vacant
from regard.data.data_tables import FilesConfig
from regard.experiments.ablation_runs import ScoredSet
from regard.experiments.notes import Listener, Note, Stop, ignore
from regard.experiments.options.measuring import PruningOptions
from regard.experiments.result import (
    Cell,
    ExperimentResult,
    OutputTable,
    number_column,
    text_column,
)
from regard.experiments.training import train_run
from regard.inside.ablation import best_metric
from regard.inside.heads.importance import LossBatch, head_importance
from regard.inside.pruning.curve import ALL, SHARES, PruningCurve, Score, pruning_curve
from regard.inside.pruning.gates import closed_share, learn_gates, least_steps, train_with_gates
from regard.inside.pruning.orders import (
    Order,
    check_share,
    first_of,
    normalise,
    order_by,
    order_in_rounds,
    random_order,
)
from regard.inside.pruning.remove_heads import (
    FACTS,
    Head,
    count_heads,
    head_counts,
    heads_of,
    prunable_sites,
    remove_heads,
    turn_off,
)
from regard.inside.pruning.speed import compare_speed, forward_passes
from regard.inside.pruning.task_loss import loss_batches
from regard.metrics.translation import MetricScore
from regard.models.attention_site import AttentionSite
from regard.models.facts import paths
from regard.models.folders import folder as folders
from regard.models.folders.hub import local_folder
from regard.models.folders.loaded_model import LoadedModel
from regard.models.paper import count_parameters
from regard.tasks.components import runner_of
from regard.tasks.task import Task
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.training.distributed import World
from regard.training.recipe import Recipe, task_of
from regard.training.recipe import read as read_recipe
from regard.training.recipe_files import find
from regard.training.run import check_model
from regard.training.run_folder import RECIPE
from regard.views.line_chart import Report

TIMED = 7  # runs of each model, in turns, whose median time is printed

Orders = Callable[[Sequence[AttentionSite]], Order]


def whole_score(scored: ScoredSet, model: LoadedModel) -> tuple[MetricScore, Score]:
    """Score of a model by the metric of a recipe, and the function that scores others by it."""

    def scores(of: LoadedModel) -> dict[str, MetricScore]:
        return {each.name: each for each in scored.score(Model(of))}

    known = scores(model)
    metric = best_metric([*known], scored.preferred)
    return known[metric], lambda other: scores(other)[metric]


def training_batches(
    model: LoadedModel, task: Task, files: FilesConfig, data: Path, inputs: int, longest: int
) -> list[LossBatch]:
    """Batches of training examples with their losses."""
    contents = islice(task.contents(files, data), 4 * inputs)  # some are too long
    inspected = runner_of(model)
    return loss_batches(inspected, contents, model.labels, inputs=inputs, longest=longest)


class OrderSettings(NamedTuple):
    """Settings of orders: of importance, of gates, of random numbers.

    ``most`` is the largest share of heads to remove. ``weights_rate`` is the learning rate of the
    weights, which are trained with the gates; None: they stay.
    """

    by_layer: bool
    rounds: int
    penalty: float
    epochs: int
    seed: int
    most: float
    weights_rate: float | None = None
    on_event: Listener = ignore


class Removal(NamedTuple):
    """Model whose heads are removed, the order of removal, and the share of closed gates."""

    model: LoadedModel
    order_of: Orders
    closed: float | None = None


OrderMaker = Callable[
    [LoadedModel, Sequence[LossBatch], Sequence[AttentionSite], OrderSettings], Removal
]


def _by_importance(
    model: LoadedModel,
    batches: Sequence[LossBatch],
    sites: Sequence[AttentionSite],
    settings: OrderSettings,
) -> Removal:
    whole = runner_of(model)

    @cache
    def measure(off: tuple[Head, ...]) -> dict[str, np.ndarray]:
        importance = head_importance(turn_off(whole, off) if off else whole, batches)
        return normalise(importance) if settings.by_layer else importance

    rounds, heads = settings.rounds, sum(len(heads_of(site)) for site in sites)
    if rounds > heads:
        most = f"there are {heads} heads, and no more rounds than heads"
        settings.on_event(Note(f"{rounds:,} rounds: {most}"))

    def order_of(of: Sequence[AttentionSite]) -> Order:
        return order_in_rounds(lambda off: measure((*off,)), of, rounds, settings.most)

    return Removal(model, order_of)


def check_gate_steps(
    batches: Sequence[LossBatch], epochs: int, share: float | None, on_event: Listener = ignore
) -> None:
    """Refuse fewer steps than gates need to close; note it if they only order a share of heads."""
    steps, least = len(batches) * epochs, least_steps()
    if steps >= least:
        return
    fault = f"no gate can close in {steps:,} steps, it needs about {least}"
    if share is None:
        more = (ArgumentName("inputs"), " or ", ArgumentName("epochs"))
        remedy = ("give more ", *more, ", or a ", ArgumentName("share"))
        raise BadArgument(fault, key="train_weights", remedy=remedy)
    on_event(Note(f"{fault}; heads go in the order of gates that are open"))


def _by_gates(
    model: LoadedModel,
    batches: Sequence[LossBatch],
    sites: Sequence[AttentionSite],
    settings: OrderSettings,
) -> Removal:
    chosen = {name: getattr(settings, name) for name in ("penalty", "epochs", "seed")}
    if settings.weights_rate is None:
        log_alphas = learn_gates(runner_of(model), batches, sites, **chosen)
    else:
        rate = settings.weights_rate
        model, log_alphas = train_with_gates(model, batches, sites, rate=rate, **chosen)
    closed = closed_share(log_alphas)
    settings.on_event(Note(f"gates: {closed:.1%} of the heads are closed"))
    return Removal(model, partial(order_by, log_alphas), closed)


def _at_random(
    model: LoadedModel,
    batches: Sequence[LossBatch],
    sites: Sequence[AttentionSite],
    settings: OrderSettings,
) -> Removal:
    return Removal(model, lambda of: random_order(of, settings.seed))


ORDERS: dict[str, OrderMaker] = {
    "importance": _by_importance,
    "gates": _by_gates,
    "random": _at_random,
}


def check_training(recipe: Recipe, model: LoadedModel, data: Path) -> None:
    """Refuse a recipe that cannot be trained here, or whose model differs in more than heads."""
    task = task_of(recipe)
    plan = task.resolve(data)
    known, read = dict(paths(model.facts)), require_tokenizer(model.tokenizer)
    here = dict(paths(plan.fit(read, model.labels)))
    differ = [
        f"{path} is {shown(here.get(path))}, not {shown(known.get(path))}"
        for path in {**known, **here}
        if not path.endswith(tuple(FACTS.values()))
        and not any(each.startswith(f"{path}.") for each in (*known, *here))
        and known.get(path) != here.get(path)
    ]
    if differ:
        first = "; ".join(differ[:3])
        raise BadArgument(f"the recipe is of another model: {first}", key="compare_training")
    check_model(recipe, plan.facts)
    task.check_data(data, skip_bad=False)


def train_from_random_weights(
    recipe: Recipe,
    whole: LoadedModel,
    pruned: LoadedModel,
    out: Path,
    data: Path,
    world: World,
    *,
    on_event: Listener = ignore,
    stop: Stop | None = None,
) -> LoadedModel:
    """The model that a recipe trains from random weights with the heads of a pruned model."""
    change = {**recipe.model.change, **head_counts(pruned.facts)}
    model = recipe.model.model_copy(update={"change": change})
    smaller = recipe.model_copy(update={"model": model})
    resume = (out / RECIPE).is_file()
    run = train_run(
        smaller, out, world=world, resume=resume, data=data, on_event=on_event, stop=stop
    )
    run.release()
    trained = folders.read(run.model_folder, world.device)
    tokens, before = _tokens(trained), _tokens(whole)
    if tokens != before:
        known = "an unknown number" if before is None else f"{before:,}"
        read = f"trained on {tokens:,} tokens, the whole model on {known}"
        on_event(Note(f"the model from random weights: {read}"))
    return trained


def _tokens(model: LoadedModel) -> int | None:
    """Tokens read in training, if the model knows them."""
    return model.notes.get("cost", {}).get("tokens")


def comparison_table(models: dict[str, tuple[LoadedModel, float]], metric: str) -> OutputTable:
    """Heads, parameters, tokens read in training and score of models by name."""
    names = ("heads", "parameters", "training tokens")
    columns = [text_column("model"), *(number_column(name, ",") for name in names)]
    rows: list[list[Cell]] = [
        [name, count_heads(model.facts), count_parameters(model.module), _tokens(model), score]
        for name, (model, score) in models.items()
    ]
    return OutputTable([*columns, number_column(metric, ".2f")], rows)


def curve_table(curve: PruningCurve, notes: Sequence[str]) -> OutputTable:
    """Table of the points of a curve."""
    columns, rows = curve.table()
    site, share, removed, *scores = columns
    first = [text_column(site), number_column(share, ".0%"), number_column(removed)]
    return OutputTable(
        [*first, *(number_column(name, ".2f") for name in scores)], rows, notes=notes
    )


def speed_table(models: Sequence[LoadedModel], batches: Sequence[LossBatch]) -> OutputTable:
    """Heads, parameters and times of the whole model and of the pruned one."""
    sizes = compare_speed(
        models, partial(forward_passes, inputs=[rows for rows, _ in batches]), TIMED
    )
    inputs = sum(len(rows) for rows, _ in batches)
    columns = [text_column("model"), number_column("heads", ","), number_column("parameters", ",")]
    columns += [number_column("ms per input", ".3f"), number_column("speed", ".2f")]
    rows: list[list[Cell]] = [
        [
            name,
            size.heads,
            size.parameters,
            1e3 * size.seconds / inputs,
            sizes[0].seconds / size.seconds,
        ]
        for name, size in zip(("whole", "pruned"), sizes, strict=True)
    ]
    line = f"median of {TIMED} forward passes over {inputs} training examples, in turns"
    return OutputTable(columns, rows, notes=[line])


@dataclass(frozen=True)
class PrunedScores(ExperimentResult):
    """Scores without heads, and the model without the share of heads that was asked for.

    ``models`` are the models that are compared, with their scores.
    """

    title: str
    curve: PruningCurve
    notes: Sequence[str]
    models: Mapping[str, tuple[LoadedModel, float]]
    pruned: LoadedModel | None = None
    speeds: OutputTable | None = None

    def tables(self) -> list[OutputTable]:
        speeds = [] if self.speeds is None else [self.speeds]
        return [curve_table(self.curve, self.notes), *speeds]

    @property
    def report(self) -> Report:
        """Page with the table and a chart for each site."""
        return self.curve.report(self.title, self.notes)


@dataclass(frozen=True, eq=False)
class PruningSession:
    """Removal of heads from a model, scored by the recipe that trained it."""

    recipe: Recipe
    model: LoadedModel
    data: Path
    options: PruningOptions
    sites: Sequence[AttentionSite]
    scored: ScoredSet
    batches: Sequence[LossBatch]
    score: Score
    whole: MetricScore
    out: Path | None
    device: str | None
    on_event: Listener

    @classmethod
    def open(
        cls,
        model: str,
        recipe: str,
        settings: Sequence[str],
        data: Path,
        options: PruningOptions,
        *,
        out: Path | None = None,
        device: str | None = None,
        on_event: Listener = ignore,
    ) -> "PruningSession":
        """Check the options, load the model and score it."""
        if options.share is not None:
            check_share(options.share)
        options.check(out)
        for name, folder in (("out", out), ("compare_training", options.compare_training)):
            resumed = name != "out" and folder is not None and (folder / RECIPE).is_file()
            if folder is not None and not resumed and not is_vacant(folder):
                fault = f" {folder}: is not empty; choose another folder"
                raise BadInput((ArgumentName(name), fault))
        described = read_recipe(find(recipe), settings)
        if options.compare_training is not None and described.model.start is not None:
            fault = "the recipe has model.start, not random weights"
            raise BadArgument(fault, key="compare_training")
        task = task_of(described)
        loaded = folders.read(local_folder(model), device_named(device))
        names = [] if options.sites is None else options.sites.split(",")
        sites = prunable_sites(loaded.facts, names)
        if options.compare_training is not None:
            check_training(described, loaded, data)
        scored = ScoredSet.of(described, data, options.limit, on_test=False)
        batches: list[LossBatch] = []
        if options.method != "random" or out is not None:
            train, longest = described.data.train, described.batches.longest
            batches = training_batches(loaded, task, train, data, options.inputs, longest)
        if options.train_weights is not None and options.train_weights > 0:
            check_gate_steps(batches, options.epochs, options.share, on_event)
        whole, score = whole_score(scored, loaded)
        places = (out, device, on_event)
        run = (described, loaded, data, options, sites, scored, batches, score, whole)
        return cls(*run, *places)

    def run(self) -> PrunedScores:
        """Remove heads and score what is left; with ``out``, write the model without them."""
        options, metric = self.options, self.whole.name
        removal, share = self._removal()
        groups: dict[str, Sequence[AttentionSite]] = {site.name: [site] for site in self.sites}
        if share is not None or len(self.sites) > 1:
            groups = ({} if share is not None else groups) | {ALL: self.sites}
        curve = pruning_curve(
            removal.model,
            groups,
            removal.order_of,
            self.score,
            whole=self.whole.value,
            metric=metric,
            method=options.method,
            shares=SHARES if share is None else (share,),
            seeds=range(options.seed, options.seed + options.seeds),
            note=self._note,
        )
        sizes = f"on {len(self.scored.examples):,} {self.scored.task.unit}"
        notes = [f"whole model: {metric} {curve.whole:.2f}, {sizes}"]
        models = {"whole": (self.model, self.whole.value)}
        if options.train_weights is not None:
            value = self.score(removal.model).value
            models["trained with gates"] = (removal.model, value)
            curve = curve.after_training(value)
            notes.append(
                f"trained with gates, all heads: {metric} {value:.2f}; heads of this model are "
                "removed, also in random orders; changes are from the whole model"
            )
        pruned, speeds = None, None
        if share is not None and (self.out or options.compare_training):
            order = removal.order_of(self.sites)
            pruned = remove_heads(removal.model, first_of(order, share))
        if self.out is not None and pruned is not None:
            with lock_vacant(self.out):
                folders.write(self.out, pruned)
            self.on_event(Note(f"wrote {self.out}"))
            speeds = speed_table([self.model, pruned], self.batches)
        title = f"{self.model.paper.name}: {self.recipe.about.title}"
        return PrunedScores(title, curve, notes, models, pruned, speeds)

    def _note(self, line: str) -> None:
        self.on_event(Note(line))

    def _removal(self) -> tuple[Removal, float | None]:
        """The order of removal, and the share of heads to remove; None: the curve."""
        options, share = self.options, self.options.share
        most = SHARES[-1] if share is None else share
        how = OrderSettings(
            options.by_layer,
            options.rounds,
            options.penalty,
            options.epochs,
            options.seed,
            most,
            options.train_weights,
            self.on_event,
        )
        removal = ORDERS[options.method](self.model, self.batches, self.sites, how)
        if options.train_weights is None or share is not None:
            return removal, share
        penalty = (ArgumentName("penalty"), f" {options.penalty:g}: ")
        if removal.closed == 1:
            raise BadInput((*penalty, "closes all heads; choose a lower one"))
        if not removal.closed:
            more = (ArgumentName("inputs"), " or more ", ArgumentName("epochs"))
            raise BadInput((*penalty, "closes no head; choose a higher one, more ", *more))
        return removal, removal.closed

    def compare_training(
        self, scores: PrunedScores, on_event: Listener = ignore, stop: Stop | None = None
    ) -> OutputTable:
        """Train the recipe from random weights with the heads that stay, and score it."""
        if scores.pruned is None or self.options.compare_training is None:
            raise BadArgument("needs a share of heads to remove", key="compare_training")
        pruned, out = scores.pruned, self.options.compare_training
        world = World.join(self.device)
        places = (out, self.data, world)
        trained = train_from_random_weights(
            self.recipe, self.model, pruned, *places, on_event=on_event, stop=stop
        )
        models = {**scores.models, "pruned": (pruned, scores.curve.points[-1].score)}
        models["trained with these heads"] = (trained, self.score(trained).value)
        return comparison_table(models, self.whole.name)
