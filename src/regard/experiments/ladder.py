"""Ladder: models trained on the same data, compared in a table and a page."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import starmap
from math import inf
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from rich.text import Text

from regard.api import Model, load
from regard.core.errors import BadInput
from regard.core.files import write_json, write_text
from regard.data.data_tables import FilesConfig
from regard.data.readers.aligned_pairs import Pairs, read_gold_links, read_text_pairs
from regard.data.readers.fields import DropCounts, Dropped
from regard.data.readers.sources import read_pairs
from regard.data.readers.text_files import STDIN
from regard.experiments.alignment import GoldPairs, align_by_best_method
from regard.experiments.notes import Listener, Note, Stop, Stopped, ignore
from regard.experiments.result import (
    Cell,
    ExperimentResult,
    OutputTable,
    csv_text,
    number_column,
    text_column,
)
from regard.experiments.scores import Expected
from regard.experiments.training import in_one_precision, train_run, with_train_keys
from regard.inference.generation_settings import DecodeConfig
from regard.inside.ablation import best_metric
from regard.metrics.intervals import mean_interval
from regard.metrics.translation import LengthBucket, MetricScore, bleu, bleu_metric, by_length
from regard.tasks.translate import MeasureConfig, Translate
from regard.text.words import word_spans, words
from regard.training.distributed import World
from regard.training.loop.trainer import Diverged
from regard.training.metrics_log import check_loggers
from regard.training.recipe import Recipe, task_of
from regard.training.recipe.overrides import Settings
from regard.training.recipe.tables import RungConfig
from regard.training.run import Run, check_model
from regard.training.run_events import AnyRecipe, name_of_recipe, recipe_of
from regard.training.run_folder import claim, give_up
from regard.views.line_chart import Chart, ChartLine, Report
from regard.views.markup import HTMLPage

Train = Callable[[Recipe, Path], Run]


@dataclass(frozen=True)
class LadderResult:
    """Results of one model; ``aer`` is None without gold links or cross-attention.

    Translators have ``buckets`` by length, other models may have more ``scores``. ``seed`` is set
    if each rung was trained with several seeds.
    """

    name: str
    score: MetricScore
    buckets: Sequence[LengthBucket]
    aer: float | None
    cost: dict[str, float]
    seed: int | None = None
    scores: Sequence[MetricScore] = ()

    @property
    def figures(self) -> dict[str, object]:
        """Record of the results for JSON."""
        metric, lengths = self.score.name, []
        for bucket in self.buckets:
            words = {"words": [bucket.shortest, bucket.longest], "sentences": bucket.sentences}
            lengths.append({**words, metric: bucket.score.value})
        score = {metric: self.score.value, "signature": self.score.signature}
        costs = {"cost": self.cost, "tokens per second": self.speed}
        seed = {} if self.seed is None else {"seed": self.seed}
        if not self.buckets:
            more = {it.name: it.value for it in self.scores}
            return {"rung": self.name, **seed, **score, **more, **costs}
        return {"rung": self.name, **seed, **score, "by length": lengths, "aer": self.aer, **costs}

    @property
    def speed(self) -> float:
        """Source and target tokens per second of training, including evaluation."""
        return self.cost["tokens"] / max(self.cost["device_seconds"], 1e-9)


@dataclass(frozen=True)
class Ladder(HTMLPage, ExperimentResult):
    """Results of all models, one for each rung and seed, and the search of translators.

    ``expected`` are the scores that rungs are expected to reach.
    """

    title: str
    results: Sequence[LadderResult]
    search: str
    expected: Sequence[Expected] = ()

    @property
    def reached(self) -> bool:
        """Whether all expected scores are reached."""
        return all(expected.reached for expected in self.expected)

    def tables(self) -> list[OutputTable]:
        return [self.table]

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        yield from super().text(width)
        yield from map(str, self.expected)

    @property
    def rungs(self) -> dict[str, list[LadderResult]]:
        """Results by rung, one for each seed."""
        rungs: dict[str, list[LadderResult]] = {}
        for result in self.results:
            rungs.setdefault(result.name, []).append(result)
        return rungs

    @property
    def table(self) -> OutputTable:
        """A row for each rung, with means over seeds; several seeds have an interval, too."""
        first, intervals = self.results[0], ["deviation", "low", "high"] * self._several_seeds
        names = [first.score.name, *intervals, *(it.name for it in first.scores)]
        names += [f"{bucket} words" if not n else f"{bucket}" for n, bucket in self._buckets]
        columns = [
            text_column("model"),
            *(number_column(name, ".1f" if first.buckets else ".2f") for name in names),
            *[number_column("AER", ".3f", missing="–")] * bool(first.buckets),
            number_column("parameters", ",.0f"),
            number_column("FLOPs", ".2g"),
            number_column("tokens/s", ",.0f"),
        ]
        return OutputTable(columns, [*starmap(self._row, self.rungs.items())], notes=self.notes)

    @property
    def _buckets(self) -> Iterator[tuple[int, LengthBucket]]:
        """Sizes of the texts that translators have scores for, numbered."""
        return enumerate(self.results[0].buckets)

    def _row(self, name: str, results: Sequence[LadderResult]) -> list[Cell]:
        scores = [result.score.value for result in results]
        spread = [stdev(scores), *mean_interval(scores)] if self._several_seeds else []
        buckets = zip(*(result.buckets for result in results), strict=True)
        errors = [result.aer for result in results if result.aer is not None]
        aer: list[Cell] = [mean(errors) if errors else None] * bool(results[0].buckets)
        return [
            name,
            mean(scores),
            *spread,
            *(score.value for score in mean_scores(results)[1:]),
            *(mean(bucket.score.value for bucket in of_seeds) for of_seeds in buckets),
            *aer,
            results[0].cost["parameters"],
            mean(result.cost["training_flops"] for result in results),
            mean(result.speed for result in results),
        ]

    @property
    def _several_seeds(self) -> bool:
        return len(self.results) > len(self.rungs)

    @property
    def notes(self) -> list[str]:
        """Explanations of the columns."""
        score = self.results[0].score
        about, costs = f"{score.name} {score.signature}", "FLOPs of training; tokens per second of"
        costs = f"{costs} training and evaluation"
        if self.results[0].buckets:
            sizes = ", ".join(str(bucket.sentences) for _, bucket in self._buckets)
            about += f", {self.search}; by number of source words, {sizes} sentences"
            aer = "AER: alignment error rate of the cross-attention, with the method chosen on the"
            costs = f"{aer} development set; {costs}"
        notes = [about, costs]
        if others := {result.score.signature for result in self.results} - {score.signature}:
            notes.append(f"not comparable, with another signature: {', '.join(sorted(others))}")
        if self._several_seeds:
            seeds = len(self.results) // len(self.rungs)
            notes.append(
                f"means of {seeds} seeds; of {score.name} the standard deviation, and the 95% "
                "interval of the mean (Student's t)"
            )
        return notes

    @property
    def figures(self) -> dict[str, object]:
        """Record of all results for JSON, and of means where there are several seeds."""
        record: dict[str, object] = {"rungs": [result.figures for result in self.results]}
        if self._several_seeds:
            table = self.table
            record["means"] = [dict(zip(table.names, row, strict=True)) for row in table.rows]
        return record

    def svg(self) -> str:
        """BLEU by source length, as a standalone SVG."""
        return self._chart(self.title).svg()

    def html(self) -> str:
        table, charts = self.table, dict[str, Chart]()
        if self.results[0].buckets:
            charts = {"BLEU": self._chart("BLEU by source length")}
        return Report(self.title, table.names, table.texts, charts, self.notes).html()

    def _chart(self, title: str) -> Chart:
        ticks = [(bucket.mean, str(bucket)) for bucket in self.results[0].buckets]
        lines = []
        for name, results in self.rungs.items():
            buckets = zip(*(result.buckets for result in results), strict=True)
            points = [
                (of_seeds[0].mean, mean(bucket.score.value for bucket in of_seeds))
                for of_seeds in buckets
            ]
            lines.append(ChartLine(name, points))
        return Chart(title, "source words", "BLEU", ticks, lines)


@dataclass(frozen=True)
class LadderRun:
    """Run of a ladder: its recipe, folder, data, and the function that trains each rung."""

    recipe: Recipe
    folder: Path
    world: World
    train: Train
    data: Path
    resume: bool = False
    skip_bad: bool = False
    seeds: int | None = None
    on_event: Listener = ignore

    @property
    def dropped(self) -> Dropped:
        """Counts of dropped lines, if lines may be dropped."""
        return DropCounts() if self.skip_bad else None

    @cached_property
    def runs(self) -> list["RungRun"]:
        """Every rung, with every seed, in one precision, on which all processes agree."""
        first = self.recipe.train.seed
        seeds = [None] if self.seeds is None else range(first, first + self.seeds)
        runs = [self._run(rung, seed) for rung in self.recipe.rung for seed in seeds]
        names = [run.folder.name for run in runs]
        if len(set(names)) < len(names):
            raise BadInput(f"two rungs of the ladder have the same name: {', '.join(names)}")
        recipes = in_one_precision({run.folder: run.recipe for run in runs}, self.world)
        return [run._replace(recipe=own) for run, own in zip(runs, recipes, strict=True)]

    def _run(self, rung: RungConfig, seed: int | None) -> "RungRun":
        recipe, name = self.recipe.at(rung), slug(rung.name)
        if seed is None:
            return RungRun(rung, recipe, self.folder / name)
        recipe = with_train_keys(recipe, seed=seed)
        return RungRun(rung, recipe, self.folder / f"{name}-seed-{seed}", seed)


class RungRun(NamedTuple):
    """Training run of a rung; ``seed`` is None without ``--seeds``."""

    rung: RungConfig
    recipe: Recipe
    folder: Path
    seed: int | None = None


def ladder(
    recipe: AnyRecipe,
    data: str | Path = Path(),
    out: str | Path | None = None,
    *,
    settings: Settings = (),
    rungs: Sequence[str] = (),
    seeds: int | None = None,
    resume: bool = False,
    skip_bad: bool = False,
    budget: float = inf,
    loggers: Sequence[str] = (),
    device: str | None = None,
    on_event: Listener = ignore,
    stop: Stop | None = None,
) -> Ladder | None:
    """Train all models of a ladder by one recipe, and compare them in one table.

    ``rungs`` names single models; with ``seeds`` each is trained that many times. ``out``, by
    default runs/RECIPE, has a folder for each run, and the table as files; with ``resume``
    unfinished runs go on. ``budget`` is the number of seconds of each run. Of several processes
    only the first has the table.
    """
    described, name = recipe_of(recipe, settings), name_of_recipe(recipe)
    if not described.rung:
        raise BadInput(f"{name}: the recipe has no rungs; train it by regard.train")
    chosen = described.only(rungs) if rungs else described
    world = World.join(device, described.distributed.timeout)
    train = partial(
        train_run,
        world=world,
        resume=resume,
        data=Path(data),
        skip_bad=skip_bad,
        budget_seconds=budget,
        loggers=check_loggers(loggers),
        on_event=on_event,
        stop=stop,
    )
    folder = Path("runs") / Path(name).stem if out is None else Path(out)
    run = LadderRun(chosen, folder, world, train, Path(data), resume, skip_bad, seeds, on_event)
    with world.together(Stopped, Diverged):
        return train_ladder(run, check=not (settings or budget < inf), whole=not rungs)


def train_ladder(ladder: LadderRun, *, check: bool, whole: bool) -> Ladder | None:
    """Train every rung in its own folder; the table of all, in the first process.

    The table is written to files if these are all rungs (``whole``). With ``check``, scores of
    rungs are compared with those that are expected.
    """
    _check(ladder)
    recipe, world = ladder.recipe, ladder.world
    tell = ladder.on_event if world.is_leader else ignore
    results = []
    with _claimed(ladder):
        for rung, described, folder, seed in ladder.runs:
            tell(Note(f"\n{rung.name}" + ("" if seed is None else f", seed {seed}")))
            run = ladder.train(described, folder)
            if world.is_leader:
                model = load(run.model_folder, str(world.device), precision="auto")
                measure = MEASURES.get(recipe.task, measure_by_task)
                result = measure(rung.name, model, recipe, ladder.data, ladder.dropped)
                results.append(replace(result, seed=seed))
                if result.aer is not None:
                    model.save(run.model_folder)  # with its alignment method
            world.barrier()
    if not world.is_leader:
        return None
    table = Ladder(recipe.about.title, results, _decoding(recipe))
    if check:
        scores = {name: mean_scores(of_rung) for name, of_rung in table.rungs.items()}
        expected = [
            Expected.of(rung.expect, scores[rung.name]) for rung in recipe.rung if rung.expect
        ]
        table = replace(table, expected=expected)
    if whole:
        _write(table, ladder.folder, tell)
    else:
        tell(Note("not all rungs: ladder.html is written when a resumed run goes through all"))
    return table


def _decoding(recipe: Recipe) -> str:
    """The search of a translator, in words."""
    if not task_of(recipe).reads_links:
        return ""
    search = recipe.tables[DecodeConfig].search
    return "greedy search" if search.size == 1 else f"beam of {search.size}, {search.formula}"


def mean_scores(results: Sequence[LadderResult]) -> list[MetricScore]:
    """Means over seeds of each metric, the one that is compared first."""
    metrics = zip(*((result.score, *result.scores) for result in results), strict=True)
    return [replace(of[0], value=mean(score.value for score in of)) for of in metrics]


def _check(ladder: LadderRun) -> None:
    """Check every rung and all data before the first rung is trained."""
    recipe, data = ladder.recipe, ladder.data
    if recipe.data.test is None:
        raise BadInput("a ladder needs a test set (data.test)")
    for run in ladder.runs:
        _check_model(run.rung.name, run.recipe, data)
    task_of(recipe).check_data(data, ladder.skip_bad)
    if task_of(recipe).reads_links:
        _check_pairs(ladder)
    if recipe.data.links is not None:
        _golds(recipe, data)


def _check_pairs(ladder: LadderRun) -> None:
    """Check that all rungs can read the files of pairs of texts."""
    recipe, data = ladder.recipe, ladder.data
    train = [recipe.data.train.under(folder) for folder in recipe.data.corpora(data).values()]
    for source in (*train, recipe.data.dev.under(data)):
        if STDIN in source.paths and len(ladder.runs) > 1:
            raise BadInput(
                "data.train: cannot be standard input, since every rung of the ladder reads it"
            )
        if STDIN not in source.paths:
            next(read_pairs(source, recipe.data.longest_characters, ladder.dropped), None)


@contextmanager
def _claimed(ladder: LadderRun) -> Iterator[None]:
    """Context that locks the folders of all rungs before the first is trained."""
    runs = ladder.runs if ladder.world.is_leader else ()
    with ExitStack() as locks:
        for run in runs:
            lock = locks.enter_context(claim(run.folder, run.recipe, resume=ladder.resume))
            locks.callback(give_up, lock)
        yield


def _check_model(name: str, recipe: Recipe, data: Path) -> None:
    try:
        check_model(recipe, task_of(recipe).resolve(data).facts)
    except BadInput as error:
        raise BadInput(f"rung {name!r}: {error}") from None


def measure_by_task(
    name: str, model: Model, recipe: Recipe, data: Path, dropped: Dropped = None
) -> LadderResult:
    """Evaluate a trained model on the test set of a recipe by the metrics of its task."""
    task = task_of(recipe)
    scores = task.test_scores(model, task.read_required("test", data, dropped)).scores
    preferred = [None if recipe.expect is None else recipe.expect.metric, recipe.train.metric]
    metric = best_metric([score.name for score in scores], preferred)
    (first,) = (score for score in scores if score.name == metric)
    rest = [score for score in scores if score is not first]
    return LadderResult(name, first, (), None, model.notes["cost"], scores=rest)


def measure_translator(
    name: str, model: Model, recipe: Recipe, data: Path, dropped: Dropped = None
) -> LadderResult:
    """Evaluate a trained translator on the test set of a recipe, and by source length."""
    assert recipe.data.test is not None
    pairs = _pairs(recipe.data.test, recipe, data, dropped)
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    translations = model.translate(sources, recipe.tables[DecodeConfig].search)
    hypotheses, references = [nbest[0].text for nbest in translations], [targets]
    settings: dict[str, Any] = recipe.tables[MeasureConfig].model_dump(exclude={"dev_sentences"})
    lengths = [len(words(source)) for source in sources]
    score = bleu(hypotheses, references, **settings)
    buckets = by_length(bleu_metric(**settings), hypotheses, references, lengths)
    aer = None
    if recipe.data.links is not None and model.facts.cross_attention is not None:
        aer = align_by_best_method(model, *_golds(recipe, data)).aer
    return LadderResult(name, score, buckets, aer, model.notes["cost"])


MEASURES = {Translate.name: measure_translator}
"""Functions that evaluate models of a task in more than its metrics."""


def _golds(recipe: Recipe, data: Path) -> list[GoldPairs]:
    """Pairs and gold links of the development set and of the test set."""
    dev, test, links = recipe.data.dev, recipe.data.test, recipe.data.links
    assert links is not None and test is not None
    golds = []
    for files, name in ((dev, links.dev), (test, links.test)):
        pairs = _pairs(files, recipe, data)
        golds.append((pairs, read_gold_links(data / name, 0, pairs, word_spans)))
    return golds


def _pairs(files: FilesConfig, recipe: Recipe, data: Path, dropped: Dropped = None) -> Pairs:
    return read_text_pairs(files.under(data), recipe.data.longest_characters, dropped)


def _write(ladder: Ladder, folder: Path, tell: Listener) -> None:
    """Write the table to a folder in several formats."""
    write_json(folder / "ladder.json", ladder.figures)
    write_text(folder / "ladder.csv", csv_text(ladder.table))
    if ladder.results[0].buckets:
        write_text(folder / "ladder.svg", ladder.svg())
    write_text(folder / "ladder.html", ladder.html())
    chart = ", and BLEU against length (ladder.svg)" * bool(ladder.results[0].buckets)
    tell(Note(f"{folder / 'ladder.html'}: the table{chart}"))


def slug(name: str) -> str:
    """Folder name made of a name: lower case, with hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "rung"
