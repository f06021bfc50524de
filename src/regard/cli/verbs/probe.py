"""``regard probe``: linear probes of the states of models, layer by layer, with controls."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli import options
from regard.cli.io.console import OUT, check_suffixes, note, print_texts, write_page, write_view
from regard.cli.io.table_formats import (
    Column,
    OutputTable,
    choose_format,
    number_column,
    print_tables,
    text_column,
)

FILE = {"metavar": "FILE"}


def probe(
    models: Annotated[
        list[str], Argument(metavar="MODEL", help="Models to probe: folders or ids of the hub.")
    ],
    train: Annotated[Path, Option("--train", **FILE, help="Examples to train probes on.")],
    dev: Annotated[
        Path, Option("--dev", **FILE, help="Examples to choose the strength of L2 and layers on.")
    ],
    test: Annotated[Path, Option("--test", **FILE, help="Examples to score probes on.")],
    task: Annotated[
        Literal["tags", "arcs", "arc-labels", "pairs"],
        Option(help="Labels of words; head and dependent, or not; labels of arcs; WiC pairs."),
    ] = "tags",
    column: Annotated[
        str | None,
        Option(
            metavar="NAME|N",
            help="Column of tags: upos, xpos, deprel, … of .conllu files, or a number from 0.",
            show_default="upos of .conllu files, else the last",
        ),
    ] = None,
    layers: Annotated[
        str | None,
        Option(metavar="N,N", help="Layers to probe; 0 is the embedding.", show_default="all"),
    ] = None,
    pieces: Annotated[
        Literal["mean", "first", "last"], Option(help="State of a word of several tokens.")
    ] = "mean",
    limit: Annotated[
        int | None,
        Option(
            min=1,
            help="Most examples of each file, from sentences drawn at random.",
            show_default="all",
        ),
    ] = None,
    seed: options.SEED = 0,
    html: options.HTML = None,
    svg: options.SVG = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Probe what the states of each layer tell of words.

    A probe is a logistic regression on the frozen states of one layer, trained on --train, with the
    strength of L2 that is best on --dev, and scored on --test. It is always shown with controls:
    the same model with random weights, a control task (each word form has a random label, which a
    probe can only learn by heart; selectivity is the difference), and the most frequent label of
    each word form. A probe of a learned mix of all layers has a weight for each layer.

    Files are CoNLL-U or other columns (tags), CoNLL-U (arcs, arc-labels), or WiC's (pairs). Of
    translators, the encoder is probed. Two scores are compared only if their 95% intervals do not
    overlap.

    Example: regard probe runs/bert/model --train t.conllu --dev d.conllu --test s.conllu
    """
    from regard.api import load
    from regard.inside.probes.probe_models import probe_models
    from regard.inside.probes.probe_report import COLUMNS, VERDICT_COLUMNS
    from regard.inside.probes.probe_tasks import read_data
    from regard.inside.probes.word_states import layer_numbers
    from regard.inside.views.line_text import chart_text

    form = choose_format(table_format, as_json)
    check_suffixes(html=html, svg=svg)
    chosen = None if layers is None else options.layer_numbers("--layers", layers)
    data = read_data(task, (train, dev, test), column, limit=limit, seed=seed)
    loaded = {name: load(name, device).inspected for name in dict.fromkeys(models)}
    for model in loaded.values():
        layer_numbers(model, chosen)
    what = f"{task} ({column})" if column else task
    named = dict(zip(_short_names([*loaded]), loaded.values(), strict=True))
    report = probe_models(named, data, what, layers=chosen, pieces=pieces, seed=seed, note=note)
    if form == "text":
        for chart in report.charts():
            print_texts(chart_text(chart, min(OUT.width, 100)))
    tables = [
        OutputTable([*map(_column, COLUMNS)], report.table()),
        OutputTable([*map(_column, VERDICT_COLUMNS)], report.verdict_table(), notes=report.notes),
    ]
    print_tables(tables, form)
    write_view(html, report.view_record, model=", ".join(models))
    write_page(svg, report.svg)


def _short_names(models: list[str]) -> list[str]:
    """Last part of each name; the whole name if two are the same, or are called model."""
    last = [Path(name).name for name in models]
    unclear = {name for name in last if last.count(name) > 1} | {"model", ""}
    return [whole if name in unclear else name for name, whole in zip(last, models, strict=True)]


def _column(name: str) -> Column:
    if name in ("model", "layer", "first", "second", "verdict"):
        return text_column(name)
    return number_column(name, "+.3f" if name == "difference" else ".3f", missing="–")
