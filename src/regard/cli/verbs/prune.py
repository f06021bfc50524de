"""``regard prune``: attention heads that a model does not need, and a model without them."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from typer import Context, Option

from regard.cli import options
from regard.cli.io.console import check_suffixes, note, write_page
from regard.cli.io.table_formats import (
    Cell,
    OutputTable,
    choose_format,
    number_column,
    print_tables,
    text_column,
)
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

    from regard.api import Model
    from regard.cli.ablation_runs import ScoredSet
    from regard.data.config import FilesConfig
    from regard.inside.heads.importance import LossBatch
    from regard.inside.inspected_model import InspectedModel
    from regard.inside.pruning.curve import PruningCurve
    from regard.inside.pruning.orders import Order
    from regard.inside.pruning.remove_heads import Head
    from regard.inside.views.line_chart import Report
    from regard.models.attention_site import AttentionSite
    from regard.models.folders.loaded_model import LoadedModel
    from regard.tasks.task import Task

Method = Literal["importance", "gates", "random"]
TIMED = 7  # runs of each model, in turns, whose median time is printed


def prune(
    context: Context,
    model: options.MODEL,
    recipe: options.RECIPE,
    data: options.DATA = Path(),
    share: Annotated[
        float | None,
        Option(help="Share of heads to remove, at least 0 and below 1.", show_default="the curve"),
    ] = None,
    sites: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="Attention to prune: encoder, decoder, cross, separated by commas.",
            show_default="all",
        ),
    ] = None,
    method: Annotated[
        Method, Option(help="Order of removal: by importance, by learned gates, or random.")
    ] = "importance",
    seeds: Annotated[int, Option(min=0, help="Number of random orders to compare with.")] = 3,
    seed: options.SEED = 0,
    inputs: Annotated[
        int, Option(min=1, help="Training examples for importance, gates and times.")
    ] = 256,
    limit: options.LIMIT = None,
    by_layer: Annotated[
        bool, Option("--by-layer", help="Divide importance by its norm in each layer.")
    ] = False,
    rounds: Annotated[
        int, Option(min=1, help="Rounds of removal; each measures importance again.")
    ] = 1,
    penalty: Annotated[float, Option(help="Penalty of an open gate.")] = 0.01,
    epochs: Annotated[int, Option(min=1, help="Passes over the inputs to learn gates.")] = 5,
    out: Annotated[Path | None, options.OUT_FOLDER] = None,
    html: options.HTML = None,
    svg: options.SVG = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Remove the attention heads that a model needs least.

    Without --share, prints the curve: the score of the model with 10% to 90% of the heads removed,
    for encoder, decoder and cross-attention on their own and for all heads together, beside random
    orders of removal. The score is the metric of the recipe on its dev set, also one that is held
    out from train.

    Importance is the mean absolute gradient of the loss with respect to a gate of the head (Michel
    et al., 2019); --by-layer divides it by its norm in each layer, as they do; with --rounds 20, it
    is measured again after each 5% of the heads. With --method gates, gates are learned with a
    penalty on open ones (Voita et al., 2019), while the weights of the model stay; heads go in the
    order of their gates.

    --svg draws each curve, several of them in a file each (FILE-NAME.svg).

    --out writes the model without the share of heads as a folder that all verbs read, and prints
    parameters and times of both models. Other formats cannot express such a model.

    Example: regard prune runs/tour/model tour --data runs/tour/corpus --share 0.2 --out runs/less
    """
    from regard.api import Model
    from regard.cli.ablation_runs import ScoredSet
    from regard.ground.device import device_named
    from regard.ground.lock import is_vacant, lock_vacant
    from regard.inside.pruning.curve import ALL, SHARES, pruning_curve
    from regard.inside.pruning.orders import check_share, first_of
    from regard.inside.pruning.remove_heads import prunable_sites, remove_heads
    from regard.models.folders import folder as folders
    from regard.models.folders.hub import local_folder
    from regard.training.recipe import read, task_of
    from regard.training.recipe_files import find

    form = choose_format(table_format, as_json)
    check_suffixes(html=html, svg=svg)
    if share is None:
        options.refuse({"--out": out}, "needs --share")
    else:
        check_share(share)
    if out is not None and not is_vacant(out):
        raise BadInput(f"--out {out}: is not empty; choose another folder")
    if method != "importance":
        unused = {"--by-layer": by_layer, **options.flags(context, "rounds")}
        options.refuse(unused, "needs --method importance")
    if method != "gates":
        options.refuse(options.flags(context, "penalty", "epochs"), "needs --method gates")
    described = read(find(recipe))
    task = task_of(described)
    loaded = folders.read(local_folder(model), device_named(device))
    chosen = prunable_sites(loaded.facts, [] if sites is None else sites.split(","))
    scored = ScoredSet.of(described, data, limit, on_test=False)
    metric, score = _scorer(scored, Model(loaded))
    whole = Model(loaded)
    batches: list[LossBatch] = []
    if method != "random" or out is not None:
        train, longest = described.data.train, described.batches.longest
        batches = _batches(whole, task, train, data, inputs, longest)
    settings = OrderSettings(by_layer, rounds, penalty, epochs, seed)
    order_of = ORDERS[method](whole.inspected, batches, chosen, settings)
    groups = {site.name: [site] for site in chosen}
    if share is not None or len(chosen) > 1:
        groups = ({} if share is not None else groups) | {ALL: chosen}
    curve = pruning_curve(
        loaded,
        groups,
        order_of,
        score,
        metric=metric,
        method=method,
        shares=SHARES if share is None else (share,),
        seeds=range(seed, seed + seeds),
        note=note,
    )
    title = f"{whole.paper.name}: {described.about.title}"
    notes = [f"whole model: {metric} {curve.whole:.2f}, on {len(scored.examples):,} {task.unit}"]
    tables = [_curve_table(curve, notes)]
    if out is not None and share is not None:
        pruned = remove_heads(loaded, first_of(order_of(chosen), share))
        with lock_vacant(out):
            folders.write(out, pruned)
        note(f"wrote {out}")
        tables.append(_speed_table([loaded, pruned], batches))
    print_tables(tables, form)
    report = curve.report(title, notes)
    write_page(html, report.html)
    if svg is not None:
        _draw(svg, report)


