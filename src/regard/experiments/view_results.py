"""Views of what is inside a model, with their figures as tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from regard.api import Model, load
from regard.core.flags import parse_numbers
from regard.data.readers.image_files import image_files
from regard.data.readers.text_files import read_lines
from regard.experiments.options.measuring import ProbeOptions
from regard.experiments.result import (
    Cell,
    Column,
    ExperimentResult,
    OutputTable,
    number_column,
    plain_table,
    text_column,
)
from regard.images.decode import SUFFIXES
from regard.inside.attribution.attributions import Attributions
from regard.inside.attribution.what_if import COLUMNS as WHAT_IF_COLUMNS
from regard.inside.attribution.what_if import WhatIf
from regard.inside.heads.head_formation import CAUSAL, CAUSAL_SCORES, Formation
from regard.inside.heads.head_report import FORMATS, HeadReport
from regard.inside.probes.probe_models import probe_models
from regard.inside.probes.probe_report import COLUMNS, VERDICT_COLUMNS, ProbeReport
from regard.inside.probes.probe_tasks import read_data
from regard.inside.probes.word_states import layer_numbers
from regard.inside.stream.contributions import Contributions
from regard.inside.stream.lens import LogitLens
from regard.inside.stream.patching import PatchEffects

COMPARED = "Spearman correlation of methods over words, and area under the deletion curve"


class JSONView(Protocol):
    """A view with a JSON record."""

    def to_json(self) -> Mapping[str, object]:
        """The record."""


@dataclass(frozen=True)
class Inspection(ExperimentResult):
    """A view, with its figures as tables; ``draws`` says whether a terminal shows the view."""

    source: JSONView
    figures: Sequence[OutputTable]
    draws: bool = True

    @property
    def view(self) -> object | None:
        return self.source if self.draws else None

    def tables(self) -> Sequence[OutputTable]:
        return self.figures

    def records(self) -> list[Mapping[str, object]]:
        return [self.source.to_json()]


def show_contributions(view: Contributions) -> Inspection:
    """Contributions to a logit, with a row for each component."""
    columns = [text_column("component"), number_column("contribution", "+.4f")]
    rows: list[list[Cell]] = [[each.name, each.value] for each in view.components]
    return Inspection(view, [OutputTable(columns, rows, notes=[view.caption])])


def show_lens(view: LogitLens) -> Inspection:
    """The logit lens, which is a table."""
    return Inspection(view, [plain_table(view.columns, view.cells)], draws=False)


def show_effects(view: PatchEffects) -> Inspection:
    """Effects of patches, with a row for each place."""
    names, cells = view.table
    columns = [*map(text_column, names[:-1]), number_column(names[-1], "+.4f")]
    return Inspection(view, [OutputTable(columns, cells, notes=[view.caption])])


def show_attributions(view: Attributions) -> Inspection:
    """Values of words by method; correlations of methods and areas under deletion curves."""
    values = [number_column(name, ".4f") for name in view.weights]
    known = [number_column(name, ".2f") for name in view.compared]
    words = OutputTable(
        [text_column("target"), text_column("word"), *values], view.word_rows, view.summary
    )
    columns = [text_column("method"), *known, number_column("area", ".3f")]
    methods = OutputTable(columns, view.method_rows, COMPARED, view.notes[:1])
    return Inspection(view, [words, methods])


def show_what_if(result: WhatIf) -> Inspection:
    """A prediction before and after parts are switched off."""
    name, *figures = WHAT_IF_COLUMNS
    columns = [text_column(name), *(number_column(each, ".4f") for each in figures)]
    table = OutputTable(columns, result.rows, notes=[result.note])
    return Inspection(result, [table], draws=False)


@dataclass(frozen=True)
class Figures(ExperimentResult):
    """Tables of figures."""

    figures: Sequence[OutputTable]

    def tables(self) -> Sequence[OutputTable]:
        return self.figures


def report_on_heads(
    model: Model,
    text: str | None = None,
    *,
    treebank: Path | None = None,
    test: Path | None = None,
    labels: str | None = None,
    least: int = 100,
) -> tuple[HeadReport, Figures]:
    """What heads do on the lines of a file, on images or on a treebank, and its tables."""
    inputs = [] if text is None else _inputs(model, text)
    gold = None if labels is None else [*read_lines(labels)]
    report = model.heads(inputs, treebank=treebank, test=test, labels=gold, least=least)
    tables = []
    if report.relations:
        names, rows = report.relation_table()
        tables.append(OutputTable([*map(_head_column, names)], rows))
    names, rows = report.head_table()
    columns = [*map(_head_column, names)]
    return report, Figures([*tables, OutputTable(columns, rows, notes=report.notes)])


def _inputs(model: Model, file: str) -> list[object]:
    """Texts or pairs in the lines of a file; or the images of a file or a folder."""
    path = Path(file)
    if model.inspected.reads_images:
        if path.suffix.lower() in SUFFIXES:
            return [file]
        return [*map(str, image_files(path) if path.is_dir() else read_lines(file))]
    lines = [line for line in read_lines(file) if line and not line.isspace()]
    return [tuple(line.split("\t")) if line.count("\t") == 1 else line for line in lines]


def _head_column(name: str) -> Column:
    return number_column(name, FORMATS[name]) if name in FORMATS else text_column(name)


def show_formation(formed: Formation, name: str) -> Figures:
    """The head with the highest figure of this ``name`` at each step, and when heads appeared."""
    appeared = formed.appearances(name) if name in CAUSAL_SCORES else []
    notes = [formed.caption]
    notes += [
        f"layer {each.head.layer}, head {each.head.head}: {name} {each.value:.2f}, "
        f"appeared at step {each.step:,}"
        for each in appeared
    ]
    if name in CAUSAL_SCORES and not appeared:
        notes.append(f"no head has a score of {name} of {CAUSAL}")
    columns = [number_column("step", ",d"), number_column("dev loss", ".4f"), text_column("site")]
    columns += [number_column(column, "d") for column in ("layer", "head")]
    columns.append(number_column(name, FORMATS[name]))
    rows: list[list[Cell]] = []
    for at, loss, head in zip(formed.steps, formed.losses, formed.highest(name), strict=True):
        best: list[Cell] = [None] * 4 if head is None else [*head.place, head.figures[name]]
        rows.append([at.step, loss, *best])
    return Figures([OutputTable(columns, rows, notes=notes)])


def probe_folders(
    models: Sequence[str],
    options: ProbeOptions,
    device: str | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> ProbeReport:
    """Probe the models in folders on files for training, dev and test."""
    task, column, seed, files = options.task, options.column, options.seed, options.files
    layers = None if options.layers is None else parse_numbers("layers", options.layers)
    data = read_data(task, files, column, limit=options.limit, seed=seed)
    loaded = {name: load(name, device).inspected for name in dict.fromkeys(models)}
    for model in loaded.values():
        layer_numbers(model, layers)
    what = f"{task} ({column})" if column else task
    named = dict(zip(_short_names([*loaded]), loaded.values(), strict=True))
    how = options.pieces
    return probe_models(named, data, what, layers=layers, pieces=how, seed=seed, note=note)


def show_probes(report: ProbeReport) -> Figures:
    """Scores of probes by layer, and comparisons of models."""
    scores = OutputTable([*map(_probe_column, COLUMNS)], report.table())
    columns = [*map(_probe_column, VERDICT_COLUMNS)]
    return Figures([scores, OutputTable(columns, report.verdict_table(), notes=report.notes)])


def _probe_column(name: str) -> Column:
    if name in ("model", "layer", "first", "second", "verdict"):
        return text_column(name)
    return number_column(name, "+.3f" if name == "difference" else ".3f", missing="–")


def _short_names(models: Sequence[str]) -> list[str]:
    """Last part of each name; the whole name if two are the same, or are called model."""
    last = [Path(name).name for name in models]
    unclear = {name for name in last if last.count(name) > 1} | {"model", ""}
    return [whole if name in unclear else name for name, whole in zip(last, models, strict=True)]
