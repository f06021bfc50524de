"""Runs of ``regard prune``: the score of a model, orders of removal, and sizes of models."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.api import Model
from regard.cli.ablation_runs import ScoredSet
from regard.cli.io.console import note
from regard.cli.io.table_formats import Cell, OutputTable, number_column, text_column
from regard.cli.training_runs import train_run
from regard.data.config import FilesConfig
from regard.ground.errors import BadInput, shown
from regard.inside.ablation import best_metric
from regard.inside.heads.importance import LossBatch, head_importance
from regard.inside.inspected_model import InspectedModel
from regard.inside.pruning.curve import PruningCurve, Score
from regard.inside.pruning.gates import closed_share, learn_gates, least_steps, train_with_gates
from regard.inside.pruning.orders import Order, normalise, order_by, order_in_rounds, random_order
from regard.inside.pruning.remove_heads import (
    FACTS,
    Head,
    count_heads,
    head_counts,
    heads_of,
    turn_off,
)
from regard.inside.pruning.speed import compare_speed, forward_passes
from regard.inside.pruning.task_loss import loss_batches
from regard.metrics.translation import MetricScore
from regard.models.attention_site import AttentionSite
from regard.models.facts import paths
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.paper import count_parameters
from regard.tasks.task import Task
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.training.distributed import World
from regard.training.recipe import Recipe, task_of
from regard.training.run import check_model
from regard.training.run_folder import RECIPE

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
    inspected = InspectedModel.of(model)
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
    whole = InspectedModel.of(model)

    @cache
    def measure(off: tuple[Head, ...]) -> dict[str, np.ndarray]:
        importance = head_importance(turn_off(whole, off) if off else whole, batches)
        return normalise(importance) if settings.by_layer else importance

    rounds, heads = settings.rounds, sum(len(heads_of(site)) for site in sites)
    if rounds > heads:
        note(f"--rounds {rounds:,}: there are {heads} heads, and no more rounds than heads")

    def order_of(of: Sequence[AttentionSite]) -> Order:
        return order_in_rounds(lambda off: measure((*off,)), of, rounds, settings.most)

    return Removal(model, order_of)


def check_gate_steps(batches: Sequence[LossBatch], epochs: int, share: float | None) -> None:
    """Refuse fewer steps than gates need to close; note it if they only order a share of heads."""
    steps, least = len(batches) * epochs, least_steps()
    if steps >= least:
        return
    fault = f"--train-weights: no gate can close in {steps:,} steps, it needs about {least}"
    if share is None:
        raise BadInput(f"{fault}; give more --inputs or --epochs, or a --share")
    note(f"{fault}; heads go in the order of gates that are open")


def _by_gates(
    model: LoadedModel,
    batches: Sequence[LossBatch],
    sites: Sequence[AttentionSite],
    settings: OrderSettings,
) -> Removal:
    chosen = {name: getattr(settings, name) for name in ("penalty", "epochs", "seed")}
    if settings.weights_rate is None:
        log_alphas = learn_gates(InspectedModel.of(model), batches, sites, **chosen)
    else:
        rate = settings.weights_rate
        model, log_alphas = train_with_gates(model, batches, sites, rate=rate, **chosen)
    closed = closed_share(log_alphas)
    note(f"gates: {closed:.1%} of the heads are closed")
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
        raise BadInput(f"--compare-training: the recipe is of another model: {first}")
    check_model(recipe, plan.facts)
    task.check_data(data, skip_bad=False)


def train_from_random_weights(
    recipe: Recipe, whole: LoadedModel, pruned: LoadedModel, out: Path, data: Path, world: World
) -> LoadedModel:
    """The model that a recipe trains from random weights with the heads of a pruned model."""
    change = {**recipe.model.change, **head_counts(pruned.facts)}
    model = recipe.model.model_copy(update={"change": change})
    smaller = recipe.model_copy(update={"model": model})
    resume = (out / RECIPE).is_file()
    run = train_run(smaller, out, world=world, resume=resume, data=data)
    run.release()
    trained = folders.read(run.model_folder, world.device)
    tokens, before = _tokens(trained), _tokens(whole)
    if tokens != before:
        known = "an unknown number" if before is None else f"{before:,}"
        note(f"--compare-training: trained on {tokens:,} tokens, the whole model on {known}")
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
