"""``regard tune``: hyper-parameter search over settings of a recipe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from regard.cli import options
from regard.cli.io.console import note, print_json
from regard.cli.io.table_formats import (
    Column,
    OutputTable,
    choose_format,
    number_column,
    print_tables,
    text_column,
)
from regard.ground.errors import FAILED, BadInput

if TYPE_CHECKING:
    from regard.cli.tuning_runs import TrialResult


def tune(
    recipe: options.RECIPE,
    settings: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="TABLE.KEY=VALUES",
            help="Values to try: a,b,c or low..high[:log][:points]; one value holds for all "
            "trials; repeatable.",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        Option("--trials", min=1, help="Number of trials drawn at random; default: the grid."),
    ] = None,
    seed: options.SEED = 1,
    data: options.DATA = Path(),
    out: Annotated[Path | None, options.OUT_FOLDER] = None,
    resume: Annotated[bool, Option("--resume", help="Continue a stopped search.")] = False,
    budget: Annotated[
        str | None,
        Option("--budget", metavar="TIME", help="Maximum training time of each trial: 90s, 30m."),
    ] = None,
    skip_bad: options.SKIP_BAD = False,
    log: options.LOG = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Search for the best settings of a recipe.

    Each trial is a training run with other values of the keys of --set: of a list (a,b,c), or of a
    range (1e-4..1e-3, on a logarithmic scale with :log). Without --trials, all combinations are
    tried, and a range needs a number of points (1e-4..1e-3:log:4); with --trials N, values are
    drawn at random. Trials are judged by the best evaluation on the development set
    (train.metric); test sets are not scored. --out, by default runs/RECIPE-tune, has a folder for
    each trial, and the table in trials.json; --resume continues there, also with more trials.

    Trials are listed with the best first; one that diverges is listed last. The last line names
    the folder of the best model.

    Example: regard tune mine.toml --set optimiser.rate=1e-4..1e-2:log --trials 8 --out runs/search
    """
    from regard.cli.tuning_runs import TuningRun, run_trials
    from regard.cli.verbs.train import parse_duration
    from regard.training.distributed import World
    from regard.training.loggers import check_loggers
    from regard.training.recipe_files import find
    from regard.training.search_space import SearchSpace

    form, loggers = choose_format(table_format, as_json), check_loggers(log or ())
    path = find(recipe)
    space = SearchSpace.of(settings or ())
    search = TuningRun(
        recipe=path,
        space=space,
        trials=space.grid() if trials is None else space.random(trials, seed),
        origin={"settings": settings, "seed": None if trials is None else seed},
        folder=out or Path("runs") / f"{path.stem}-tune",
        data=data,
        resume=resume,
        skip_bad=skip_bad,
        budget_seconds=float("inf") if budget is None else parse_duration(budget),
        loggers=loggers,
        world=World.join(device),
    )
    if search.world.size > 1:
        raise BadInput("tune runs in one process; start it without torchrun")
    results = run_trials(search)
    if form == "json":
        print_json(*map(vars, results))
    else:
        print_tables([_table(results)], form)
    best = results[0]
    if best.value is None:
        note("no trial has a result; try lower learning rates")
        raise Exit(FAILED)
    chosen = " ".join(f"{name}={value}" for name, value in best.settings.items())
    note(f"best: {search.folder / best.folder / 'model'}  {chosen}")


def _table(results: "list[TrialResult]") -> OutputTable:
    names = list(results[0].settings)
    columns = [text_column("trial"), *map(Column, names)]
    columns += [number_column(f"dev {results[0].metric}", ".4g", missing="–")]
    columns += [number_column("step", ","), text_column("state")]
    rows = [
        (
            result.folder,
            *(str(result.settings[name]) for name in names),
            result.value,
            result.step,
            result.state,
        )
        for result in results
    ]
    return OutputTable(columns, rows)
