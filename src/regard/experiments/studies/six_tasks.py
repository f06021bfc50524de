"""Six tasks, three ways: a baseline, the same with ELMo's layers, and a fine-tuned encoder.

ELMo's paper (Peters et al., 2018, arXiv:1802.05365, table 1) has the tasks, and the published
scores of the first two ways. Every cell of the table is a recipe.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import mean
from textwrap import shorten
from typing import NamedTuple

from regard import (
    BadInput,
    MetricScore,
    Report,
    ScoreEvent,
    StartEvent,
    mean_interval,
    train_events,
)

SCORES = "scores.json"  # of a cell
PAGE = "six-tasks.html"
REASON = 200  # characters of the reason why a cell is not trained
NOT_CHOSEN = "not chosen"
TITLE = "Six tasks, three ways"
WAYS = {"baseline": "baseline", "elmo": "+ ELMo", "fine-tuned": "fine-tuned"}
STARTS = {"elmo": ("elmo", "model.features"), "encoder": ("fine-tuned", "model.start")}
"""Names of starts, each with the way that it is for, and the key of recipes that names it."""


class PublishedScores(NamedTuple):
    """Scores of ELMo's table, and a fine-tuned model's, whose publication is the ``source``.

    ``previous`` is the best before ELMo, ``baseline`` is ELMo's own.
    """

    previous: float
    baseline: float
    elmo: float
    fine_tuned: float | None = None
    source: str = ""


class StudiedTask(NamedTuple):
    """Row of the table: a task, the recipes of its three ways, and published scores.

    Recipes read the ``folder`` of the study's data. ``difference`` says what their data is, and why
    scores do not compare with the published ones.
    """

    name: str
    title: str
    metric: str
    folder: str
    recipes: tuple[str, str, str]
    published: PublishedScores
    difference: str


SIX_TASKS = (
    StudiedTask(
        name="squad",
        title="SQuAD 1.1",
        metric="F1",
        folder="understanding",
        recipes=("squad-bidaf", "squad-bidaf-elmo", "squad"),
        published=PublishedScores(
            84.4, 81.1, 85.8, 88.5, "BERT-base on the development set (Devlin et al., 2018)"
        ),
        difference="34 articles of the development set to learn from, 10 others to be asked; "
        "published: 87,599 questions to learn from, and the hidden test set, by Clark & Gardner's "
        "reader (recipes squad-clark, squad-clark-elmo), not by BiDAF as here",
    ),
    StudiedTask(
        name="snli",
        title="SNLI",
        metric="accuracy",
        folder="understanding",
        recipes=("snli-esim", "snli-esim-elmo", "snli"),
        published=PublishedScores(88.6, 88.0, 88.7, 89.9, "GPT (Radford et al., 2018)"),
        difference="the 9,842 pairs of the development set to learn from, and the test set; "
        "published: 549,367 pairs to learn from, and the same test set",
    ),
    StudiedTask(
        name="roles",
        title="semantic roles",
        metric="F1",
        folder="syntax",
        recipes=("propbank-ewt", "propbank-ewt-elmo", "propbank-ewt-bert"),
        published=PublishedScores(81.7, 81.4, 84.6),
        difference="web text with PropBank's roles (English Web Treebank), 12,491 sentences to "
        "learn from; published: OntoNotes (CoNLL-2012), which needs a licence",
    ),
    StudiedTask(
        name="coreference",
        title="coreference",
        metric="CoNLL-F1",
        folder="understanding",
        recipes=("litbank", "litbank-elmo", "litbank-bert"),
        published=PublishedScores(
            67.2, 67.2, 70.4, 73.9, "BERT-base (Joshi et al., 2019, arXiv:1908.09091)"
        ),
        difference="passages of novels (LitBank), 72 to learn from; published: 2,802 documents of "
        "OntoNotes (CoNLL-2012), which needs a licence",
    ),
    StudiedTask(
        name="entities",
        title="named entities",
        metric="F1",
        folder="understanding",
        recipes=("conll2003-glove", "conll2003-glove-elmo", "conll2003"),
        published=PublishedScores(
            91.93, 90.15, 92.22, 92.4, "BERT-base (Devlin et al., 2018, table 7)"
        ),
        difference="CoNLL-2003 as published, but word vectors of 50 numbers for 40,000 words, a "
        "smaller ELMo and a smaller encoder",
    ),
    StudiedTask(
        name="sst5",
        title="SST-5",
        metric="accuracy",
        folder="understanding",
        recipes=("sst5-bcn", "sst5-bcn-elmo", "sst5"),
        published=PublishedScores(
            53.7, 51.4, 54.7, 53.2, "BERT-base (Munikar et al., 2019, arXiv:1910.03474)"
        ),
        difference="8,544 whole sentences to learn from, and the test set as published; word "
        "vectors, ELMo and encoder are smaller",
    ),
)
"""The rows of the table."""


class StudyCell(NamedTuple):
    """Cell of the table: a task, one of the ``WAYS``, and the folder it starts from, if named."""

    task: StudiedTask
    way: str
    start: str | None = None

    @property
    def name(self) -> str:
        """Task and way, "entities/elmo"."""
        return f"{self.task.name}/{self.way}"

    @property
    def folder(self) -> str:
        """The name of the folder of the cell."""
        return f"{self.task.name}-{self.way}"

    @property
    def recipe(self) -> str:
        """The name of the recipe."""
        return self.task.recipes[self._number]

    @property
    def published(self) -> float | None:
        """The published score."""
        return self.task.published[1:4][self._number]

    @property
    def settings(self) -> dict[str, str]:
        """Keys of the recipe that name the start."""
        start = self.start
        return (
            {} if start is None else {key: start for way, key in STARTS.values() if way == self.way}
        )

    @property
    def _number(self) -> int:
        return [*WAYS].index(self.way)


class SeedScore(NamedTuple):
    """Test score of one run, signature of the metric, and minutes and precision of training."""

    seed: int
    score: float
    signature: str
    minutes: float
    precision: str


@dataclass(frozen=True)
class CellResult:
    """Scores of a cell, one for each seed; ``reason`` says why there are none, or too few."""

    cell: StudyCell
    runs: tuple[SeedScore, ...] = ()
    reason: str = ""
    is_chosen: bool = True

    @property
    def is_shown(self) -> bool:
        """Whether the cell was chosen, or has scores or a reason of its own."""
        return self.is_chosen or self.reason != NOT_CHOSEN

    @property
    def is_incomplete(self) -> bool:
        """Whether some seeds have a score and others were not trained."""
        return bool(self.runs and self.reason)

    @property
    def scores(self) -> dict[int, float]:
        """Scores by seed."""
        return {run.seed: run.score for run in self.runs}

    def __str__(self) -> str:
        scores = [*self.scores.values()]
        if not scores:
            return "–"
        low, high = mean_interval(scores) if len(scores) > 1 else (None, None)
        interval = "" if low is None else f" [{low:.2f}, {high:.2f}]"
        return f"{mean(scores):.2f}{interval}{' (incomplete)' if self.is_incomplete else ''}"


@dataclass(frozen=True)
class SixTasksTable:
    """Results of all cells: the published table with ours beside it, and a record of each cell."""

    results: Sequence[CellResult]

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the published table, and of ours."""
        published, ours = (
            [f"{whose} {title}" for title in WAYS.values()] for whose in ("published", "our")
        )
        return ["task", "metric", "previous best", *published, *ours]

    @property
    def rows(self) -> list[list[str]]:
        """A row for each task."""
        rows = []
        for task, results in self._by_task.items():
            published = ["–" if score is None else str(score) for score in task.published[:4]]
            rows.append([task.title, task.metric, *published, *map(str, results)])
        return rows

    @property
    def notes(self) -> list[str]:
        """Sources of scores, the data of each task, and the reasons of cells without a score."""
        notes = [f"our scores: {self._seeds}; published: Peters et al. (2018), table 1"]
        for task in self._by_task:
            source = task.published.source and f"; fine-tuned: {task.published.source}"
            notes.append(f"{task.title}: {task.difference}{source}")
        reasons: dict[str, list[str]] = {}
        for result in self.results:
            if result.reason and result.is_shown:
                reasons.setdefault(result.reason, []).append(result.cell.name)
        return notes + [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]

    def records(self) -> Iterator[dict[str, str | float | None]]:
        """Record of each cell; a gain is over the baseline, as a mean over the seeds of both."""
        baselines = {
            result.cell.task.name: result.scores
            for result in self.results
            if result.cell.way == "baseline"
        }
        for result in self.results:
            cell, scores = result.cell, result.scores
            below = {} if cell.way == "baseline" else baselines.get(cell.task.name, {})
            gains = [scores[seed] - below[seed] for seed in scores if seed in below]
            yield {
                "task": cell.task.name,
                "way": cell.way,
                "recipe": cell.recipe,
                "metric": cell.task.metric,
                "published": cell.published,
                **_figures("score", [*scores.values()]),
                **_figures("gain", gains),
                "seeds": len(scores),
                "minutes": sum(run.minutes for run in result.runs) if scores else None,
                "precision": result.runs[0].precision if scores else "",
                "test set": result.runs[0].signature if scores else "",
                "remark": result.reason,
            }

    def html(self) -> str:
        """The table as a page."""
        return Report(TITLE, self.columns, self.rows, notes=self.notes).html()

    @property
    def _seeds(self) -> str:
        """Number of seeds of all cells that have a score, and what an interval is."""
        counts = sorted({len(result.runs) for result in self.results if result.runs})
        if counts in ([], [1]):
            return "one seed" if counts else "none"
        number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return f"means over {number} seeds, with the 95% interval of several (Student's t)"

    @property
    def _by_task(self) -> dict[StudiedTask, list[CellResult]]:
        """All cells of each task that has a cell to show."""
        by_task: dict[StudiedTask, list[CellResult]] = {}
        for result in self.results:
            by_task.setdefault(result.cell.task, []).append(result)
        return {
            task: results
            for task, results in by_task.items()
            if any(result.is_shown for result in results)
        }

    @property
    def is_complete(self) -> bool:
        """Whether all cells that were chosen have the scores of all their seeds."""
        return not any(result.is_chosen and result.reason for result in self.results)


