"""Views of what is inside a model, with their figures as tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from rich.text import Text

from regard.api import load
from regard.core.flags import parse_numbers
from regard.experiments.options.measuring import ProbeOptions
from regard.experiments.result import (
    Cell,
    Column,
    ExperimentResult,
    Figures,
    OutputTable,
    number_column,
    plain_table,
    text_column,
)
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
from regard.views.line_chart import Chart, chart_text

WIDEST = 100  # characters of a chart
COMPARED = "Spearman correlation of methods over words, and area under the deletion curve"


class JSONView(Protocol):
    """A view with a JSON record."""

    def to_json(self) -> Mapping[str, object]:
        """The record."""


AnyView = TypeVar("AnyView", bound=JSONView)


@dataclass(frozen=True)
class Inspection(ExperimentResult, Generic[AnyView]):
    """A view, with its figures as tables; ``draws`` says whether a terminal shows the view.

    ``more`` are further keys of its record.
    """

    source: AnyView
    figures: Sequence[OutputTable] = ()
    draws: bool = True
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def view(self) -> object | None:
        return self.source if self.draws else None

    def tables(self) -> Sequence[OutputTable]:
        return self.figures

    def records(self) -> list[Mapping[str, object]]:
        return [{**self.source.to_json(), **self.more}]


def show_contributions(view: Contributions) -> Inspection[Contributions]:
    """Contributions to a logit, with a row for each component."""
    columns = [text_column("component"), number_column("contribution", "+.4f")]
    rows: list[list[Cell]] = [[each.name, each.value] for each in view.components]
    return Inspection(view, [OutputTable(columns, rows, notes=[view.caption])])


def show_lens(view: LogitLens) -> Inspection[LogitLens]:
    """The logit lens, which is a table."""
    return Inspection(view, [plain_table(view.columns, view.cells)], draws=False)


def show_effects(view: PatchEffects) -> Inspection[PatchEffects]:
    """Effects of patches, with a row for each place."""
    names, cells = view.table
    columns = [*map(text_column, names[:-1]), number_column(names[-1], "+.4f")]
    return Inspection(view, [OutputTable(columns, cells, notes=[view.caption])])


def show_attributions(view: Attributions) -> Inspection[Attributions]:
    """Values of words by method; correlations of methods and areas under deletion curves."""
    values = [number_column(name, ".4f") for name in view.weights]
    known = [number_column(name, ".2f") for name in view.compared]
    words = OutputTable(
        [text_column("target"), text_column("word"), *values], view.word_rows, view.summary
    )
    columns = [text_column("method"), *known, number_column("area", ".3f")]
    methods = OutputTable(columns, view.method_rows, COMPARED, view.notes[:1])
    return Inspection(view, [words, methods])


def show_what_if(result: WhatIf) -> Inspection[WhatIf]:
    """A prediction before and after parts are switched off."""
    name, *figures = WHAT_IF_COLUMNS
    columns = [text_column(name), *(number_column(each, ".4f") for each in figures)]
    table = OutputTable(columns, result.rows, notes=[result.note])
    return Inspection(result, [table], draws=False)


def show_heads(report: HeadReport) -> Figures:
    """The best head of each relation, if any were measured, and figures of all heads."""
    tables = []
    if report.relations:
        names, rows = report.relation_table()
        tables.append(OutputTable([*map(_head_column, names)], rows))
    names, rows = report.head_table()
    columns = [*map(_head_column, names)]
    return Figures([*tables, OutputTable(columns, rows, notes=report.notes)])


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


@dataclass(frozen=True)
class ProbeFigures(Figures):
    """Scores of probes, and their charts by layer."""

    charts: Sequence[Chart] = ()

    def drawing(self, width: int) -> Iterator[Text]:
        for chart in self.charts:
            yield from chart_text(chart, min(width, WIDEST))


def show_probes(report: ProbeReport) -> ProbeFigures:
    """Scores of probes by layer, and comparisons of models."""
    scores = OutputTable([*map(_probe_column, COLUMNS)], report.table())
    columns = [*map(_probe_column, VERDICT_COLUMNS)]
    verdicts = OutputTable(columns, report.verdict_table(), notes=report.notes)
    return ProbeFigures([scores, verdicts], charts=[*report.charts()])


def _probe_column(name: str) -> Column:
    if name in ("model", "layer", "first", "second", "verdict"):
        return text_column(name)
    return number_column(name, "+.3f" if name == "difference" else ".3f", missing="–")


def _short_names(models: Sequence[str]) -> list[str]:
    """Last part of each name; the whole name if two are the same, or are called model."""
    last = [Path(name).name for name in models]
    unclear = {name for name in last if last.count(name) > 1} | {"model", ""}
    return [whole if name in unclear else name for name, whole in zip(last, models, strict=True)]
