"""``regard ablate``: the score of a model without each of its heads or layers, or with edits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from regard.cli import formats
from regard.cli.io.console import (
    note,
    print_json,
    print_tables,
    show_event,
    write_drawings,
    write_page,
)
from regard.core.errors import BadInput
from regard.core.files import json_line
from regard.experiments import options
from regard.experiments.result import OutputTable, number_column, text_column

if TYPE_CHECKING:
    from regard.inside.ablation import Ablation

PLACES = {"heads": ("attention", "layer", "head"), "layers": ("side", "layer"), "edits": ("edits",)}


def ablate(
    model: options.MODEL,
    recipe: options.RECIPE,
    heads: Annotated[
        bool, Option("--heads", help="Turn off each attention head; this is the default.")
    ] = False,
    layers: Annotated[bool, Option("--layers", help="Turn off each layer.")] = False,
    edits: Annotated[
        list[Path] | None,
        Option("--edits", metavar="FILE", help="Apply the edits of a TOML file; repeatable."),
    ] = None,
    on_test: Annotated[
        bool, Option("--test", help="Score the test set of the recipe, not its dev set.")
    ] = False,
    limit: options.LIMIT = None,
    data: options.DATA = Path(),
    html: formats.HTML = None,
    svg: formats.SVG = None,
    out: options.OUT_FILE = None,
    resume: options.RESUME = False,
    *,
    runs: options.MeasureOptions,
    output: formats.TableOptions,
) -> None:
    """Score a model without each of its heads or layers.

    Prints the metric of the recipe for the whole model, then with each head off, each layer off
    (--layers), or each file of edits applied (--edits FILE), and what the metric loses by it, the
    highest loss first. Heads and layers are counted from 0. A head that is off adds nothing to the
    output of its attention; a layer that is off adds nothing to the states.

    The metric is expect.metric, or train.metric, or the first one of the task, on the dev set of
    the recipe, also one that is held out from train; with --test, on the test set. --svg draws
    losses by layer and head; for several kinds of attention, in a file each (FILE-NAME.svg).

    With --out FILE, the results are also written as JSON lines; with --resume, to FILE.partial as
    they come, and the same command continues after them.

    Example: regard ablate runs/tour/model tour --data runs/tour/corpus --limit 100
    """
    from regard.experiments.ablation_runs import ResultFile, ScoredSet, edit_lists, run_ablation
    from regard.training.recipe import read
    from regard.training.recipe_files import find

    form = output.format
    given = {"heads": heads, "layers": layers, "edits": bool(edits)}
    kind, *others = [name for name, value in given.items() if value] or ["heads"]
    if others:
        raise BadInput(f"--{kind} and --{others[0]}: choose one of them")
    if resume and out is None:
        raise BadInput("--resume: needs --out FILE, to which the results are written")
    if svg is not None and edits:
        raise BadInput("--svg: files of edits have no layers and heads to draw; leave it out")
    described = read(find(recipe))
    loaded = runs.load(model)
    lists = edit_lists(loaded, kind, edits or [])
    scored = ScoredSet.of(described, data, limit, on_test=on_test)
    results = ResultFile.open(out if resume else None, scored.identity(model), show_event)
    note(f"{scored.name}: {len(scored.examples):,} examples, scored {1 + len(lists):,} times")
    ablation = run_ablation(loaded, scored, PLACES[kind], lists, results)
    if form == "json":
        print_json(*ablation.records)
    else:
        print_tables([_table(ablation)], form)
    write_page(html, ablation.html)
    if svg is not None:
        write_drawings(svg, ablation.drawings())
    write_page(out, lambda: "".join(map(json_line, ablation.records)))
    results.remove()


def _table(ablation: "Ablation") -> OutputTable:
    """Table of the scores of all edits, the highest loss first."""
    first, *numbers = ablation.places
    columns = [text_column(first), *(number_column(name) for name in numbers)]
    columns += [number_column(ablation.metric, ".2f"), number_column("loss", "+.2f")]
    return OutputTable(
        [*columns, text_column("hash")], ablation.rows, notes=[f"{ablation.caption}"]
    )
