"""Studies as functions with results: six tasks, agreement, recency."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regard.core.errors import ArgumentName, BadInput
from regard.core.files import digest_folder, write_text
from regard.core.lock import LOCK, is_vacant, lock_folder, lock_vacant
from regard.data.readers.text_files import name_of, read_lines
from regard.experiments.bulk.line_source import MAX_TOKENS, check_length
from regard.experiments.notes import Listener, Note, ignore, noting
from regard.experiments.options import LoadOptions
from regard.experiments.result import (
    ExperimentResult,
    Figures,
    OutputTable,
    number_column,
    plain_table,
    text_column,
)
from regard.experiments.studies import recency, six_tasks
from regard.experiments.studies.agreement import AgreementTable, score_agreement, study_models
from regard.experiments.studies.agreement_data import agreement_sentences
from regard.experiments.studies.six_tasks import PAGE, SixTasksStudy, SixTasksTable, choose_cells
from regard.models.folders.hub import local_folder
from regard.views.line_chart import Report

STORED = LoadOptions()  # precision and device of the folder


@dataclass(frozen=True)
class SixTasksResult(ExperimentResult):
    """The published table with ours, and the figures of every cell."""

    table: SixTasksTable

    @property
    def is_complete(self) -> bool:
        """Whether every cell that was to be trained has the scores of all its seeds."""
        return self.table.is_complete

    def tables(self) -> list[OutputTable]:
        table = self.table
        tables = [plain_table(table.columns, table.rows, table.notes)]
        if trained := [record for record in table.records() if record["seeds"]]:
            columns = [
                text_column(name)
                if isinstance(value, str)
                else number_column(name, _form(name), "–")
                for name, value in trained[0].items()
            ]
            tables.append(OutputTable(columns, [[*record.values()] for record in trained]))
        return tables

    def records(self) -> Iterator[Mapping[str, object]]:
        return iter(self.table.records())


def _form(name: str) -> str:
    """Format of a column of numbers."""
    if name in ("published", "seeds"):
        return ""
    return ".1f" if name == "minutes" else "+.2f" if name.startswith("gain") else ".2f"


def train_six_tasks(
    data: Path,
    out: Path,
    starts: Sequence[str] = (),
    cells: Sequence[str] = (),
    seeds: int = 1,
    device: str | None = None,
    on_event: Listener = ignore,
) -> SixTasksResult:
    """Train the cells that are chosen; ``starts`` are texts such as "elmo=FOLDER"."""
    chosen = choose_cells(six_tasks.SIX_TASKS, cells, _parse_starts(starts))
    if not data.is_dir():
        raise BadInput((ArgumentName("data"), f" {data}: no such folder"))
    folders = {cell.folder for cell in chosen} | {PAGE, LOCK}
    if out.is_file() or (out.is_dir() and {path.name for path in out.iterdir()} - folders):
        raise BadInput(f"{out}: has files that are not of this study; choose another folder")

    with lock_folder(out) as lock:
        try:
            places = (out, data, seeds, device, noting(on_event))
            table = SixTasksStudy(*places, write_text, cache(_digest)).run(chosen)
        except BadInput:
            if is_vacant(out):
                lock.discard()
            raise
    on_event(Note(f"\n{out / PAGE}: the table as a page"))
    return SixTasksResult(table)


@dataclass(frozen=True)
class AgreementResult(ExperimentResult):
    """Accuracy of language models by distance and attractors."""

    table: AgreementTable

    def tables(self) -> list[OutputTable]:
        return [plain_table(self.table.columns, self.table.rows, self.table.notes)]

    def records(self) -> Iterator[Mapping[str, object]]:
        return self.table.records()


def measure_agreement(
    models: Sequence[str],
    sentences: int = 40,
    seed: int = 1,
    runs: LoadOptions = STORED,
    on_event: Listener = ignore,
) -> AgreementResult:
    """Score language models on subject-verb agreement; sentences with unknown words are skipped."""
    tests, scores = agreement_sentences(sentences, seed), {}
    for name in dict.fromkeys(models):
        scores[name] = [score_agreement(runs.load(name), tests)]
        if remark := scores[name][0].remark:
            on_event(Note(f"{name}: {remark}"))
    return AgreementResult(AgreementTable.of(scores))


def train_agreement(
    out: Path,
    sentences: int = 40,
    seed: int = 1,
    *,
    seeds: int = 1,
    quick: bool = False,
    device: str | None = None,
    on_event: Listener = ignore,
) -> AgreementResult:
    """Train four language models of one size in a folder, and score them."""
    tests = agreement_sentences(sentences, seed)
    with lock_vacant(out):
        table = study_models(out, tests, device, seeds, quick, noting(on_event))
    page = out / "agreement.html"
    on_event(Note(f"{page}: the table, and accuracy by distance and attractors"))
    return AgreementResult(table)


def measure_recency(
    models: Sequence[str], file: str, max_length: int | None = None, runs: LoadOptions = STORED
) -> tuple[Figures, Report]:
    """Gradient norms by distance of models, beside untrained ones, on the lines of a file."""
    loaded = {name: runs.load(name) for name in dict.fromkeys(models)}
    texts = list(read_lines(file))
    if not any(map(str.strip, texts)):
        raise BadInput(f"{name_of(file)}: no text; each line is one")
    words = loaded[models[0]].encoder.text.words
    for number, text in enumerate(texts, start=1):
        where = f"{name_of(file)}:{number}"
        check_length((text,), words, max_length or MAX_TOKENS, where, special=0)
    norms, report = recency.compare_models(loaded, texts)
    table = plain_table(*recency.distance_table(norms))
    return Figures([table], [*recency.distance_records(norms)]), report


def train_recency(
    out: Path,
    *,
    seeds: int = 3,
    quick: bool = False,
    device: str | None = None,
    on_event: Listener = ignore,
) -> Figures:
    """Train four classifiers of agreement in a folder: accuracy, and charts of gradient norms."""
    with lock_vacant(out):
        report, records = recency.study_readers(out, device, seeds, quick, noting(on_event))
    on_event(Note(f"{out / 'recency.html'}: the table, and gradient norm by distance"))
    return Figures([plain_table(report.columns, report.rows, report.notes[:1])], records)


def _parse_starts(starts: Sequence[str]) -> dict[str, str]:
    """Folders of starts by name."""
    folders: dict[str, str] = {}
    for start in starts:
        name, equals, folder = start.partition("=")
        wrong = (ArgumentName("starts"), f" {start}: ")
        if not equals or not folder:
            raise BadInput((*wrong, "write NAME=FOLDER"))
        if name in folders:
            raise BadInput((*wrong, f"{name} is given twice"))
        folders[name] = folder
    return folders


def _digest(start: str) -> str:
    return digest_folder(local_folder(start))
