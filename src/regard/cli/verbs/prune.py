"""``regard prune``: attention heads that a model does not need, and a model without them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Context, Option

from regard.cli import options
from regard.cli.io.console import check_suffixes, note, write_page
from regard.cli.io.table_formats import choose_format, print_tables
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.inside.heads.importance import LossBatch
    from regard.inside.views.line_chart import Report

Method = Literal["importance", "gates", "random"]


def prune(
    context: Context,
    model: options.MODEL,
    recipe: options.RECIPE,
    settings: options.SETTINGS = None,
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
    train_weights: Annotated[
        float | None,
        Option(
            metavar="RATE",
            help="Train the weights together with the gates, at this learning rate.",
            show_default="weights stay",
        ),
    ] = None,
    compare_training: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Also train the recipe from random weights with the heads that stay, to this "
            "run folder, and score it.",
        ),
    ] = None,
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
    order of their gates. --train-weights 1e-4 trains the weights as well, as they do: the model
    adapts while gates close. Then the heads whose gates are closed go, unless --share says how
    many; the first row is the score of the trained model with all its heads. A gate needs about 44
    steps of 16 inputs to close.

    --svg draws each curve, several of them in a file each (FILE-NAME.svg).

    --out writes the model without the share of heads as a folder that all verbs read, and prints
    parameters and times of both models. Other formats cannot express such a model.

    --compare-training trains a model of the same heads by the recipe, from random weights, and
    prints its score beside that of the pruned model: what the heads that were there cost. If the
    model was trained with --set, repeat it here. A run that was stopped there is resumed.

    Example: regard prune runs/tour/model tour --data runs/tour/corpus --share 0.2 --out runs/less
    """
    from regard.cli.ablation_runs import ScoredSet
    from regard.cli.pruning_runs import (
        ORDERS,
        OrderSettings,
        check_gate_steps,
        check_training,
        comparison_table,
        curve_table,
        speed_table,
        train_from_random_weights,
        training_batches,
        whole_score,
    )
    from regard.ground.device import device_named
    from regard.ground.lock import is_vacant, lock_vacant
    from regard.inside.pruning.curve import ALL, SHARES, pruning_curve
    from regard.inside.pruning.orders import check_share, first_of
    from regard.inside.pruning.remove_heads import prunable_sites, remove_heads
    from regard.models.folders import folder as folders
    from regard.models.folders.hub import local_folder
    from regard.training.distributed import World
    from regard.training.recipe import read, task_of
    from regard.training.recipe_files import find
    from regard.training.run_folder import RECIPE

    form = choose_format(table_format, as_json)
    check_suffixes(html=html, svg=svg)
    if share is not None:
        check_share(share)
    elif train_weights is None:
        smaller = {"--out": out, "--compare-training": compare_training}
        options.refuse(smaller, "needs --share, or --train-weights")
    for flag, folder in (("--out", out), ("--compare-training", compare_training)):
        resumed = folder is compare_training and folder is not None and (folder / RECIPE).is_file()
        if folder is not None and not resumed and not is_vacant(folder):
            raise BadInput(f"{flag} {folder}: is not empty; choose another folder")
    if method != "importance":
        unused = {"--by-layer": by_layer, **options.flags(context, "rounds")}
        options.refuse(unused, "needs --method importance")
    if method != "gates":
        unused = options.flags(context, "penalty", "epochs", "train_weights")
        options.refuse(unused, "needs --method gates")
    described = read(find(recipe), settings or ())
    if compare_training is not None and described.model.start is not None:
        raise BadInput("--compare-training: the recipe has model.start, not random weights")
    task = task_of(described)
    loaded = folders.read(local_folder(model), device_named(device))
    chosen = prunable_sites(loaded.facts, [] if sites is None else sites.split(","))
    if compare_training is not None:
        check_training(described, loaded, data)
    scored = ScoredSet.of(described, data, limit, on_test=False)
    batches: list[LossBatch] = []
    if method != "random" or out is not None:
        train, longest = described.data.train, described.batches.longest
        batches = training_batches(loaded, task, train, data, inputs, longest)
    if train_weights is not None and train_weights > 0:
        check_gate_steps(batches, epochs, share)
    whole, score = whole_score(scored, loaded)
    metric = whole.name
    most = SHARES[-1] if share is None else share
    how = OrderSettings(by_layer, rounds, penalty, epochs, seed, most, train_weights)
    removal = ORDERS[method](loaded, batches, chosen, how)
    if train_weights is not None and share is None:
        if removal.closed == 1:
            raise BadInput(f"--penalty {penalty:g}: closes all heads; choose a lower one")
        if not removal.closed:
            advice = "choose a higher one, more --inputs or more --epochs"
            raise BadInput(f"--penalty {penalty:g}: closes no head; {advice}")
        share = removal.closed
    groups = {site.name: [site] for site in chosen}
    if share is not None or len(chosen) > 1:
        groups = ({} if share is not None else groups) | {ALL: chosen}
    curve = pruning_curve(
        removal.model,
        groups,
        removal.order_of,
        score,
        whole=whole.value,
        metric=metric,
        method=method,
        shares=SHARES if share is None else (share,),
        seeds=range(seed, seed + seeds),
        note=note,
    )
    title = f"{loaded.paper.name}: {described.about.title}"
    notes = [f"whole model: {metric} {curve.whole:.2f}, on {len(scored.examples):,} {task.unit}"]
    models = {"whole": (loaded, whole.value)}
    if train_weights is not None:
        value = score(removal.model).value
        models["trained with gates"] = (removal.model, value)
        curve = curve.after_training(value)
        notes.append(
            f"trained with gates, all heads: {metric} {value:.2f}; heads of this model are "
            "removed, also in random orders; changes are from the whole model"
        )
    tables = [curve_table(curve, notes)]
    if share is not None and (out or compare_training):
        pruned = remove_heads(removal.model, first_of(removal.order_of(chosen), share))
    if out is not None:
        with lock_vacant(out):
            folders.write(out, pruned)
        note(f"wrote {out}")
        tables.append(speed_table([loaded, pruned], batches))
    print_tables(tables, form)
    report = curve.report(title, notes)
    write_page(html, report.html)
    if svg is not None:
        _draw(svg, report)
    if compare_training is not None:
        world = World.join(device)
        trained = train_from_random_weights(
            described, loaded, pruned, compare_training, data, world
        )
        models["pruned"] = (pruned, curve.points[-1].score)
        models["trained with these heads"] = (trained, score(trained).value)
        print_tables([comparison_table(models, metric)], form, after=len(tables))


def _draw(path: Path, report: "Report") -> None:
    """Draw the curves; several are written to FILE-NAME.svg."""
    several = len(report.charts) > 1
    for name, chart in report.charts.items():
        file = path.with_name(f"{path.stem}-{name}{path.suffix}") if several else path
        write_page(file, chart.svg)
