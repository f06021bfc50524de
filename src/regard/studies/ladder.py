"""Ladder: models trained on the same data, compared in a table, a chart by length and a page."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.api import Model, load
from regard.cli.alignment import GoldPairs, align_by_best_method
from regard.cli.io.console import OUT, note, print_table, slug
from regard.cli.scores import check_expected
from regard.data.config import FilesConfig
from regard.data.readers.aligned_pairs import Pairs, read_gold_links, read_text_pairs
from regard.data.readers.fields import DropCounts, Dropped
from regard.data.readers.sources import read_pairs
from regard.data.readers.text_files import STDIN
from regard.ground.errors import BadInput
from regard.ground.files import write_json, write_text
from regard.inference.generation_settings import DecodeConfig
from regard.inside.views.line_chart import Chart, ChartLine, Report
from regard.inside.views.markup import HTMLPage
from regard.metrics.bleu import bleu, bleu_metric
from regard.metrics.translation import LengthBucket, MetricScore, by_length
from regard.tasks.translate import MeasureConfig
from regard.text.words import word_spans, words
from regard.training.distributed import World
from regard.training.recipe import Recipe, task_of
from regard.training.run import Run, check_model
from regard.training.run_folder import claim, give_up

Train = Callable[[Recipe, Path], Run]


@dataclass(frozen=True)
class LadderResult:
    """Results of one model; ``aer`` is None without gold links or cross-attention."""

    name: str
    score: MetricScore
    buckets: Sequence[LengthBucket]
    aer: float | None
    cost: dict[str, float]

    @property
    def figures(self) -> dict[str, object]:
        """Record of the results for JSON."""
        metric, lengths = self.score.name, []
        for bucket in self.buckets:
            words = {"words": [bucket.shortest, bucket.longest], "sentences": bucket.sentences}
            lengths.append({**words, metric: bucket.score.value})
        score = {metric: self.score.value, "signature": self.score.signature}
        costs = {"aer": self.aer, "cost": self.cost, "tokens per second": self.speed}
        return {"rung": self.name, **score, "by length": lengths, **costs}

    @property
    def speed(self) -> float:
        """Source and target tokens per second of training, including evaluation."""
        return self.cost["tokens"] / max(self.cost["device_seconds"], 1e-9)

    def cells(self) -> list[str]:
        """Cells of the row of the table."""
        return [
            self.name,
            f"{self.score.value:.1f}",
            *(f"{bucket.score.value:.1f}" for bucket in self.buckets),
            "–" if self.aer is None else f"{self.aer:.3f}",
            f"{self.cost['parameters']:,.0f}",
            f"{self.cost['training_flops']:.2g}",
            f"{self.speed:,.0f}",
        ]


@dataclass(frozen=True)
class Ladder(HTMLPage):
    """Results of all models, and the search they were decoded with."""

    title: str
    results: Sequence[LadderResult]
    search: str

    @property
    def columns(self) -> list[str]:
        """Column names of the table."""
        first, *rest = map(str, self.results[0].buckets)
        buckets = [f"{first} words", *rest]
        return ["model", "BLEU", *buckets, "AER", "parameters", "FLOPs", "tokens/s"]

    @property
    def notes(self) -> list[str]:
        """Explanations of the columns."""
        buckets, score = self.results[0].buckets, self.results[0].score
        sizes = ", ".join(str(bucket.sentences) for bucket in buckets)
        return [
            f"{score.name} {score.signature}, {self.search}; "
            f"by number of source words, {sizes} sentences",
            "AER: alignment error rate of the cross-attention, with the method chosen on the "
            "development set; FLOPs of training; tokens per second of training and evaluation",
        ]

    def svg(self) -> str:
        """BLEU by source length, as a standalone SVG."""
        return self._chart(self.title).svg()

    def html(self) -> str:
        rows = [result.cells() for result in self.results]
        charts = {"BLEU": self._chart("BLEU by source length")}
        return Report(self.title, self.columns, rows, charts, self.notes).html()

    def _chart(self, title: str) -> Chart:
        ticks = [(bucket.mean, str(bucket)) for bucket in self.results[0].buckets]
        lines = []
        for result in self.results:
            points = [(bucket.mean, bucket.score.value) for bucket in result.buckets]
            lines.append(ChartLine(result.name, points))
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

    @property
    def dropped(self) -> Dropped:
        """Counts of dropped lines, if lines may be dropped."""
        return DropCounts() if self.skip_bad else None

    @property
    def runs(self) -> dict[Path, Recipe]:
        """Recipe of every rung, by the folder of its run."""
        names = [slug(rung.name) for rung in self.recipe.rung]
        if len(set(names)) < len(names):
            raise BadInput(f"two rungs of the ladder have the same name: {', '.join(names)}")
        folders = [self.folder / name for name in names]
        return dict(zip(folders, map(self.recipe.at, self.recipe.rung), strict=True))


def train_ladder(ladder: LadderRun, check: bool, whole: bool) -> bool:
    """Train every rung in its own folder and print the table.

    The table is written to files if these are all rungs (``whole``). Returns False if ``check`` is
    true and an expected score is not reached.
    """
    _check(ladder)
    recipe, world = ladder.recipe, ladder.world
    results = []
    with _claimed(ladder):
        for rung, (folder, described) in zip(recipe.rung, ladder.runs.items(), strict=True):
            if world.is_leader:
                note(f"\n{rung.name}")
            run = ladder.train(described, folder)
            if world.is_leader:
                model = load(run.model_folder, str(world.device), precision="auto")
                results.append(measure(rung.name, model, recipe, ladder.data, ladder.dropped))
                model.save(run.model_folder)  # with its alignment method
            world.barrier()
    if not world.is_leader:
        return True
    search = recipe.tables[DecodeConfig].search
    greedy = "greedy search" if search.size == 1 else f"beam of {search.size}, {search.formula}"
    _show(Ladder(recipe.about.title, results, greedy), ladder.folder if whole else None)
    if not check:
        return True
    pairs = zip(recipe.rung, results, strict=True)
    reached = [check_expected(rung.expect, [own.score]) for rung, own in pairs if rung.expect]
    return all(reached)  # all are printed


def _check(ladder: LadderRun) -> None:
    """Check every rung and all data before the first rung is trained."""
    recipe, data = ladder.recipe, ladder.data
    if recipe.data.test is None:
        raise BadInput("a ladder needs a test set (data.test)")
    for rung, described in zip(recipe.rung, ladder.runs.values(), strict=True):
        _check_model(rung.name, described, data)
    task_of(recipe).check_data(data, ladder.skip_bad)
    for files in (recipe.data.train, recipe.data.dev):
        source = files.under(data)
        if STDIN in source.paths and len(recipe.rung) > 1:
            raise BadInput(
                "data.train: cannot be standard input, since every rung of the ladder reads it"
            )
        if STDIN not in source.paths:
            next(read_pairs(source, recipe.data.longest_characters, ladder.dropped), None)
    if recipe.data.links is not None:
        _golds(recipe, data)


@contextmanager
def _claimed(ladder: LadderRun) -> Iterator[None]:
    """Context that locks the folders of all rungs before the first is trained."""
    runs = ladder.runs.items() if ladder.world.is_leader else ()
    with ExitStack() as locks:
        for folder, described in runs:
            lock = locks.enter_context(claim(folder, described, resume=ladder.resume))
            locks.callback(give_up, lock)
        yield


def _check_model(name: str, recipe: Recipe, data: Path) -> None:
    try:
        check_model(recipe, task_of(recipe).resolve(data).facts)
    except BadInput as error:
        raise BadInput(f"rung {name!r}: {error}") from None


def measure(
    name: str, model: Model, recipe: Recipe, data: Path, dropped: Dropped = None
) -> LadderResult:
    """Evaluate a trained model on the test set of a recipe."""
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


def _show(ladder: Ladder, folder: Path | None) -> None:
    """Print the table, and write it to a folder."""
    if folder is not None:
        write_json(folder / "ladder.json", {"rungs": [own.figures for own in ladder.results]})
        write_text(folder / "ladder.svg", ladder.svg())
        write_text(folder / "ladder.html", ladder.html())
        note(f"{folder / 'ladder.html'}: the table, and BLEU against length (ladder.svg)")
    else:
        note("not all rungs: ladder.html is written when --resume goes through all of them")
    print_table(ladder.columns, [result.cells() for result in ladder.results])
    for line in ladder.notes:
        OUT.print(line, markup=False)