def _draw(path: Path, report: "Report") -> None:
    """Draw the curves; several are written to FILE-NAME.svg."""
    several = len(report.charts) > 1
    for name, chart in report.charts.items():
        file = path.with_name(f"{path.stem}-{name}{path.suffix}") if several else path
        write_page(file, chart.svg)


def _scorer(scored: "ScoredSet", model: "Model") -> tuple[str, Callable[["LoadedModel"], float]]:
    """Name of the metric of a recipe, and the function that scores a model by it."""
    from regard.api import Model

    def scores(of: "Model") -> dict[str, float]:
        return {each.name: each.value for each in scored.score(of)}

    known = [*scores(model)]
    preferred = [name for name in scored.preferred if name in known]
    metric = next(iter([*preferred, *known]))
    return metric, lambda loaded: scores(Model(loaded))[metric]


def _batches(
    model: "Model", task: "Task", files: "FilesConfig", data: Path, inputs: int, longest: int
) -> "list[LossBatch]":
    """Batches of training examples with their losses."""
    from regard.inside.pruning.task_loss import loss_batches

    contents = islice(task.contents(files, data), 4 * inputs)  # some are too long
    return loss_batches(model.inspected, contents, model.labels, inputs=inputs, longest=longest)


class OrderSettings(NamedTuple):
    """Settings of orders: of importance, of gates, of random numbers."""

    by_layer: bool
    rounds: int
    penalty: float
    epochs: int
    seed: int


Orders = Callable[[Sequence["AttentionSite"]], "Order"]
OrderMaker = Callable[
    ["InspectedModel", Sequence["LossBatch"], Sequence["AttentionSite"], OrderSettings], Orders
]


def _by_importance(
    model: "InspectedModel",
    batches: "Sequence[LossBatch]",
    sites: "Sequence[AttentionSite]",
    settings: OrderSettings,
) -> Orders:
    from regard.inside.heads.importance import head_importance
    from regard.inside.pruning.orders import normalise, order_in_rounds
    from regard.inside.pruning.remove_heads import turn_off

    @cache
    def measure(off: "tuple[Head, ...]") -> "dict[str, np.ndarray]":
        importance = head_importance(turn_off(model, off) if off else model, batches)
        return normalise(importance) if settings.by_layer else importance

    return lambda of: order_in_rounds(lambda off: measure((*off,)), of, settings.rounds)


def _by_gates(
    model: "InspectedModel",
    batches: "Sequence[LossBatch]",
    sites: "Sequence[AttentionSite]",
    settings: OrderSettings,
) -> Orders:
    from regard.inside.pruning.gates import closed_share, learn_gates
    from regard.inside.pruning.orders import order_by

    log_alphas = learn_gates(
        model, batches, sites, penalty=settings.penalty, epochs=settings.epochs, seed=settings.seed
    )
    note(f"gates: {closed_share(log_alphas):.1%} of the heads are closed")
    return partial(order_by, log_alphas)


def _at_random(
    model: "InspectedModel",
    batches: "Sequence[LossBatch]",
    sites: "Sequence[AttentionSite]",
    settings: OrderSettings,
) -> Orders:
    from regard.inside.pruning.orders import random_order

    return lambda of: random_order(of, settings.seed)


ORDERS: dict[str, OrderMaker] = {
    "importance": _by_importance,
    "gates": _by_gates,
    "random": _at_random,
}


def _curve_table(curve: "PruningCurve", notes: Sequence[str]) -> OutputTable:
    columns, rows = curve.table()
    site, share, removed, *scores = columns
    first = [text_column(site), number_column(share, ".0%"), number_column(removed)]
    return OutputTable(
        [*first, *(number_column(name, ".2f") for name in scores)], rows, notes=notes
    )


def _speed_table(models: "Sequence[LoadedModel]", batches: "Sequence[LossBatch]") -> OutputTable:
    """Heads, parameters and times of the whole model and of the pruned one."""
    from regard.inside.pruning.speed import compare_speed, forward_passes

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