def _figures(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """Mean of the values, and from two values on its 95% interval."""
    low, high = mean_interval(values) if len(values) > 1 else (None, None)
    return {name: mean(values) if values else None, f"{name} low": low, f"{name} high": high}


def choose_cells(
    tasks: Sequence[StudiedTask], names: Iterable[str], starts: Mapping[str, str]
) -> dict[StudyCell, bool]:
    """All cells, and whether ``names`` choose them: tasks, ways or cells; without names, all."""
    for name in starts:
        if name not in STARTS:
            raise BadInput(f"no start is called {name!r}; there are {', '.join(STARTS)}")
    of_ways = {STARTS[name][0]: folder for name, folder in starts.items()}
    cells = [StudyCell(task, way, of_ways.get(way)) for task in tasks for way in WAYS]
    known = {*WAYS, *(task.name for task in tasks), *(cell.name for cell in cells)}
    chosen = {*names}
    for name in chosen - known:
        there = ", ".join([*(task.name for task in tasks), *WAYS])
        raise BadInput(
            f"no cell is called {name!r}; there are {there}, and pairs such as {cells[0].name}"
        )
    return {
        cell: not chosen or not chosen.isdisjoint((cell.task.name, cell.way, cell.name))
        for cell in cells
    }


@dataclass(frozen=True)
class SixTasksStudy:
    """The study in the folder ``out``: its data, number of seeds, device, and printer of lines.

    Runs whose scores are in the folder are finished; others are started, or resumed. ``write``
    writes a file, the whole text or, if killed, nothing. ``digest`` is the hash of the files of
    a start.
    """

    out: Path
    data: Path
    seeds: int
    device: str | None
    note: Callable[[str], None]
    write: Callable[[Path, str], None]
    digest: Callable[[str], str]

    def run(self, cells: Mapping[StudyCell, bool]) -> SixTasksTable:
        """Train the cells that are chosen (true), and write the table with all finished runs."""
        finished = {cell: self._finished(cell) for cell, chosen in cells.items() if chosen}
        self._check_data(finished)
        results = [
            self._train_cell(cell, finished[cell]) if chosen else self._result(cell)
            for cell, chosen in cells.items()
        ]
        table = SixTasksTable(results)
        self.write(self.out / PAGE, table.html())
        return table

    def _check_data(self, finished: Mapping[StudyCell, Sequence[SeedScore]]) -> None:
        """Refuse data without a folder of any cell that has runs to start."""
        unfinished = [cell for cell, runs in finished.items() if self._missing_seeds(runs)]
        folders = {cell.task.folder: None for cell in unfinished}
        if folders and not any((self.data / folder).is_dir() for folder in folders):
            names = " or ".join(folders)
            raise BadInput(f"{self.data}: has no folder {names}, where recipes find files")

    def _result(self, cell: StudyCell) -> CellResult:
        """Finished runs of a cell that is not chosen."""
        try:
            runs = self._finished(cell, is_chosen=False)
        except BadInput as error:
            return CellResult(cell, reason=str(error), is_chosen=False)
        return CellResult(cell, runs, "" if runs else NOT_CHOSEN, is_chosen=False)

    def _missing_seeds(self, runs: Sequence[SeedScore]) -> list[int]:
        return sorted(self._seeds - {run.seed for run in runs})

    @property
    def _seeds(self) -> set[int]:
        return {*range(1, self.seeds + 1)}

    def _train_cell(self, cell: StudyCell, runs: tuple[SeedScore, ...]) -> CellResult:
        """Train with the seeds that have no finished run; the first that fails ends the cell."""
        for seed in self._missing_seeds(runs):
            self.note(f"\n{cell.name}, seed {seed}: {cell.recipe}")
            try:
                score = self._train(cell, seed, runs[0].precision if runs else None)
            except BadInput as error:
                reason = shorten(str(error), REASON, placeholder=" …")
                self.note(f"{cell.name}: {reason}")
                seeds = f"seed {seed} is " if runs else ""
                return CellResult(cell, runs, f"{seeds}not trained: {reason}")
            runs = (*runs, score)
            self._write(cell, runs)
        return CellResult(cell, runs)

    def _train(self, cell: StudyCell, seed: int, precision: str | None) -> SeedScore:
        """Train by the recipe of a cell, or resume its run, and score the test set.

        All seeds of a cell have the ``precision`` of the first, which the machine may choose.
        """
        folder, data = self.out / cell.folder / f"seed-{seed}", self.data / cell.task.folder
        settings: dict[str, object] = {**cell.settings, "train.seed": seed}
        if precision is not None:
            settings["train.precision"] = precision
        run = train_events(
            cell.recipe, data, folder, settings=settings, device=self.device, resume=True
        )
        scores = list[MetricScore]()
        for event in run:
            match event:
                case StartEvent():
                    precision = event.precision.kind
                case ScoreEvent(test_set="test"):
                    scores += [score for score in event.scores if score.name == cell.task.metric]
            for line in event.lines() if event.figures.get("event") != "train" else ():
                self.note(line)
        if not scores:
            fault = f"{cell.task.metric} is not measured on a test set (data.test)"
            raise BadInput(f"{cell.recipe}: {fault}")
        minutes = event.progress.seconds / 60
        return SeedScore(seed, scores[0].value, scores[0].signature, minutes, precision or "")

    def _origin(self, cell: StudyCell) -> dict[str, object]:
        return {"recipe": cell.recipe, "data": str(self.data.resolve()), "settings": cell.settings}

    def _start(self, cell: StudyCell) -> str | None:
        """Digest of the files that a cell starts from, if named."""
        return None if cell.start is None else self.digest(cell.start)

    def _finished(self, cell: StudyCell, is_chosen: bool = True) -> tuple[SeedScore, ...]:
        """Finished runs of a cell; runs of other data or starts are refused."""
        stored, runs = self._read(cell)
        if not stored:
            return runs
        origin = self._origin(cell)
        if cell.start is None and not (is_chosen and self._missing_seeds(runs)):
            del origin["settings"]  # nothing is left to start
        changed = [key for key in origin if stored.get(key) != origin[key]]
        if not changed and self._start(cell) not in (None, stored.get("start")):
            changed = ["start"]
        if changed:
            fault = f"its runs have other {' and '.join(changed)} ({stored.get(changed[0])})"
            raise BadInput(f"{self._path(cell)}: {fault}; change it back, or choose another folder")
        return runs

    def _path(self, cell: StudyCell) -> Path:
        return self.out / cell.folder / SCORES

    def _read(self, cell: StudyCell) -> tuple[dict[str, object], tuple[SeedScore, ...]]:
        """Origin and finished runs of a cell; empty: there are none."""
        path = self._path(cell)
        if not path.exists():
            return {}, ()
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            runs = tuple(SeedScore(**run) for run in stored.pop("runs"))
            if not all(isfinite(run.score + run.minutes + run.seed) for run in runs):
                raise ValueError
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            advice = "remove it, and its runs are scored again"
            raise BadInput(f"{path}: damaged; {advice}") from None
        return stored, runs

    def _write(self, cell: StudyCell, runs: Sequence[SeedScore]) -> None:
        """Write the finished runs of a cell."""
        origin = {**self._origin(cell), "start": self._start(cell)}
        record = {**origin, "runs": [run._asdict() for run in runs]}
        self.write(self._path(cell), json.dumps(record, indent=2))
